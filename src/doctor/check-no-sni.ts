// A connection without SNI, as pods make it: through the agents where they can be reached from here; else to the gateway
// with the cluster's id, as an agent would send it, where this machine is among `agents`.

import type { Cluster } from '../cluster/cluster.ts';
import { formatHostPort } from '../config/address.ts';
import { buildUplinkHeader } from '../gateway/stages/uplink.ts';
import { parseIp } from '../wire/ip-address.ts';
import type { Report } from './check.ts';
import type { TenantEndpointsFound } from './check-tenant-endpoints.ts';
import type { Place } from './gateway-places.ts';
import type { Address, Shaken } from './network.ts';
import { apiHostOf, type World } from './world.ts';

const NAME_INSIDE = 'kubernetes.default.svc';
/** Agents that are tried. */
const MAX_AGENTS = 3;

export async function checkNoSni(
  cluster: Cluster,
  world: Pick<World, 'network' | 'places' | 'explainer' | 'keyOf'>,
  reached: ReadonlySet<Place>,
  endpoints: TenantEndpointsFound | undefined,
  report: Report,
): Promise<void> {
  const agents = (endpoints?.addresses ?? []).slice(0, MAX_AGENTS);
  const { port } = endpoints ?? {};
  const reachable: Address[] = [];
  for (const host of port === undefined ? [] : agents) {
    if ((await world.network.dial({ host, port: port as number })).ok)
      reachable.push({ host, port: port as number });
  }
  for (const at of reachable) {
    const shaken = await world.network.shake({ at, alpn: ['h2'] });
    judge(cluster, `through the agent at ${formatHostPort(at.host, at.port)}`, shaken, AGENT_FIX, report);
  }
  if (reachable.length === 0) await asAgent(cluster, world, reached, report);
}

const AGENT_FIX = 'The log of the agent says which side refused: docs/agent/troubleshoot.md';

async function asAgent(
  cluster: Cluster,
  { network, places, explainer, keyOf }: Pick<World, 'network' | 'places' | 'explainer' | 'keyOf'>,
  reached: ReadonlySet<Place>,
  report: Report,
): Promise<void> {
  const { id } = cluster;
  // Nothing reaches it without a server name.
  if (id === undefined) return;
  const place = places.all.find(one => one.listener.agents.length > 0 && reached.has(one));
  if (place === undefined)
    return report.skip('tenant', 'no listener has agents, so nothing reaches a cluster by its id');
  const dialled = await network.dial(place.at);
  if (!dialled.ok) return;
  const { on } = place.listener;
  const question = { host: '', protocol: 'tls', id, from: dialled.local, on } as const;
  const { served, reason } = explainer.explain(question);
  if (reason === 'untrusted-agent') {
    return report.skip(
      'tenant',
      `${dialled.local} (this machine) is not in agents of ${on}, so a connection by id cannot be tried from here`,
    );
  }
  if (!served) {
    const fix = `See causeway explain --id ${id} --from ${dialled.local}`;
    return report.fail(
      'tenant',
      'NoSniRefused',
      `A connection with the id and no server name would be refused: ${reason}`,
      fix,
    );
  }
  const key = keyOf?.(id);
  if (cluster.identityRequired && key === undefined) {
    return report.skip('tenant', 'the id must be signed, and identity.secretFile cannot be read here');
  }
  const uplink = { kind: 'proxy', clusterId: id, ...(key !== undefined && { key }) } as const;
  const shaken = await network.shake({
    at: place.at,
    alpn: ['h2'],
    before: (local, remote) => buildUplinkHeader(uplink, endpointOf(local), endpointOf(remote)),
  });
  const fix = 'Look at the log of the gateway: the reason of that connection (docs/close-reasons.md)';
  judge(
    cluster,
    `with its id, as an agent sends it, at ${formatHostPort(place.at.host, place.at.port)}`,
    shaken,
    fix,
    report,
  );
}

function endpointOf({ host, port }: Address) {
  return { address: parseIp(host) ?? new Uint8Array(4), port };
}

function judge(cluster: Cluster, how: string, shaken: Shaken, fix: string, report: Report): void {
  if (!shaken.ok) {
    return report.fail(
      'tenant',
      'NoSniRefused',
      `A connection without a server name fails ${how}: ${shaken.text}`,
      fix,
    );
  }
  // API servers behind one address may have certificates of their own, so names are compared, not certificates.
  const name = apiHostOf(cluster) ?? NAME_INSIDE;
  if (!shaken.certificate.covers(name)) {
    const shown = shaken.certificate.names.slice(0, 3).join(', ') || 'no names';
    const text = `A connection without a server name ${how} ends at another server: its certificate has ${shown}, not ${name}`;
    return report.fail(
      'tenant',
      'NoSniElsewhere',
      text,
      'Compare the id of the agent with that of the cluster, and the hosts "*" of the file',
    );
  }
  report.ok('tenant', `A connection without a server name works ${how}`);
}
