// Which kinds of routes each listener serves (`only`), so that a host cannot be reached through a port that did not lead
// to it. Where kinds alone cannot tell, a route gets a kind of its own.

import { toLabel } from './cluster-keys.ts';
import type { GroupedCluster, GroupedRoute } from './group-clusters.ts';
import { ownKind } from './group-clusters.ts';
import { isAmong } from './host-set.ts';
import type { ImportedListener, ImportFinding } from './imported.ts';

export interface SettledListener extends ImportedListener {
  /** Absent: all. */
  readonly only?: readonly string[];
}

/** Expects that separateKinds() has been called. */
export function settleListeners(
  listeners: readonly ImportedListener[],
  clusters: readonly GroupedCluster[],
): SettledListener[] {
  const routes = clusters.flatMap(cluster => cluster.routes);
  const all = new Set(routes.map(({ kind }) => kind));
  return listeners.flatMap((listener, index) => {
    const here = routes.filter(route => route.listeners.has(index) || route.idListeners.has(index));
    const kinds = new Set(here.map(({ kind }) => kind));
    if (kinds.size === 0) return [];
    return [{ ...listener, ...(kinds.size < all.size && { only: [...kinds] }) }];
  });
}

/** Routes of one kind must be on the same listeners. */
export function separateKinds(
  listeners: readonly ImportedListener[],
  clusters: readonly GroupedCluster[],
  add: (finding: ImportFinding) => void,
): void {
  const places = new Map<string, string>();
  const names = new Map<string, string>();
  reportNamesBesideIds(listeners, clusters, add);
  reportCatchAlls(listeners, clusters, add);
  for (const { routes } of clusters) {
    for (const route of routes) {
      const on = [...route.listeners].toSorted((a, b) => a - b).join();
      if (on === '') continue;
      const usual = places.get(route.kind);
      if (usual === undefined) places.set(route.kind, on);
      if (usual === undefined || usual === on) continue;
      if (route.protocol === 'http') reportOtherPorts(route, listeners, add);
      else {
        const key = `${route.kind} ${on}`;
        const [first] = route.listeners;
        const label = toLabel(`${route.kind}-${listeners[first].port}`, 'route');
        const kind =
          names.get(key) ??
          ownKind(
            label,
            clusters.flatMap(cluster => cluster.routes),
          );
        names.set(key, kind);
        route.kind = kind;
      }
    }
  }
}

function reportOtherPorts(
  route: GroupedRoute,
  listeners: readonly ImportedListener[],
  add: (finding: ImportFinding) => void,
): void {
  const [first] = route.listeners;
  add({
    place: route.place,
    kind: 'warning',
    text: `${route.hosts[0]} was reachable on ${listeners[first].on} only; here every listener that serves ${route.kind} serves it`,
  });
}

/** An id needs `api` on its listener, and then API hosts are served there too. */
function reportNamesBesideIds(
  listeners: readonly ImportedListener[],
  clusters: readonly GroupedCluster[],
  add: (finding: ImportFinding) => void,
): void {
  const apis = clusters.flatMap(({ routes }) => routes.filter(({ kind }) => kind === 'api'));
  for (const [index, { on, place }] of listeners.entries()) {
    const hasIds = apis.some(route => route.idListeners.has(index));
    const named = apis.find(route => route.hosts.length > 0 && !route.listeners.has(index));
    if (!hasIds || named === undefined) continue;
    add({
      place,
      kind: 'warning',
      text: `${on} leads by id only there; here it also takes connections to the API hosts of these clusters, such as ${named.hosts[0]}, by name`,
    });
  }
}

/** "*" takes what no other route has, on whichever listener that is. */
function reportCatchAlls(
  listeners: readonly ImportedListener[],
  clusters: readonly GroupedCluster[],
  add: (finding: ImportFinding) => void,
): void {
  const routes = clusters.flatMap(cluster => cluster.routes);
  for (const all of routes.filter(({ hosts }) => hosts.includes('*'))) {
    for (const index of all.listeners) {
      const elsewhere = routes.filter(
        route => route !== all && route.protocol === all.protocol && !route.listeners.has(index),
      );
      const hosts = elsewhere.flatMap(route => route.hosts);
      if (hosts.length === 0) continue;
      add({
        place: all.place,
        kind: 'warning',
        text: `${listeners[index].on} leads every other host to '${all.pool.name}' there; here not those of other routes, such as ${hosts[0]}, which it refuses`,
        differsFor: host => isAmong(hosts, host),
      });
    }
  }
}
