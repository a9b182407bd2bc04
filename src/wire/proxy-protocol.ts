// PROXY protocol headers, version 1 (a line of text) and 2 (binary): who the true client is and, in a TLV,
// which cluster an agent speaks for. Read between accept and the hello, and written in front of the client's
// bytes when a backend wants to know. Both follow haproxy's doc/proxy-protocol.txt.

import { incomplete, type Parsed } from './parsed.ts';
import type { ProxyHeader } from './proxy-header.ts';
import { parseProxyV1 } from './proxy-v1.ts';
import { parseProxyV2 } from './proxy-v2.ts';

export type { Endpoint, ProxyHeader, Tlv } from './proxy-header.ts';
export { buildProxyV1 } from './proxy-v1.ts';
export { buildProxyV2, MAX_PROXY_HEADER } from './proxy-v2.ts';

const FIRST_OF_V2 = 0x0d;

/** One header at `from`; what follows it is not looked at. */
export function parseProxyHeader(bytes: Uint8Array, from: number, to: number): Parsed<ProxyHeader> {
  if (from >= to) return incomplete;
  return bytes[from] === FIRST_OF_V2 ? parseProxyV2(bytes, from, to) : parseProxyV1(bytes, from, to);
}
