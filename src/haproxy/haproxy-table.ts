// The table as HAProxy gets it: every name in a map, with the section, slots and kind of its route as the value; and
// the backends as servers of that section. Pure.

import { CATCH_ALL } from '../cluster/hostname.ts';
import type { BackendEntry, ClusterEntry, RouteEntry } from '../gateway/table/table.ts';
import { intersectNetworks } from './intersect-networks.ts';
import type { RuntimeState, ServerState } from './runtime-state.ts';
import { type Assignment, shapeOf, shapeText } from './sections.ts';

/** Names of the map files. Keys of `ids` are ids, or an id, `/` and a host. Keys of `alpn` are a protocol, `/`, a host. */
export const HOSTS = 'hosts.map';
export const HTTP_HOSTS = 'http-hosts.map';
export const IDS = 'ids.map';
export const ALPN = 'alpn.map';
/** By cluster slot; only clusters that have the limit. */
export const LIMITS = {
  connections: 'limit-connections.map',
  perSource: 'limit-per-source.map',
  newPerSecond: 'limit-new-per-second.map',
} as const;

/** The section of a route that answers with a redirect itself. */
export const REDIRECT = 'redirect';

const ANYONE = ['0.0.0.0/0', '::/0'];

/** A value of a map: the section that serves, and whose connection it is. */
export interface Target {
  readonly section: string;
  readonly route: number;
  readonly cluster: number;
  readonly kind: string;
  /** It has backends, of which none has an address: its names do not resolve. */
  readonly isUnresolved: boolean;
}

/** The fifth field of a target whose backends have no address. */
export const UNRESOLVED = 'unresolved';

function targetText({ section, route, cluster, kind, isUnresolved }: Target): string {
  return [section, route, cluster, kind, ...(isUnresolved ? [UNRESOLVED] : [])].join('/');
}

export function parseTarget(text: string): Target | undefined {
  const [section, route, cluster, kind, state] = text.split('/');
  if (kind === undefined) return undefined;
  return {
    section,
    route: Number(route),
    cluster: Number(cluster),
    kind,
    isUnresolved: state === UNRESOLVED,
  };
}

/** The file with the allow list of that section. */
export function listFile(section: string): string {
  return `${section}.acl`;
}

/** Routes that need a section, by slot, with the shape of the section. */
export function wantedShapes(clusters: readonly ClusterEntry[]): Map<number, string> {
  const wanted = new Map<number, string>();
  for (const cluster of clusters) {
    for (const route of cluster.routes)
      if (!route.redirect) wanted.set(route.slot, shapeText(shapeOf(cluster, route)));
  }
  return wanted;
}

/** Which server line of its section a backend has: it keeps it as long as it is served. */
export type ServerLines = ReadonlyMap<number, ReadonlyMap<string, number>>;

export function assignServers(before: ServerLines, clusters: readonly ClusterEntry[]): ServerLines {
  const lines = new Map<number, ReadonlyMap<string, number>>();
  for (const { routes } of clusters)
    for (const route of routes) lines.set(route.slot, linesOf(before.get(route.slot), route.backends));
  return lines;
}

function linesOf(
  before: ReadonlyMap<string, number> = new Map(),
  backends: readonly BackendEntry[],
): ReadonlyMap<string, number> {
  const lines = new Map<string, number>();
  for (const { text } of backends) {
    const line = before.get(text);
    if (line !== undefined) lines.set(text, line);
  }
  const taken = new Set(lines.values());
  let next = 1;
  for (const { text } of backends) {
    if (lines.has(text)) continue;
    while (taken.has(next)) next++;
    lines.set(text, next);
    taken.add(next);
  }
  return lines;
}

export function runtimeState(
  clusters: readonly ClusterEntry[],
  assignment: Assignment,
  lines: ServerLines,
  isDown: (backendSlot: number) => boolean,
): RuntimeState {
  const hosts = new Map<string, string>();
  const http = new Map<string, string>();
  const ids = new Map<string, string>();
  const alpn = new Map<string, string>();
  const limits = Object.values(LIMITS).map(() => new Map<string, string>());
  const lists = new Map<string, readonly string[]>();
  const servers = new Map<string, ServerState>();
  for (const cluster of clusters) {
    for (const [index, key] of (Object.keys(LIMITS) as (keyof typeof LIMITS)[]).entries()) {
      const limit = cluster.limits[key];
      if (limit !== undefined) limits[index].set(String(cluster.slot), String(limit));
    }
    for (const route of cluster.routes) {
      const section = route.redirect ? REDIRECT : (assignment.get(route.slot) ?? '');
      const target = targetText({
        section,
        route: route.slot,
        cluster: cluster.slot,
        kind: route.kind,
        isUnresolved: isUnresolved(route),
      });
      const isHttp = route.kind === 'apps-http';
      for (const host of route.hosts) {
        if (isHttp) http.set(host, target);
        else if (route.alpn.length === 0) hosts.set(host, target);
        for (const protocol of isHttp ? [] : route.alpn) alpn.set(`${protocol}/${host}`, target);
        if (cluster.id !== undefined && !isHttp && host !== CATCH_ALL && route.alpn.length === 0)
          ids.set(`${cluster.id}/${host}`, target);
      }
      if (cluster.id !== undefined && route.kind === 'api') ids.set(cluster.id, target);
      if (route.redirect) continue;
      if (shapeOf(cluster, route).isGuarded) {
        lists.set(listFile(section), intersectNetworks(cluster.allow, route.allow) ?? ANYONE);
      }
      for (const [name, state] of serversOf(section, route, lines.get(route.slot), isDown))
        servers.set(name, state);
    }
  }
  const maps = new Map([
    [HOSTS, hosts],
    [HTTP_HOSTS, http],
    [IDS, ids],
    [ALPN, alpn],
    ...Object.values(LIMITS).map((file, index) => [file, limits[index]] as const),
  ]);
  return { maps, lists, servers };
}

/** Whether the route has backends, of which none has an address. */
function isUnresolved({ backends }: Pick<RouteEntry, 'backends'>): boolean {
  return backends.length > 0 && backends.every(({ addresses }) => addresses.length === 0);
}

/** If every backend is down, all are tried. A name without addresses is left out. */
function serversOf(
  section: string,
  { backends }: RouteEntry,
  lines: ReadonlyMap<string, number> = new Map(),
  isDown: (backendSlot: number) => boolean,
): [string, ServerState][] {
  const known = backends.filter(({ addresses }) => addresses.length > 0);
  const allDown = known.every(({ slot }) => isDown(slot));
  return known.map(({ slot, text, port, addresses }) => [
    `${section}/s${lines.get(text)}`,
    { address: addresses[0], port, isUp: allDown || !isDown(slot) },
  ]);
}
