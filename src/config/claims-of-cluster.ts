// A valid cluster as the cross-checks want it: as it would stand in the file, with no more than they look at. A file that
// is read again has its clusters, but no longer what was written.

import type { Cluster, Route } from '../cluster/cluster.ts';

export function claimsOfCluster({ name, id, identityRequired, routes }: Cluster): Record<string, unknown> {
  const claims: Record<string, unknown> = { name, id, ...(identityRequired && { identity: 'required' }) };
  const own: Record<string, unknown> = {};
  for (const route of routes) {
    const { kind } = route;
    if (kind === 'api' || kind === 'konnectivity') claims[kind] = route;
    else if (kind === 'apps-https') claims.apps = { ...appsOf(claims, route), https: route };
    else if (kind === 'apps-http') claims.apps = { ...appsOf(claims, route), http: route };
    else own[kind] = route;
  }
  claims.routes = own;
  return claims;
}

/** Both routes of apps have the same hosts. */
function appsOf(claims: Record<string, unknown>, { hosts }: Route): Record<string, unknown> {
  return { hosts, ...(claims.apps as Record<string, unknown> | undefined) };
}
