// Decides whether a request may be served, and how: refuses what our parser lets pass but two programs in a row could
// read differently. Pure.

import { requestHost } from '../../wire/http-head.ts';
import type { RequestHead } from '../../wire/http-request.ts';

export interface JudgedRequest {
  /** The name to route by: lower case, without port and trailing dot. */
  readonly host: string;
  /** As sent. */
  readonly hostHeader: string;
  /** For the backend: path and query only, or `*`. */
  readonly target: string;
  /** The length of the body; undefined if the request has no length. */
  readonly body: number | 'chunked' | undefined;
  /** Whether the client expects to send another request on this connection. */
  readonly keepAlive: boolean;
  /** The protocols that the client offers to switch to, as sent. */
  readonly upgrade: string | undefined;
}

/** RFC 9112 3.2: visible characters, and no fragment. */
const TARGET = /^[!"$-~]+$/;

/** RFC 9112 6.3. More digits would not be exact in a double. */
const LENGTH = /^\d{1,15}$/;

/** RFC 9112 3.2.2: scheme and authority of an absolute target, which are not passed on. */
const AUTHORITY = /^http:\/\/[^/?#]*/i;

/**
 * The registered methods that servers know (RFC 9110 16.1.1, and those of WebDAV, UPnP and caches). A backend may guess
 * whether a request with another one has a body. CONNECT is served only as the first request of a connection.
 */
const methods: ReadonlySet<string> = new Set(
  (
    'ACL BIND CHECKOUT COPY DELETE GET HEAD LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MOVE NOTIFY OPTIONS ' +
    'PATCH POST PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE TRACE UNBIND UNLINK UNLOCK ' +
    'UNSUBSCRIBE'
  ).split(' '),
);

/** Whether servers know that method. Otherwise nobody can tell what follows the head. */
export function isKnownMethod(method: string): boolean {
  return methods.has(method);
}

/** undefined means a bad request. */
export function judgeRequest({ version, method, target, headers }: RequestHead): JudgedRequest | undefined {
  if (!methods.has(method) || !TARGET.test(target)) return undefined;
  let hostHeader: string | undefined;
  let body: number | 'chunked' | undefined;
  let connection = '';
  let upgrade: string | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1];
    switch (headers[at].toLowerCase()) {
      case 'host':
        if (hostHeader !== undefined) return undefined;
        hostHeader = value;
        break;
      // RFC 9112 6.1 and 6.3: one framing, given once.
      case 'content-length':
        if (body !== undefined || !LENGTH.test(value)) return undefined;
        body = Number(value);
        break;
      case 'transfer-encoding':
        // HTTP/1.0 has none (RFC 9112 6.1), and any other coding would be lost when the body is framed anew.
        if (body !== undefined || version === '1.0' || value.toLowerCase() !== 'chunked') return undefined;
        body = 'chunked';
        break;
      case 'connection':
        connection += `,${value}`;
        break;
      case 'upgrade':
        upgrade = upgrade === undefined ? value : `${upgrade}, ${value}`;
        break;
      default:
    }
  }
  const host = hostHeader === undefined ? undefined : requestHost(hostHeader, target);
  const origin = originForm(target, method);
  if (hostHeader === undefined || host === undefined || origin === undefined) return undefined;
  return {
    host,
    hostHeader,
    target: origin,
    body,
    keepAlive: version === '1.1' ? !/\bclose\b/i.test(connection) : /\bkeep-alive\b/i.test(connection),
    upgrade: upgrade !== undefined && /\bupgrade\b/i.test(connection) ? upgrade : undefined,
  };
}

/**
 * Whether to pass the offer on. RFC 9110 7.8: not from HTTP/1.0. Not to h2c: that would carry requests past us. A
 * request with a body is served without the upgrade.
 */
export function mayUpgrade({ upgrade = '', body }: JudgedRequest, version: RequestHead['version']): boolean {
  return (
    upgrade !== '' &&
    version === '1.1' &&
    !/\bh2c?\b|\btls\b|\bhttp\b/.test(upgrade.toLowerCase()) &&
    (body === undefined || body === 0)
  );
}

function originForm(url: string, method: string): string | undefined {
  if (url === '*') return method === 'OPTIONS' ? url : undefined;
  if (url.startsWith('/')) return url;
  const rest = url.replace(AUTHORITY, '');
  if (rest === '' && method === 'OPTIONS') return '*';
  return rest.startsWith('/') ? rest : `/${rest}`;
}
