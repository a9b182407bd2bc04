// Decides whether a request may be served, and how: refuses what our parser lets pass but two programs in a row could
// read differently. Pure.

import { isHostname } from '../../cluster/hostname.ts';
import { CLOSES, KEEPS_ALIVE, UPGRADES } from '../../wire/connection-options.ts';
import { CONTENT_LENGTH, HOST, readLength, TRANSFER_ENCODING, UPGRADE } from '../../wire/field-lines.ts';
import { requestHost } from '../../wire/http-head.ts';
import type { RequestHead } from '../../wire/http-request.ts';
import { isText, isTextInAnyCase, latin1 } from '../../wire/latin1.ts';

/** A Host field. The next request of a connection usually has the same one. */
export interface RequestedHost {
  /** As sent. */
  readonly header: string;
  /** The name to route by: lower case, without port and trailing dot. */
  readonly name: string;
  /** The name is legal, and may be logged. */
  readonly isLegal: boolean;
  /** X-Forwarded-Host. */
  readonly forwardedLine: Uint8Array;
}

export interface JudgedRequest {
  readonly method: string;
  readonly host: RequestedHost;
  /** For the backend, if it differs from what was sent: path and query only, or `*`. */
  readonly target: string | undefined;
  /** The length of the body; undefined if the request has no length. */
  readonly body: number | 'chunked' | undefined;
  /** Whether the client expects to send another request on this connection. */
  readonly keepAlive: boolean;
  /** The protocols that the client offers to switch to, as sent. */
  readonly upgrade: string | undefined;
}

const SLASH = 0x2f;
const NUMBER_SIGN = 0x23;

/** RFC 9112 3.2.2: scheme and authority of an absolute target, which are not passed on. */
const AUTHORITY = /^http:\/\/[^/?#]*/i;

/**
 * The registered methods that servers know (RFC 9110 16.1.1, and those of WebDAV, UPnP and caches), by length. A
 * backend may guess whether a request with another one has a body. CONNECT is served only as the first request of a
 * connection.
 */
const methods: string[][] = [];
for (const method of (
  'GET POST HEAD PUT DELETE OPTIONS PATCH ' +
  'ACL BIND CHECKOUT COPY LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MOVE NOTIFY PROPFIND PROPPATCH PURGE ' +
  'QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE'
).split(' ')) {
  methods[method.length] ??= [];
  methods[method.length].push(method);
}

/** Undefined if servers do not know the method: then nobody can tell what follows the head. */
export function knownMethod({ bytes, from, methodTo }: RequestHead): string | undefined {
  const candidates = methods[methodTo - from];
  if (candidates === undefined) return undefined;
  for (let at = 0; at < candidates.length; at++)
    if (isText(bytes, from, methodTo, candidates[at])) return candidates[at];
  return undefined;
}

/** Undefined means a bad request. `last` is the connection's last host. */
export function judgeRequest(
  head: RequestHead,
  method: string,
  last?: RequestedHost,
): JudgedRequest | undefined {
  const { bytes, fields, isHttp10 } = head;
  let hostAt = -1;
  let body: number | 'chunked' | undefined;
  let upgrade: string | undefined;
  for (let index = 0; index < fields.count; index++) {
    const from = fields.valueFrom[index];
    const to = fields.valueTo[index];
    switch (fields.kind[index]) {
      case HOST:
        if (hostAt >= 0) return undefined;
        hostAt = index;
        break;
      // RFC 9112 6.1 and 6.3: one framing, given once.
      case CONTENT_LENGTH:
        if (body !== undefined) return undefined;
        body = readLength(bytes, from, to);
        if (body < 0) return undefined;
        break;
      case TRANSFER_ENCODING:
        // HTTP/1.0 has none (RFC 9112 6.1), and any other coding would be lost when the body is framed anew.
        if (body !== undefined || isHttp10 || !isTextInAnyCase(bytes, from, to, 'chunked')) return undefined;
        body = 'chunked';
        break;
      case UPGRADE: {
        const offer = latin1(bytes, from, to);
        upgrade = upgrade === undefined ? offer : `${upgrade}, ${offer}`;
        break;
      }
      default:
    }
  }
  if (hostAt < 0 || hasFragment(head)) return undefined;
  const isPath = bytes[head.targetFrom] === SLASH;
  const sent = isPath ? '/' : latin1(bytes, head.targetFrom, head.targetTo);
  const host = readHost(bytes, fields.valueFrom[hostAt], fields.valueTo[hostAt], sent, last);
  const target = isPath ? undefined : originForm(sent, method);
  if (host === undefined || (!isPath && target === undefined)) return undefined;
  const { options } = fields;
  return {
    method,
    host,
    target,
    body,
    keepAlive: isHttp10 ? (options & KEEPS_ALIVE) !== 0 : (options & CLOSES) === 0,
    upgrade: (options & UPGRADES) === 0 ? undefined : upgrade,
  };
}

/**
 * Whether to pass the offer on. RFC 9110 7.8: not from HTTP/1.0. Not to h2c: that would carry requests past us. A
 * request with a body is served without the upgrade.
 */
export function mayUpgrade({ upgrade = '', body }: JudgedRequest, isHttp10: boolean): boolean {
  return (
    upgrade !== '' &&
    !isHttp10 &&
    !/\bh2c?\b|\btls\b|\bhttp\b/.test(upgrade.toLowerCase()) &&
    (body === undefined || body === 0)
  );
}

/** RFC 9112 3.2: a target has no fragment. The parser has refused what is not visible. */
function hasFragment({ bytes, targetFrom, targetTo }: RequestHead): boolean {
  for (let at = targetFrom; at < targetTo; at++) if (bytes[at] === NUMBER_SIGN) return true;
  return false;
}

function readHost(
  bytes: Uint8Array,
  from: number,
  to: number,
  target: string,
  last: RequestedHost | undefined,
): RequestedHost | undefined {
  if (last !== undefined && target === '/' && isText(bytes, from, to, last.header)) return last;
  const header = latin1(bytes, from, to);
  const name = requestHost(header, target);
  if (name === undefined) return undefined;
  const forwardedLine = Buffer.from(`X-Forwarded-Host: ${header}\r\n`, 'latin1');
  return { header, name, isLegal: isHostname(name), forwardedLine };
}

/** Of a target that is not a path. */
function originForm(target: string, method: string): string | undefined {
  if (target === '*') return method === 'OPTIONS' ? target : undefined;
  const rest = target.replace(AUTHORITY, '');
  if (rest === '' && method === 'OPTIONS') return '*';
  return rest.startsWith('/') ? rest : `/${rest}`;
}
