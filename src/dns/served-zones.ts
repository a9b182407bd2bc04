// What our DNS server answers, as plain data. `servedNames()` says on the control thread which addresses each host has: the
// gateway's, or, for the apps of a cluster whose nodes are followed, those of its nodes. `servedZones()` puts them into
// zones, in the thread that answers.

import type { Cluster, Route } from '../cluster/cluster.ts';
import { isHostname } from '../cluster/hostname.ts';
import { hostsOf, zonesOf } from './zones.ts';

export interface ServedNames {
  /** By host, exact or `*.`. */
  readonly names: ReadonlyMap<string, readonly string[]>;
  /** The gateway's. */
  readonly addresses: readonly string[];
  /** Seconds. */
  readonly ttl: number;
  /** Grows with every change. */
  readonly serial: number;
  /** Zones whose names are given, and not found from the hosts. */
  readonly zones: readonly string[];
  /** None: `ns.` and the zone, at the gateway's addresses. */
  readonly nameServers: readonly string[];
  /** There may be more names than these: who asks for another one is to ask again, and not to remember that it is not there. */
  readonly isPartial: boolean;
}

export interface ServedNamesOptions extends Omit<ServedNames, 'names'> {
  /** Of the apps of clusters. */
  readonly targets: 'gateway' | 'nodes';
  /** Further hosts of the gateway: those of its tunnel. */
  readonly hosts: readonly string[];
}

export interface ServedZones extends Pick<ServedNames, 'ttl' | 'serial' | 'isPartial'> {
  readonly zones: readonly ServedZone[];
}

export interface ServedZone {
  readonly name: string;
  /** At least one. */
  readonly nameServers: readonly string[];
  readonly names: readonly { readonly name: string; readonly addresses: readonly string[] }[];
}

export function servedNames(
  clusters: readonly Cluster[],
  { targets, hosts, ...rest }: ServedNamesOptions,
): ServedNames {
  const { addresses } = rest;
  const names = new Map<string, readonly string[]>();
  for (const host of hosts) names.set(host, addresses);
  for (const cluster of clusters) {
    for (const route of cluster.routes) {
      const own = targets === 'nodes' ? (nodesOf(cluster, route) ?? addresses) : addresses;
      // A host that the API too is reached by leads to the gateway: nodes do not serve it.
      for (const host of route.hosts) if (host !== '*' && names.get(host) !== addresses) names.set(host, own);
    }
  }
  return { names, ...rest };
}

function nodesOf({ controlPlane }: Cluster, { kind }: Route): readonly string[] | undefined {
  const isApps = kind === 'apps-https' || kind === 'apps-http';
  const nodes = controlPlane?.nodes ?? [];
  return isApps && nodes.length > 0 ? nodes : undefined;
}

export function servedZones(served: ServedNames): ServedZones {
  const { names, addresses, ttl, serial, isPartial, nameServers } = served;
  const zones = zonesOf(names.keys(), served.zones).map(zone => {
    const own = hostsOf(zone).map(({ name }) => ({ name, addresses: names.get(name) ?? addresses }));
    if (nameServers.length > 0) return { name: zone.name, nameServers, names: own };
    const server = defaultServer(zone.name);
    const added = names.has(server) ? [] : [{ name: server, addresses }];
    return { name: zone.name, nameServers: [server], names: [...own, ...added] };
  });
  return { zones, ttl, serial, isPartial };
}

function defaultServer(zone: string): string {
  const name = `ns.${zone}`;
  return isHostname(name) ? name : zone;
}

/** Seconds since 1970, or one more than the last one: it must grow (RFC 1982). */
export function nextSerial(last: number): number {
  return Math.max(Math.floor(Date.now() / 1000), last + 1);
}
