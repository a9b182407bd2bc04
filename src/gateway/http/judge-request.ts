// Decides whether a request that node:http has parsed may be served: refuses what its parser lets pass but two programs
// in a row could read differently. Pure.

import { requestHost } from '../../wire/http-head.ts';

export interface RequestHead {
  readonly httpVersion: string;
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** Alternating names and values, as sent. */
  readonly rawHeaders: readonly string[];
}

export interface JudgedRequest {
  /** The name to route by: lower case, without port and trailing dot. */
  readonly host: string;
  /** As sent. */
  readonly hostHeader: string;
  /** For the backend: path and query only, or `*`. */
  readonly target: string;
}

/** RFC 9112 3.2: visible characters, and no fragment. */
const TARGET = /^[!"$-~]+$/;

/** RFC 9112 6.3. More digits would not be exact in a double. */
const LENGTH = /^\d{1,15}$/;

/** RFC 9112 3.2.2: scheme and authority of an absolute target, which are not passed on. */
const AUTHORITY = /^http:\/\/[^/?#]*/i;

/** undefined means a bad request. */
export function judgeRequest(request: RequestHead): JudgedRequest | undefined {
  const { httpVersion, method = '', url = '', rawHeaders } = request;
  if ((httpVersion !== '1.1' && httpVersion !== '1.0') || !TARGET.test(url)) return undefined;
  let hostHeader: string | undefined;
  let lengths = 0;
  let encodings = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at].toLowerCase();
    if (name === 'host') {
      if (hostHeader !== undefined) return undefined;
      hostHeader = rawHeaders[at + 1];
    } else if (name === 'content-length') {
      lengths++;
      if (!LENGTH.test(rawHeaders[at + 1])) return undefined;
    } else if (name === 'transfer-encoding') {
      encodings++;
      // HTTP/1.0 has none (RFC 9112 6.1), and any other coding would be lost when the body is framed anew.
      if (httpVersion === '1.0' || rawHeaders[at + 1].toLowerCase() !== 'chunked') return undefined;
    }
  }
  // RFC 9112 6.1 and 6.3: one framing, given once.
  if (hostHeader === undefined || lengths + encodings > 1) return undefined;
  const host = requestHost(hostHeader, url);
  if (host === undefined) return undefined;
  const target = originForm(url, method);
  return target === undefined ? undefined : { host, hostHeader, target };
}

function originForm(url: string, method: string): string | undefined {
  if (url === '*') return method === 'OPTIONS' ? url : undefined;
  if (url.startsWith('/')) return url;
  const rest = url.replace(AUTHORITY, '');
  if (rest === '' && method === 'OPTIONS') return '*';
  return rest.startsWith('/') ? rest : `/${rest}`;
}
