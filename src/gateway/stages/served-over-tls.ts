// The text of the 421 for a cleartext HTTP request to a host that is served over TLS only. It reveals no more than SNI
// does: that the host is served.

import { TUNNEL_SLOT } from '../shared/shared-memory.ts';
import type { TableListener } from '../table/listener-table.ts';
import type { Table } from '../table/table.ts';
import { routeTls } from './route.ts';

/** The ALPN that a client following the link would offer. */
const BROWSER = ['h2', 'http/1.1'];

/**
 * Undefined if the host is not served over TLS on that listener. `host` is normalized; `authority` is its Host header,
 * whose port reaches this listener over TLS as well.
 */
export function servedOverTls(
  table: Table,
  listener: TableListener,
  host: string,
  authority: string,
): string | undefined {
  const route = routeTls(table, listener, host, BROWSER, undefined);
  if (typeof route === 'string' || route.slot === TUNNEL_SLOT) return undefined;
  const text = `this host is served over TLS only: use https://${authority.replace(/:80$/, '')}`;
  const { kind, cluster } = route;
  // A cluster that has `apps.http` gets here only if this listener's `only` hides it.
  const wouldRedirect = kind === 'apps-https' && !cluster.routes.some(other => other.kind === 'apps-http');
  return wouldRedirect ? `${text} (with "apps.http: redirect" the gateway would send clients there)` : text;
}
