// The first bytes on a connection from the front to a part of ours (HTTP, TLS), and on one that comes back from there: a
// PROXY v2 header with the true client, and in a TLV of our own whose connection it is. The sockets stand in a folder
// that nobody else can enter.

import { buildProxyV2, type Endpoint, type ProxyHeader } from '../../wire/proxy-protocol.ts';

export interface HandOff {
  /** Which worker has the client, under which handle, and for the how manyth time: see verdicts.ts. */
  readonly worker: number;
  readonly handle: number;
  readonly generation: number;
  readonly listener: number;
  /** The TCP peer is a balancer that sent no PROXY header: X-Forwarded-* and Forwarded are its own, and pass. */
  readonly trustForwarded: boolean;
  /** It speaks HTTP/2. On its way back: it is one stream of such a connection. */
  readonly isH2: boolean;
  /** On its way back: it came through an agent's tunnel, whose id must be proven. */
  readonly isTunnelled: boolean;
  /**
   * Where the part gets the client's descriptor (verdicts.ts): how many of the client's bytes the front had read by then,
   * which follow this header. All others are read and written there.
   */
  readonly lentBehind: number | undefined;
}

/** From the range for private use. */
const TLV = 0xe4;
const LENGTH = 21;
/** Bits of the last byte. */
const TRUST_FORWARDED = 1;
const H2 = 2;
const TUNNELLED = 4;
/** No descriptor is lent: all bytes pass the front. */
const NOT_LENT = -1;

export function buildHandOff(source: Endpoint, destination: Endpoint, handOff: HandOff): Uint8Array {
  const value = Buffer.allocUnsafe(LENGTH);
  value.writeInt32BE(handOff.worker, 0);
  value.writeInt32BE(handOff.handle, 4);
  value.writeInt32BE(handOff.generation, 8);
  value.writeInt32BE(handOff.listener, 12);
  value.writeInt32BE(handOff.lentBehind ?? NOT_LENT, 16);
  value[20] =
    (handOff.trustForwarded ? TRUST_FORWARDED : 0) |
    (handOff.isH2 ? H2 : 0) |
    (handOff.isTunnelled ? TUNNELLED : 0);
  return buildProxyV2({ source, destination, tlvs: [{ type: TLV, value }] });
}

/** Where the front has a stream that came back. It stands in the front's answer to the CONNECT. */
export type WorkerRow = Pick<HandOff, 'worker' | 'handle' | 'generation'>;

const ROW_HEADER = 'Causeway-Row';
const ROW = new RegExp(`^${ROW_HEADER}: (\\d+) (\\d+) (-?\\d+)\\r$`, 'm');

export function rowHeader({ worker, handle, generation }: WorkerRow): string {
  return `${ROW_HEADER}: ${worker} ${handle} ${generation}\r\n`;
}

/** From the head of an answer. */
export function readRowHeader(head: string): WorkerRow | undefined {
  const [, worker, handle, generation] = ROW.exec(head) ?? [];
  if (worker === undefined) return undefined;
  return { worker: Number(worker), handle: Number(handle), generation: Number(generation) };
}

/** undefined when it is not one of ours. */
export function readHandOff(header: ProxyHeader): HandOff | undefined {
  const value = header.tlvs.find(tlv => tlv.type === TLV)?.value;
  if (value?.length !== LENGTH) return undefined;
  const bytes = Buffer.from(value.buffer, value.byteOffset, LENGTH);
  const lentBehind = bytes.readInt32BE(16);
  return {
    worker: bytes.readInt32BE(0),
    handle: bytes.readInt32BE(4),
    generation: bytes.readInt32BE(8),
    listener: bytes.readInt32BE(12),
    lentBehind: lentBehind === NOT_LENT ? undefined : lentBehind,
    trustForwarded: (bytes[20] & TRUST_FORWARDED) !== 0,
    isH2: (bytes[20] & H2) !== 0,
    isTunnelled: (bytes[20] & TUNNELLED) !== 0,
  };
}
