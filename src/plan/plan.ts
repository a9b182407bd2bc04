// clusters → what should be reachable. Pure and total: claims in, clusters and findings out. Claims are sorted by age, so
// that the order in which sources report them does not matter.

import type { Cluster, Route } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { joinOf } from './join-claims.ts';
import { ClaimTable, type PlanOptions } from './settle-claims.ts';

export interface Plan {
  /** Without what they claimed in vain; every host, id and CONNECT name selects at most one route. */
  readonly clusters: readonly Cluster[];
  readonly findings: readonly Finding[];
  readonly counts: { readonly clusters: number; readonly routes: number; readonly hosts: number };
}

/** A claim that keeps everything is given back as the same object, so that outputs can compare by reference. */
export function plan(claims: readonly Cluster[], options: PlanOptions = {}): Plan {
  const table = new ClaimTable(options);
  const sorted = claims.toSorted(byAge);
  if (sorted.some(isOfService)) return planWithServices(sorted, table);
  // All names first, so that none can be taken as another's id or CONNECT name.
  const clusters = sorted.filter(claim => table.claimName(claim)).map(claim => table.settle(claim));
  return { clusters, findings: table.findings, counts: countAll(clusters, table.hosts) };
}

/** Services may join clusters. That takes maps, which a file with 10,000 clusters should not pay for. */
function planWithServices(sorted: readonly Cluster[], table: ClaimTable): Plan {
  const joins = new Map<Cluster, Cluster>();
  // Names of clusters before those of Services, so that a Service that is older than its cluster joins it too.
  const named = new Map<string, Cluster>();
  const isAccepted = (claim: Cluster) => {
    const owner = named.get(claim.name);
    const join = joinOf(claim, owner, table);
    if (join === 'refused') return false;
    if (join === 'joins' && owner !== undefined) {
      joins.set(claim, owner);
      return true;
    }
    if (!table.claimName(claim)) return false;
    named.set(claim.name, claim);
    return true;
  };
  const [ofServices, others] = [sorted.filter(isOfService), sorted.filter(claim => !isOfService(claim))];
  const accepted = new Set([...others.filter(isAccepted), ...ofServices.filter(isAccepted)]);
  const settled = new Map<Cluster, Cluster>();
  for (const claim of sorted) if (accepted.has(claim)) settled.set(claim, table.settle(claim));
  for (const [claim, owner] of joins) {
    const [target, joining] = [settled.get(owner), settled.get(claim)];
    settled.delete(claim);
    if (target !== undefined && joining !== undefined)
      settled.set(owner, rememberedMerge(target, joining, table));
  }
  const clusters = [...settled.values()];
  // Not those of the table: a route that was refused when its claim joined a cluster has claimed its hosts.
  const hosts = new Set(clusters.flatMap(({ routes }) => routes.flatMap(route => route.hosts)));
  return { clusters, findings: table.findings, counts: countAll(clusters, hosts.size) };
}

/** The file first, in its own order; then other files; then objects, oldest first. */
function byAge(a: Cluster, b: Cluster): number {
  return (
    rank(a) - rank(b) ||
    compareText(a.origin.object?.createdAt, b.origin.object?.createdAt) ||
    compareText(a.origin.object?.uid, b.origin.object?.uid)
  );
}

function rank({ origin }: Cluster): number {
  if (origin.source === 'file') return 0;
  return origin.object === undefined ? 1 : 2;
}

function compareText(a = '', b = ''): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** By owner and joining claim: the same object for the same two. */
const merged = new WeakMap<Cluster, WeakMap<Cluster, Cluster>>();

function rememberedMerge(owner: Cluster, joining: Cluster, table: ClaimTable): Cluster {
  const known = merged.get(owner)?.get(joining);
  if (known !== undefined) return known;
  const { cluster, isWhole } = merge(owner, joining, table);
  // What is refused must be reported each time.
  if (isWhole) merged.set(owner, (merged.get(owner) ?? new WeakMap()).set(joining, cluster));
  return cluster;
}

/**
 * The owner keeps what it has. Its own source may say by a Service that a route has further names; any other route of a
 * kind that the owner has already is refused.
 */
function merge(
  owner: Cluster,
  joining: Cluster,
  table: ClaimTable,
): { readonly cluster: Cluster; readonly isWhole: boolean } {
  let isWhole = true;
  const routes = new Map(owner.routes.map(route => [route.kind, route]));
  for (const route of joining.routes) {
    const own = routes.get(route.kind);
    if (own === undefined) routes.set(route.kind, route);
    else if (owner.origin.source === joining.origin.source && isSameService(own, route))
      routes.set(route.kind, withNamesOf(own, route));
    else {
      const text = `cluster '${owner.name}' has a route '${route.kind}' already`;
      table.refuse(joining, 'NameClaimed', text, 'Choose another route: causeway.dev/route');
      isWhole = false;
    }
  }
  const id = owner.id ?? joining.id;
  const all = [...routes.values()];
  const isSame = all.length === owner.routes.length && all.every((route, i) => route === owner.routes[i]);
  if (isSame && id === owner.id) return { cluster: owner, isWhole };
  return { cluster: { ...owner, ...(id !== undefined && { id }), routes: all }, isWhole };
}

function isSameService({ service: a }: Route, { service: b }: Route): boolean {
  return a?.namespace === b?.namespace && a?.name === b?.name && a?.port === b?.port;
}

function withNamesOf(own: Route, other: Route): Route {
  const hosts = [...new Set([...own.hosts, ...other.hosts])];
  const connect = [...new Set([...own.connect, ...other.connect])];
  const isSame = hosts.length === own.hosts.length && connect.length === own.connect.length;
  return isSame ? own : { ...own, hosts, connect };
}

function isOfService({ origin }: Cluster): boolean {
  return origin.object?.kind === 'Service';
}

function countAll(clusters: readonly Cluster[], hosts: number): Plan['counts'] {
  let routes = 0;
  for (const cluster of clusters) routes += cluster.routes.length;
  return { clusters: clusters.length, routes, hosts };
}
