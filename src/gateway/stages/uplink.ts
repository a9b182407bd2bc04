// An agent's side of dial: the bytes that precede the client's own and name the cluster to the gateway. `proxy` is a
// PROXY v2 header in one write; `connect` is a CONNECT whose answer is awaited. The other two need TLS:
// see streams/uplinks.ts.

import type { Uplink } from '../../cluster/cluster.ts';
import { sign } from '../../identity/sign.ts';
import { parseResponseHead } from '../../wire/http-response.ts';
import { isIpv4 } from '../../wire/ip-address.ts';
import { buildProxyV2, type Endpoint } from '../../wire/proxy-protocol.ts';
import { SIGNATURE_TLV } from '../../wire/signature.ts';
import { AGAIN } from '../io/reactor.ts';
import type { DataPath } from './data-path.ts';
import { type DialFailure, failureOf } from './dial-failure.ts';
import { readHeld } from './held-bytes.ts';

/** HyperShift's type for the cluster id. */
const ID_TLV = 0x20;
/** An agent's CONNECT needs a port besides the id. The gateway ignores it. */
const CONNECT_PORT = 6443;
/** Bytes of the gateway's answer that are logged. */
const MAX_REPORTED = 200;

/** Unsigned, 67 bytes from IPv4 and 91 from IPv6, exactly as a HyperShift node sends them. */
export function buildUplinkHeader(uplink: Uplink, source: Endpoint, destination: Endpoint): Uint8Array {
  const id = { type: ID_TLV, value: Buffer.from(uplink.clusterId, 'latin1') };
  if (uplink.key === undefined) return buildProxyV2({ source, destination, tlvs: [id] });
  const signature = sign(keyOf(uplink), { id: uplink.clusterId, source: asSent(source, destination) });
  return buildProxyV2({ source, destination, tlvs: [id, { type: SIGNATURE_TLV, value: signature }] });
}

export function buildUplinkConnect(uplink: Uplink): Uint8Array {
  const authority = `${uplink.clusterId}:${CONNECT_PORT}`;
  const signature =
    uplink.key === undefined
      ? ''
      : `Causeway-Signature: ${Buffer.from(sign(keyOf(uplink), { id: uplink.clusterId })).toString('base64url')}\r\n`;
  return Buffer.from(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${signature}\r\n`, 'latin1');
}

/** The answer to a CONNECT. */
export type ConnectAnswer =
  | { readonly kind: 'incomplete' }
  /** `rest` holds the bytes after the gateway's answer. */
  | { readonly kind: 'open'; readonly rest: Uint8Array }
  | { readonly kind: 'refused'; readonly status: number; readonly reported: string }
  | { readonly kind: 'broken'; readonly failure: DialFailure };

/** Reads the available bytes into the backend's hold. */
export function readConnectAnswer(path: DataPath, backend: number): ConnectAnswer {
  const { rows } = path;
  for (;;) {
    const count = readHeld(path, backend);
    if (count === AGAIN) return { kind: 'incomplete' };
    if (count <= 0) return { kind: 'broken', failure: failureOf(count) };
    const held = rows.held[backend] as Uint8Array;
    const used = rows.heldTo[backend];
    const head = parseResponseHead(held, 0, used);
    if (head.kind === 'reject') return { kind: 'broken', failure: 'other' };
    if (head.kind === 'incomplete') continue;
    const rest = Uint8Array.prototype.slice.call(held, head.value.end, used);
    // RFC 9110 9.3.6: any 2xx is a success.
    if (head.value.status >= 200 && head.value.status <= 299) return { kind: 'open', rest };
    const reported = Buffer.from(rest.subarray(0, MAX_REPORTED)).toString('latin1').trim();
    return { kind: 'refused', status: head.value.status, reported };
  }
}

function keyOf({ key = '' }: Uplink): Uint8Array {
  return Buffer.from(key, 'base64url');
}

/** If both ends are IPv4, the header has four-byte addresses, and the signature covers that form. */
function asSent(source: Endpoint, destination: Endpoint): Endpoint {
  const short = (address: Uint8Array) => address.length === 4 || isIpv4(address, 0);
  return short(source.address) && short(destination.address)
    ? { address: source.address.slice(-4), port: source.port }
    : source;
}
