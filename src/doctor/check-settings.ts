// Settings that are valid, and that people have been bitten by: each is seen in the file alone.

import type { Cluster, Route } from '../cluster/cluster.ts';
import type { Config, Listener } from '../config/config.ts';
import type { Report } from './check.ts';
import { routeOfKind } from './world.ts';

/**
 * Watches are idle for minutes: kubeadm#2227, kubespray#655 and gardener#15708 are users whose watches were cut after 1
 * to 10 minutes.
 */
const LEAST_IDLE_MS = 601_000;
/** Load balancers of clouds forget idle connections silently, the strictest after 4 minutes; Gardener uses 55 s. */
const MOST_KEEPALIVE_MS = 55_000;
const EVERYONE = /\/0+$/;

/** Of the gateway as a whole. */
export function checkSettings({ timeouts, listen, clusters, identity }: Config, report: Report): void {
  const { idleMs, keepaliveMs } = timeouts;
  if (idleMs !== undefined && idleMs < LEAST_IDLE_MS) {
    report.warn(
      'config',
      'IdleTimeoutShort',
      `timeouts.idle is ${seconds(idleMs)}: watches, kubectl logs -f and exec that are quiet for longer are cut`,
      'Set timeouts.idle to off (the default), or to an hour or more',
    );
  }
  if (keepaliveMs === undefined || keepaliveMs > MOST_KEEPALIVE_MS) {
    report.warn(
      'config',
      'KeepaliveSlow',
      `timeouts.keepalive is ${keepaliveMs === undefined ? 'off' : seconds(keepaliveMs)}: load balancers and firewalls on the way drop quiet connections silently, some after 4 minutes`,
      'Set timeouts.keepalive to 30s (the default); at most 55s',
    );
  }
  const isSigned = (cluster: Cluster) => identity?.required === true || cluster.identityRequired;
  const unsigned = clusters.filter(cluster => cluster.id !== undefined && !isSigned(cluster));
  for (const listener of listen) checkListener(listener, unsigned, report);
}

function checkListener(
  { on, agents, balancers }: Listener,
  unsigned: readonly Cluster[],
  report: Report,
): void {
  if (agents.some(cidr => EVERYONE.test(cidr)) && unsigned.length > 0) {
    const named = unsigned
      .slice(0, 3)
      .map(({ name }) => `'${name}'`)
      .join(', ');
    const more = unsigned.length > 3 ? ` and ${unsigned.length - 3} more` : '';
    report.warn(
      'config',
      'AgentsUnrestricted',
      `agents of ${on} has everyone, and the ids of ${named}${more} need no signature: whoever knows an id reaches that API server under it`,
      'Set identity.secretFile and identity.required: true and give agents their keys, or list only the networks of your agents',
    );
  }
  if (balancers.some(cidr => EVERYONE.test(cidr))) {
    report.warn(
      'config',
      'BalancersUnrestricted',
      `balancers of ${on} has everyone: any client can claim any source address in a PROXY header, which passes allow lists and limits`,
      'List only the addresses of your load balancers',
    );
  }
}

/** Of one cluster. */
export function checkClusterSettings(cluster: Cluster, report: Report): void {
  const konnectivity = routeOfKind(cluster, 'konnectivity');
  const { balance, backends } = konnectivity?.pool ?? { balance: '', backends: [] };
  if ((balance === 'source' || balance === 'host') && backends.length > 1) {
    report.warn(
      'config',
      'KonnectivityBalance',
      `konnectivity is balanced by ${balance}: an agent always reaches the same one of ${backends.length} servers, and the others never get a connection`,
      'Remove balance from konnectivity: round-robin is the default',
    );
  }
  for (const route of cluster.routes) checkHealth(route, report);
}

function checkHealth({ kind, pool: { backends, health } }: Route, report: Report): void {
  if (health.check !== 'none' || backends.length < 2) return;
  report.warn(
    'config',
    'HealthChecksOff',
    `${kind} has ${backends.length} backends and no health check: clients wait for one that is down before the next is tried`,
    'Remove health.check: none',
  );
}

function seconds(ms: number): string {
  return ms % 60_000 === 0 ? `${ms / 60_000} min` : `${ms / 1000} s`;
}
