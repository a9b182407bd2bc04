// What a client speaks, told by its first bytes: the first question about every connection, and asked again
// after each PROXY header. Looks at no more than 21 bytes and decides on the first that leaves no doubt.

import { endOfToken } from './token.ts';

export type Protocol = 'tls' | 'proxy' | 'connect' | 'http' | 'h2';

/** RFC 8446 5.1: content type handshake. Nothing else that we speak begins with it, so one byte decides. */
const TLS_HANDSHAKE = 0x16;

/** The longest registered method is UPDATEREDIRECTREF with 17 characters; beyond 20 it is not HTTP. */
const MAX_METHOD = 20;

const SPACE = 0x20;
const CARRIAGE_RETURN = 0x0d;

const PROXY_V2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const PROXY_V1 = Buffer.from('PROXY ', 'latin1');
const CONNECT = Buffer.from('CONNECT ', 'latin1');
/** RFC 9113 3.4. The rest of the preface is for the HTTP/2 part to check. */
const H2 = Buffer.from('PRI * HTTP/2', 'latin1');

export function recognize(bytes: Uint8Array, from: number, to: number): Protocol | 'incomplete' | 'unknown' {
  if (from >= to) return 'incomplete';
  const first = bytes[from];
  if (first === TLS_HANDSHAKE) return 'tls';
  if (first === CARRIAGE_RETURN) return compare(PROXY_V2, 'proxy', bytes, from, to) ?? 'unknown';
  return (
    compare(PROXY_V1, 'proxy', bytes, from, to) ??
    compare(CONNECT, 'connect', bytes, from, to) ??
    compare(H2, 'h2', bytes, from, to) ??
    recognizeMethod(bytes, from, to)
  );
}

/** The protocol when the bytes begin with its prefix, undefined when they cannot any more. */
function compare(
  prefix: Uint8Array,
  protocol: Protocol,
  bytes: Uint8Array,
  from: number,
  to: number,
): Protocol | 'incomplete' | undefined {
  const length = Math.min(prefix.length, to - from);
  for (let i = 0; i < length; i++) {
    if (bytes[from + i] !== prefix[i]) return undefined;
  }
  return length === prefix.length ? protocol : 'incomplete';
}

/** POST, PUT, PATCH and PROPFIND come here as soon as they differ from `PROXY `, as CONNECTX does. */
function recognizeMethod(bytes: Uint8Array, from: number, to: number): 'http' | 'incomplete' | 'unknown' {
  const end = endOfToken(bytes, from, Math.min(to, from + MAX_METHOD));
  if (end === to) return 'incomplete';
  return end > from && bytes[end] === SPACE ? 'http' : 'unknown';
}
