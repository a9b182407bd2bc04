// Recognizes a client's protocol by its first bytes, at the start of every connection and after each PROXY header.
// Reads at most 21 bytes and decides as early as possible.

import { endOfToken } from './token.ts';

export type Protocol = 'tls' | 'proxy' | 'connect' | 'http' | 'h2';

/** RFC 8446 5.1: content type handshake. No other supported protocol starts with it, so one byte decides. */
const TLS_HANDSHAKE = 0x16;

/** The longest registered method is UPDATEREDIRECTREF with 17 characters; beyond 20 it is not HTTP. */
const MAX_METHOD = 20;

const SPACE = 0x20;
const CARRIAGE_RETURN = 0x0d;

const PROXY_V2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const PROXY_V1 = Buffer.from('PROXY ', 'latin1');
const CONNECT = Buffer.from('CONNECT ', 'latin1');
/** RFC 9113 3.4. node:http2 checks the rest of the preface. */
const H2 = Buffer.from('PRI * HTTP/2', 'latin1');

export function recognize(
  bytes: Uint8Array,
  from = 0,
  to = bytes.length,
): Protocol | 'incomplete' | 'unknown' {
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

/** The protocol if the bytes start with its prefix, undefined if they cannot. */
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

/** POST, PUT, PATCH and PROPFIND get here as soon as they differ from `PROXY `, and so does CONNECTX. */
function recognizeMethod(bytes: Uint8Array, from: number, to: number): 'http' | 'incomplete' | 'unknown' {
  const end = endOfToken(bytes, from, Math.min(to, from + MAX_METHOD));
  if (end === to) return 'incomplete';
  return end > from && bytes[end] === SPACE ? 'http' : 'unknown';
}
