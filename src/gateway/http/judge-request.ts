// Whether a request that node:http has parsed may be served: what its parser lets pass and two programs in a row could
// read differently is refused here. Pure.

import { requestHost } from '../../wire/http-head.ts';

export interface RequestHead {
  readonly httpVersion: string;
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  /** Names and values in turn, as sent. */
  readonly rawHeaders: readonly string[];
}

export interface JudgedRequest {
  /** To route by: lower case, without port and trailing dot. */
  readonly host: string;
  /** As sent. */
  readonly hostHeader: string;
  /** For the backend: the path and query alone, or `*`. */
  readonly target: string;
}

/** RFC 9112 3.2: what is visible, and no fragment. */
const TARGET = /^[!"$-~]+$/;

/** RFC 9112 6.3. More digits are not exact any more. */
const LENGTH = /^\d{1,15}$/;

/** RFC 9112 3.2.2: scheme and authority of an absolute target, which the backend does not get. */
const AUTHORITY = /^http:\/\/[^/?#]*/i;

/** undefined is a bad request. */
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
      // HTTP/1.0 has none (RFC 9112 6.1), and what is coded otherwise cannot be framed anew without losing the word.
      if (httpVersion === '1.0' || rawHeaders[at + 1].toLowerCase() !== 'chunked') return undefined;
    }
  }
  // RFC 9112 6.1 and 6.3: one framing, said once.
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
