// clusters → what should be reachable. Pure and total: claims in, clusters and findings out. Claims are sorted by age, so
// that the order in which sources report them does not matter.

import type { Backend, Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { joinOf } from './join-claims.ts';
import { ClaimTable } from './settle-claims.ts';

export interface Plan {
  /** Without what they claimed in vain; every host, id and CONNECT name selects at most one route. */
  readonly clusters: readonly Cluster[];
  readonly findings: readonly Finding[];
  readonly counts: { readonly clusters: number; readonly routes: number; readonly hosts: number };
}

export interface PlanOptions {
  /** Hosts that no cluster may have: those of the agents' tunnel. */
  readonly reserved?: readonly string[];
  /** By source: the domains its hosts must be in. A source that is not here may claim any. */
  readonly domains?: ReadonlyMap<string, readonly string[]>;
  /** Why an object may not have this backend, or undefined. */
  readonly forbiddenBackend?: (backend: Backend) => string | undefined;
}

/** A claim that keeps everything is given back as the same object, so that outputs can compare by reference. */
export function plan(claims: readonly Cluster[], options: PlanOptions = {}): Plan {
  const table = new ClaimTable(options);
  const sorted = claims.toSorted(byAge);
  const joins = new Map<Cluster, Cluster>();
  // All names first, so that none can be taken as another's id or CONNECT name.
  const named = new Map<string, Cluster>();
  const accepted = sorted.filter(claim => {
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
  });
  const settled = new Map<Cluster, Cluster>();
  for (const claim of accepted) {
    const cluster = table.settle(claim);
    const owner = joins.get(claim);
    const target = owner === undefined ? undefined : settled.get(owner);
    if (owner === undefined || target === undefined) settled.set(claim, cluster);
    else settled.set(owner, merge(target, cluster, table));
  }
  const clusters = [...settled.values()];
  return { clusters, findings: table.findings, counts: countAll(clusters) };
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

/** The owner keeps what it has; a route of a kind that it has already is refused. */
function merge(owner: Cluster, joining: Cluster, table: ClaimTable): Cluster {
  const kinds = new Set(owner.routes.map(({ kind }) => kind));
  const routes = joining.routes.filter(({ kind }) => {
    if (!kinds.has(kind)) return true;
    const text = `cluster '${owner.name}' has a route '${kind}' already`;
    table.refuse(joining, 'NameClaimed', text, 'Choose another route: causeway.dev/route');
    return false;
  });
  const id = owner.id ?? joining.id;
  if (routes.length === 0 && id === owner.id) return owner;
  return { ...owner, ...(id !== undefined && { id }), routes: [...owner.routes, ...routes] };
}

function countAll(clusters: readonly Cluster[]): Plan['counts'] {
  const hosts = new Set<string>();
  let routes = 0;
  for (const cluster of clusters) {
    routes += cluster.routes.length;
    for (const route of cluster.routes) for (const host of route.hosts) hosts.add(host);
  }
  return { clusters: clusters.length, routes, hosts: hosts.size };
}
