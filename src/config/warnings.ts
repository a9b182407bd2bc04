// Valid but probably unintended settings are served, with a warning.

import type { Cluster, Route } from '../cluster/cluster.ts';
import { knownKinds } from '../cluster/cluster.ts';
import { nearest } from '../text/nearest.ts';
import { maskedCidr } from './address.ts';
import type { Report } from './claims.ts';
import type { Config, Listener } from './config.ts';
import type { Path } from './mistake.ts';
import { pathOfKind } from './path-of-kind.ts';
import { quote } from './reading.ts';

/** Expects a valid file, so that list indexes in Config equal those in the file. */
export function warn(config: Config, report: Report): void {
  const { clusters, listen, sources } = config;
  const kinds = new Set<string>();
  for (const { routes } of clusters) for (const { kind } of routes) kinds.add(kind);
  for (const [i, listener] of listen.entries())
    warnOfListener(listener, ['listen', i], kinds, sources.length > 0, report);
  if (clusters.length === 0 && sources.length === 0) {
    report(['clusters'], 'there are no clusters: every connection will be refused');
  }
  for (const [i, cluster] of clusters.entries()) {
    if (!quiet.has(cluster)) warnOfCluster(cluster, ['clusters', i], report);
    if (cluster.identityRequired && cluster.id === undefined && config.identity?.required !== true) {
      report(
        ['clusters', i, 'identity'],
        'the cluster has no id to sign: every CONNECT to it will be refused',
      );
    }
  }
}

function warnOfListener(
  listener: Listener,
  path: Path,
  kinds: ReadonlySet<string>,
  hasSources: boolean,
  report: Report,
): void {
  warnOfCidrs(listener.balancers, [...path, 'balancers'], report);
  warnOfCidrs(listener.agents, [...path, 'agents'], report);
  // Sources may add routes of other kinds.
  if (hasSources) return;
  for (const [i, kind] of (listener.only ?? []).entries()) {
    if (kinds.has(kind)) continue;
    const meant = nearest(
      kind,
      [...new Set([...kinds, ...knownKinds])].filter(one => one !== kind),
    );
    const hint = meant === undefined ? '' : `; did you mean ${quote(meant)}?`;
    report([...path, 'only', i], `no cluster has a route of kind ${quote(kind)}${hint}`);
  }
}

/** Clusters without a warning: one that did not change is not looked at again. */
const quiet = new WeakSet<Cluster>();

function warnOfCluster(cluster: Cluster, path: Path, reportOne: Report): void {
  let isQuiet = true;
  const report: Report = (...warning) => {
    isQuiet = false;
    reportOne(...warning);
  };
  if (cluster.routes.length === 0) report(path, 'has no routes: nothing of this cluster is reachable');
  warnOfCidrs(cluster.allow ?? [], [...path, 'allow'], report);
  for (const route of cluster.routes) warnOfRoute(cluster, route, path, report);
  if (isQuiet) quiet.add(cluster);
}

function warnOfRoute(cluster: Cluster, route: Route, clusterPath: Path, report: Report): void {
  const path = [...clusterPath, ...pathOfKind(route.kind)];
  warnOfCidrs(route.allow ?? [], [...path, 'allow'], report);
  if (route.pool.backends.length === 0 && !route.redirect)
    report(path, 'has no backends: its connections will be refused');
  if (route.redirect && !cluster.routes.some(other => other.kind === 'apps-https')) {
    report(path, 'redirects to https, which this cluster does not have');
  }
  if (route.hosts.length > 0 || route.connect.length > 0) return;
  if (route.kind !== 'api') report(path, 'has no hosts and no connect names: nothing can reach it');
  else if (cluster.id === undefined) {
    report(
      path,
      `has no hosts, and its cluster has no id: only a CONNECT to ${quote(cluster.name)} can reach it`,
    );
  }
}

function warnOfCidrs(cidrs: readonly string[], path: Path, report: Report): void {
  for (const [i, cidr] of cidrs.entries()) {
    const masked = maskedCidr(cidr);
    if (masked !== undefined)
      report([...path, i], `${quote(cidr)} means ${masked}: bits beyond the prefix are ignored`);
  }
}
