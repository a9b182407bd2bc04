// What the checks look at: the file and its clusters, and the ways out of this process, each of which a test can replace.

import type { Cluster, Route } from '../cluster/cluster.ts';
import { CATCH_ALL, isWildcard } from '../cluster/hostname.ts';
import type { Config } from '../config/config.ts';
import type { Lookup } from '../dns/check-hosts.ts';
import type { Explainer } from '../gateway/table/explain.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { GatewayPlaces } from './gateway-places.ts';
import type { Network, ServedCertificate } from './network.ts';
import type { Tenant } from './open-tenant.ts';
import type { RunningGateway } from './running-gateway.ts';

export interface World {
  readonly config: Config;
  readonly network: Network;
  /** As the system's resolver, which knows the hosts file too. */
  readonly lookup: Lookup;
  /** In ms since 1970. */
  readonly now: () => number;
  readonly places: GatewayPlaces;
  readonly explainer: Pick<Explainer, 'explain'>;
  /** What the admin API of the gateway says; undefined where it cannot be asked. */
  readonly running: RunningGateway | undefined;
  /** The API server that this cluster's object is in, or that --kubeconfig names. */
  readonly management: (cluster: Cluster) => KubeApi | undefined;
  /** The API server of the cluster itself, through the gateway. */
  readonly tenant: (cluster: Cluster) => Promise<Tenant | undefined>;
  /** The key that signs a cluster's id; undefined without a secret that can be read here. */
  readonly keyOf: ((id: string) => string) | undefined;
}

/** A route as seen through the gateway. */
export interface SeenRoute {
  readonly route: Route;
  readonly host: string;
  readonly alpn: string | undefined;
  readonly certificate: ServedCertificate;
}

/** In front of a wildcard, for a name that it matches. */
const PROBE_LABEL = 'causeway-doctor';

/** The names to try on a route; a wildcard by an example. Nothing stands for `*`. */
export function namesOf({ hosts }: Pick<Route, 'hosts'>): readonly string[] {
  return hosts
    .filter(host => host !== CATCH_ALL)
    .map(host => (isWildcard(host) ? `${PROBE_LABEL}${host.slice(1)}` : host));
}

export function routeOfKind({ routes }: Cluster, kind: string): Route | undefined {
  return routes.find(route => route.kind === kind);
}

/** An API host that a client can ask for. */
export function apiHostOf(cluster: Cluster): string | undefined {
  return routeOfKind(cluster, 'api')?.hosts.find(host => host !== CATCH_ALL && !isWildcard(host));
}

export function isTlsRoute({ kind, redirect }: Route): boolean {
  return kind !== 'apps-http' && !redirect;
}

/** Runs at most so many at once; results are in the order of the items. */
export async function inParallel<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const waiting = items.entries();
  const worker = async () => {
    for (const [index, item] of waiting) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}
