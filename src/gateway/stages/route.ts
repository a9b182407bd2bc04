// route: finds the route for a connection. Pure lookups in the table; a string is the reason for a refusal.

import { isHostname } from '../../cluster/hostname.ts';
import type { CloseReason } from '../close-reason.ts';
import { TUNNEL_SLOT } from '../shared/shared-memory.ts';
import type { TableListener } from '../table/listener-table.ts';
import type { Table, TableRoute } from '../table/table.ts';

/**
 * By SNI and ALPN. With an id, only among that cluster's routes, with its `api` as the fallback. Without an id, an
 * unclaimed host goes to the route with `*`, if there is one. `host` is in lower case, without a trailing dot. An IP
 * literal or an illegal name counts as no SNI; the table has no entry for either, so only names without a match are
 * checked.
 */
export function routeTls(
  table: Table,
  listener: TableListener,
  host: string | undefined,
  alpn: readonly string[],
  id: string | undefined,
): TableRoute | CloseReason {
  if (id !== undefined) {
    const cluster = table.ids.get(id);
    if (cluster === undefined) return 'unknown-cluster';
    const own = host === undefined ? undefined : table.routesByHostIn(cluster, host);
    const { api } = cluster;
    return (
      (own && pickByAlpn(own, listener, alpn)) ??
      (api !== undefined && isReachable(api, listener) ? api : 'unknown-host')
    );
  }
  const routes = host === undefined ? undefined : table.routesByHost(host);
  if (routes !== undefined) return pickByAlpn(routes, listener, alpn) ?? 'unknown-host';
  const { catchAll } = table;
  const any = catchAll && pickByAlpn(catchAll, listener, alpn);
  return any ?? (host !== undefined && isHostname(host) ? 'unknown-host' : 'no-sni');
}

/** By a CONNECT name: an id, a cluster name, an API host, or a `connect` name. */
export function routeConnect(table: Table, listener: TableListener, name: string): TableRoute | CloseReason {
  const route = table.connectRoute(name);
  return route !== undefined && isReachable(route, listener) ? route : 'unknown-host';
}

/** By Host. Expects a normalized name. */
export function routeHttp(table: Table, listener: TableListener, host: string): TableRoute | CloseReason {
  const route = table.httpRoute(host);
  return route !== undefined && isReachable(route, listener) ? route : 'unknown-host';
}

/** The first route whose ALPN the client offers; routes without ALPN come last and always match. */
function pickByAlpn(
  routes: readonly TableRoute[],
  listener: TableListener,
  offered: readonly string[],
): TableRoute | undefined {
  for (const route of routes) {
    if (!isReachable(route, listener)) continue;
    if (route.alpn.length === 0 || route.alpn.some(name => offered.includes(name))) return route;
  }
  return undefined;
}

/** Agents' tunnels end on every listener, whatever its `only`. */
function isReachable(route: TableRoute, listener: TableListener): boolean {
  return route.slot === TUNNEL_SLOT || listener.only === undefined || listener.only.has(route.kind);
}
