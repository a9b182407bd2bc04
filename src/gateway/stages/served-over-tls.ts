// What a client hears in the 421 when it asks over cleartext HTTP for a host that is served over TLS only: the same
// words from the front and from the HTTP part. They say no more than SNI does: that the host is served.

import { TUNNEL_SLOT } from '../shared/shared-memory.ts';
import type { TableListener } from '../table/listener-table.ts';
import type { Table } from '../table/table.ts';
import { routeTls } from './route.ts';

/** What a client that follows the link would offer. */
const BROWSER = ['h2', 'http/1.1'];

/**
 * Undefined where the host is not served over TLS on that listener. `host` is normalized, `authority` the Host header it
 * comes from, whose port leads here by TLS as well.
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
  // A cluster that has one is hidden by this listener's `only`.
  const wouldRedirect = kind === 'apps-https' && !cluster.routes.some(other => other.kind === 'apps-http');
  return wouldRedirect ? `${text} (with "apps.http: redirect" the gateway would send clients there)` : text;
}
