// clusters → what should be reachable. Pure. Resolves conflicts: clusters come in the order of their claims, oldest
// first; the first claim to a name wins, and the loser gets a finding instead of the name.

import type { Cluster, Route } from '../cluster/cluster.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';
import { CATCH_ALL } from '../cluster/hostname.ts';

export interface Plan {
  /** Without the claims they lost; every host, id and CONNECT name selects at most one route. */
  readonly clusters: readonly Cluster[];
  readonly findings: readonly Finding[];
  readonly counts: { readonly clusters: number; readonly routes: number; readonly hosts: number };
}

export function plan(claimants: readonly Cluster[]): Plan {
  const findings: Finding[] = [];
  const claims: Claims = { tls: new Map(), http: new Map(), connect: new Map() };
  const clusters = claimants
    // All cluster names first, so that none can be claimed as another cluster's id or CONNECT name.
    .filter(cluster => claim(claims.connect, cluster.name, cluster, 'NameClaimed', findings))
    .map(cluster => resolveCluster(cluster, claims, findings));
  const hosts = new Set<string>();
  let routes = 0;
  for (const cluster of clusters) {
    routes += cluster.routes.length;
    for (const route of cluster.routes) for (const host of route.hosts) hosts.add(host);
  }
  return { clusters, findings, counts: { clusters: clusters.length, routes, hosts: hosts.size } };
}

/** The holder of each SNI host, HTTP host, and CONNECT name (cluster names and ids included). */
interface Claims {
  readonly tls: Map<string, Cluster>;
  readonly http: Map<string, Cluster>;
  readonly connect: Map<string, Cluster>;
}

function resolveCluster(cluster: Cluster, claims: Claims, findings: Finding[]): Cluster {
  const { id, ...rest } = cluster;
  const ownId = id !== undefined && claim(claims.connect, id.toLowerCase(), cluster, 'IdClaimed', findings);
  const routes = cluster.routes.map(route => resolveRoute(route, cluster, claims, findings));
  return ownId ? { ...rest, id, routes } : { ...rest, routes };
}

function resolveRoute(route: Route, cluster: Cluster, claims: Claims, findings: Finding[]): Route {
  const held = route.kind === 'apps-http' ? claims.http : claims.tls;
  return {
    ...route,
    hosts: route.hosts.filter(
      host => mayClaim(host, cluster, findings) && claim(held, host, cluster, 'HostClaimed', findings),
    ),
    connect: route.connect.filter(name =>
      claim(claims.connect, name, cluster, 'ConnectNameClaimed', findings),
    ),
  };
}

/** Only the operator, in the file, may assign the catch-all. */
function mayClaim(host: string, { name, source }: Cluster, findings: Finding[]): boolean {
  if (host !== CATCH_ALL || source === 'file') return true;
  findings.push({
    cluster: name,
    severity: 'error',
    code: 'HostInvalid',
    text: `'${CATCH_ALL}' matches every host that no other route has; only a cluster in the file may use it`,
    fix: `List the hosts of cluster '${name}', or give '${CATCH_ALL}' to a cluster in the file`,
  });
  return false;
}

function claim(
  held: Map<string, Cluster>,
  name: string,
  cluster: Cluster,
  code: FindingCode,
  findings: Finding[],
): boolean {
  const holder = held.get(name);
  if (holder === undefined) {
    held.set(name, cluster);
    return true;
  }
  // Several routes of one cluster may share a host, distinguished by ALPN.
  if (holder === cluster) return true;
  findings.push({
    cluster: cluster.name,
    severity: 'error',
    code,
    text: `'${name}' belongs to cluster '${holder.name}', which claimed it first`,
    fix: `Give cluster '${cluster.name}' a different name, or remove this one from '${holder.name}'`,
  });
  return false;
}
