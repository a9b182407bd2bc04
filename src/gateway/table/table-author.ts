// The control thread's side of the table: assigns a slot to every cluster, route and backend, and turns a new set of
// clusters into the change that workers apply. A slot stays with its cluster and kind as long as those exist. A freed
// slot is reused only after every worker has released it.

import { isIP } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { type Backend, type Cluster, needsTls, type Route, type Uplink } from '../../cluster/cluster.ts';
import { healthTarget } from '../health/health-target.ts';
import type { ServedBackend } from '../health/health-thread.ts';
import { FIRST_SLOT, PAGE_SLOTS } from '../shared/shared-memory.ts';
import type { ClusterEntry, RouteEntry, RouteSlot } from './table.ts';

export interface TableChange {
  readonly removed: readonly string[];
  readonly put: readonly ClusterEntry[];
  /** Slots that are unused once all workers have applied the change. */
  readonly freed: FreedSlots;
}

export interface FreedSlots {
  readonly clusters: readonly number[];
  readonly routes: readonly number[];
  readonly backends: readonly number[];
}

interface Known {
  readonly cluster: Cluster;
  readonly entry: ClusterEntry;
}

/** Slot 0 means "none" everywhere. */
class SlotPool<Owner> {
  readonly owners: (Owner | undefined)[];
  readonly #free: number[] = [];

  /** `first` is the first slot to assign. */
  constructor(first = 1) {
    this.owners = Array.from({ length: first });
  }

  take(owner: Owner): number {
    const slot = this.#free.pop() ?? this.owners.length;
    this.owners[slot] = owner;
    return slot;
  }

  give(slots: readonly number[]): void {
    for (const slot of slots) this.owners[slot] = undefined;
    this.#free.push(...slots);
  }

  get pages(): number {
    return Math.ceil(this.owners.length / PAGE_SLOTS);
  }
}

type AddressChange = readonly [slot: number, addresses: readonly string[]];

/** IP literals. */
export type AddressesOf = (backend: Backend, uplink: Uplink | undefined) => readonly string[];

export class TableAuthor {
  readonly #known = new Map<string, Known>();
  /** Host name of a backend → the clusters that use it. */
  readonly #named = new Map<string, Set<string>>();
  readonly #clusters = new SlotPool<string>();
  readonly #routes = new SlotPool<RouteSlot>(FIRST_SLOT);
  readonly #backends = new SlotPool<Backend>();
  /** Slots of removed routes, which may come back: their counters are still reported. */
  readonly #retired = new Map<string, number>();

  /** The change that leads to exactly these clusters being served. */
  change(clusters: readonly Cluster[], addressesOf: AddressesOf): TableChange {
    const freed = { clusters: [] as number[], routes: [] as number[], backends: [] as number[] };
    const names = new Set(clusters.map(cluster => cluster.name));
    const removed: string[] = [];
    for (const [name, known] of this.#known) {
      if (names.has(name)) continue;
      removed.push(name);
      this.#removeNames(known.cluster);
      this.#known.delete(name);
      freed.clusters.push(known.entry.slot);
      for (const route of known.entry.routes) this.#retire(name, route, freed);
    }
    const put: ClusterEntry[] = [];
    for (const cluster of clusters) {
      const before = this.#known.get(cluster.name);
      // The plan gives unchanged clusters back as the same objects; a file that was read again does not.
      if (before?.cluster === cluster) continue;
      if (before !== undefined && isDeepStrictEqual(before.cluster, cluster)) {
        this.#known.set(cluster.name, { ...before, cluster });
        continue;
      }
      const entry = this.#enter(cluster, before?.entry, addressesOf, freed);
      if (before !== undefined) this.#removeNames(before.cluster);
      for (const host of namesIn(cluster)) this.#clustersWith(host).add(cluster.name);
      this.#known.set(cluster.name, { cluster, entry });
      put.push(entry);
    }
    return { removed, put, freed };
  }

  /**
   * Call when all workers have applied the change that freed the slots, and nothing of theirs is left to log or count.
   * A route that came back meanwhile keeps its slot. Returns the route slots that were recycled.
   */
  recycle(freed: FreedSlots): readonly number[] {
    const routes = freed.routes.filter(slot => {
      const route = this.#routes.owners[slot];
      return (
        route !== undefined && this.#retired.get(keyOf(route)) === slot && this.#retired.delete(keyOf(route))
      );
    });
    this.#clusters.give(freed.clusters);
    this.#routes.give(routes);
    this.#backends.give(freed.backends);
    return routes;
  }

  get pages(): { readonly clusters: number; readonly routes: number; readonly backends: number } {
    return { clusters: this.#clusters.pages, routes: this.#routes.pages, backends: this.#backends.pages };
  }

  /** undefined for slot 0 and for slots that were recycled. */
  routeAt(slot: number): RouteSlot | undefined {
    return this.#routes.owners[slot];
  }

  backendAt(slot: number): Backend | undefined {
    return this.#backends.owners[slot];
  }

  get routeSlots(): number {
    return this.#routes.owners.length;
  }

  /** A cluster's current entry. */
  entryOf(name: string): ClusterEntry | undefined {
    return this.#known.get(name)?.entry;
  }

  /** All current entries, for a worker that has none yet. */
  get entries(): ClusterEntry[] {
    return [...this.#known.values()].map(known => known.entry);
  }

  /** The served backends and how to check them: of all clusters, or of those named. */
  *backends(names: Iterable<string> = this.#known.keys()): Generator<ServedBackend> {
    for (const name of names) {
      const known = this.#known.get(name);
      for (const [index, entry] of known?.entry.routes.entries() ?? []) {
        const route = known?.cluster.routes[index] as Route;
        for (const backend of entry.backends) {
          yield {
            slot: backend.slot,
            route: { cluster: name, route: entry.kind },
            backend: backend.text,
            target: healthTarget(route, backend),
          };
        }
      }
    }
  }

  /** The addresses of a name changed: returns the backends that workers must update. */
  rename(host: string, addressesOf: AddressesOf): AddressChange[] {
    // Uplinks over TLS have their own configuration.
    const isNamed = (backend: Backend, uplink: Uplink | undefined) =>
      backend.host === host && !needsTls(uplink);
    return this.#newAddresses(this.#named.get(host) ?? [], isNamed, addressesOf);
  }

  #newAddresses(
    clusters: Iterable<string>,
    wanted: (backend: Backend, uplink: Uplink | undefined) => boolean,
    addressesOf: AddressesOf,
  ): AddressChange[] {
    const changes: AddressChange[] = [];
    for (const name of clusters) {
      const known = this.#known.get(name) as Known;
      const routes = known.entry.routes.map(route => ({
        ...route,
        backends: route.backends.map(backend => {
          const owner = this.#backends.owners[backend.slot];
          if (owner === undefined || !wanted(owner, route.uplink)) return backend;
          const addresses = addressesOf(owner, route.uplink);
          changes.push([backend.slot, addresses]);
          return { ...backend, addresses };
        }),
      }));
      this.#known.set(name, { ...known, entry: { ...known.entry, routes } });
    }
    return changes;
  }

  #clustersWith(host: string): Set<string> {
    let clusters = this.#named.get(host);
    if (clusters === undefined) {
      clusters = new Set();
      this.#named.set(host, clusters);
    }
    return clusters;
  }

  #removeNames(cluster: Cluster): void {
    for (const host of namesIn(cluster)) {
      const clusters = this.#named.get(host);
      clusters?.delete(cluster.name);
      if (clusters?.size === 0) this.#named.delete(host);
    }
  }

  #enter(
    cluster: Cluster,
    before: ClusterEntry | undefined,
    addressesOf: AddressesOf,
    freed: { routes: number[]; backends: number[] },
  ): ClusterEntry {
    const routes = cluster.routes.map(route => {
      const old = before?.routes.find(entry => entry.kind === route.kind);
      return this.#enterRoute(cluster, route, old, addressesOf, freed);
    });
    for (const old of before?.routes ?? []) {
      if (!cluster.routes.some(route => route.kind === old.kind)) this.#retire(cluster.name, old, freed);
    }
    return {
      slot: before?.slot ?? this.#clusters.take(cluster.name),
      name: cluster.name,
      ...(cluster.id !== undefined && { id: cluster.id }),
      ...(cluster.allow !== undefined && { allow: cluster.allow }),
      limits: cluster.limits,
      ...(cluster.identityRequired && { identityRequired: true }),
      routes,
    };
  }

  #enterRoute(
    cluster: Cluster,
    route: Route,
    before: RouteEntry | undefined,
    addressesOf: AddressesOf,
    freed: { backends: number[] },
  ): RouteEntry {
    const backends = route.pool.backends.map(backend => ({
      slot: before?.backends.find(old => old.text === backend.text)?.slot ?? this.#backends.take(backend),
      text: backend.text,
      port: backend.port,
      addresses: addressesOf(backend, route.uplink),
    }));
    for (const old of before?.backends ?? []) {
      if (!backends.some(backend => backend.slot === old.slot)) freed.backends.push(old.slot);
    }
    return {
      slot: before?.slot ?? this.#routeSlot({ cluster: cluster.name, route: route.kind }),
      kind: route.kind,
      hosts: route.hosts,
      connect: route.connect,
      alpn: route.alpn,
      ...(route.allow !== undefined && { allow: route.allow }),
      proxyProtocol: route.proxyProtocol,
      redirect: route.redirect,
      ...(route.uplink !== undefined && { uplink: route.uplink }),
      balance: route.pool.balance,
      backends,
    };
  }

  #routeSlot(route: RouteSlot): number {
    const slot = this.#retired.get(keyOf(route)) ?? this.#routes.take(route);
    this.#retired.delete(keyOf(route));
    return slot;
  }

  #retire(cluster: string, route: RouteEntry, freed: { routes: number[]; backends: number[] }): void {
    this.#retired.set(keyOf({ cluster, route: route.kind }), route.slot);
    freed.routes.push(route.slot);
    for (const backend of route.backends) freed.backends.push(backend.slot);
  }
}

/** Clusters whose backends all have addresses. Clusters that did not change are the same objects. */
const withoutNames = new WeakSet<Cluster>();
const noNames: readonly string[] = [];

/** The hosts of its backends that need a lookup. */
export function namesIn(cluster: Cluster): readonly string[] {
  if (withoutNames.has(cluster)) return noNames;
  const names: string[] = [];
  for (const { pool } of cluster.routes)
    for (const { host } of pool.backends) if (isIP(host) === 0) names.push(host);
  if (names.length === 0) withoutNames.add(cluster);
  return names;
}

function keyOf({ cluster, route }: RouteSlot): string {
  return `${cluster} ${route}`;
}
