// PROXY protocol headers, version 1 (a line of text) and 2 (binary): they carry the true client and, in a TLV, the
// cluster of an agent. Read between accept and the hello, and written before the client's bytes for backends with
// `proxyProtocol`. Both follow haproxy's doc/proxy-protocol.txt.

import { incomplete, type Parsed } from './parsed.ts';
import type { ProxyHeader } from './proxy-header.ts';
import { parseProxyV1 } from './proxy-v1.ts';
import { parseProxyV2 } from './proxy-v2.ts';

export type { Endpoint, ProxyHeader, Tlv } from './proxy-header.ts';
export { buildProxyV1 } from './proxy-v1.ts';
export { buildProxyV2, MAX_PROXY_HEADER } from './proxy-v2.ts';

const FIRST_OF_V2 = 0x0d;

/** Parses one header at `from`; ignores what follows it. */
export function parseProxyHeader(bytes: Uint8Array, from = 0, to = bytes.length): Parsed<ProxyHeader> {
  if (from >= to) return incomplete;
  return bytes[from] === FIRST_OF_V2 ? parseProxyV2(bytes, from, to) : parseProxyV1(bytes, from, to);
}
