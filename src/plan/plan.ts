// clusters → what should be reachable. Pure. Conflicts are settled here: clusters come in the order of their
// claims, oldest first, and the first to claim a name keeps it; the loser goes without and gets a finding.

import type { Cluster, Route } from '../cluster/cluster.ts';
import type { Finding, FindingCode } from '../cluster/finding.ts';
import { CATCH_ALL } from '../cluster/hostname.ts';

export interface Plan {
  /** Without what they claimed in vain; every host, id and CONNECT name selects at most one route. */
  readonly clusters: readonly Cluster[];
  readonly findings: readonly Finding[];
  readonly counts: { readonly clusters: number; readonly routes: number; readonly hosts: number };
}

export function plan(claimants: readonly Cluster[]): Plan {
  const findings: Finding[] = [];
  const claims: Claims = { tls: new Map(), http: new Map(), connect: new Map() };
  const clusters = claimants
    // All names first, so that none can be taken as another's id or CONNECT name.
    .filter(cluster => claim(claims.connect, cluster.name, cluster, 'NameClaimed', findings))
    .map(cluster => settle(cluster, claims, findings));
  const hosts = new Set<string>();
  let routes = 0;
  for (const cluster of clusters) {
    routes += cluster.routes.length;
    for (const route of cluster.routes) for (const host of route.hosts) hosts.add(host);
  }
  return { clusters, findings, counts: { clusters: clusters.length, routes, hosts: hosts.size } };
}

/** Who holds what: SNI hosts, HTTP hosts, and the names that CONNECT knows, cluster names and ids among them. */
interface Claims {
  readonly tls: Map<string, Cluster>;
  readonly http: Map<string, Cluster>;
  readonly connect: Map<string, Cluster>;
}

function settle(cluster: Cluster, claims: Claims, findings: Finding[]): Cluster {
  const { id, ...rest } = cluster;
  const ownId = id !== undefined && claim(claims.connect, id.toLowerCase(), cluster, 'IdClaimed', findings);
  const routes = cluster.routes.map(route => settleRoute(route, cluster, claims, findings));
  return ownId ? { ...rest, id, routes } : { ...rest, routes };
}

function settleRoute(route: Route, cluster: Cluster, claims: Claims, findings: Finding[]): Route {
  const held = route.kind === 'apps-http' ? claims.http : claims.tls;
  return {
    ...route,
    hosts: route.hosts.filter(
      host => mayHave(host, cluster, findings) && claim(held, host, cluster, 'HostClaimed', findings),
    ),
    connect: route.connect.filter(name =>
      claim(claims.connect, name, cluster, 'ConnectNameClaimed', findings),
    ),
  };
}

/** What nobody else has is the operator's to give away, in the file. */
function mayHave(host: string, { name, source }: Cluster, findings: Finding[]): boolean {
  if (host !== CATCH_ALL || source === 'file') return true;
  findings.push({
    cluster: name,
    severity: 'error',
    code: 'HostInvalid',
    text: `'${CATCH_ALL}' would take every host that nobody else has, which only a cluster of the file may`,
    fix: `Name the hosts of cluster '${name}', or give '${CATCH_ALL}' to a cluster in the file`,
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
  // A host may stand on several routes of one cluster, told apart by ALPN.
  if (holder === cluster) return true;
  findings.push({
    cluster: cluster.name,
    severity: 'error',
    code,
    text: `'${name}' belongs to cluster '${holder.name}', which claimed it first`,
    fix: `Give cluster '${cluster.name}' another name, or take it from '${holder.name}'`,
  });
  return false;
}
