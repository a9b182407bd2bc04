// The hand-off header: the first bytes on a connection from a worker to a protocol thread, and on one that returns from
// there. It is a PROXY v2 header with the true client, plus a TLV of our own that identifies the worker's row. The
// sockets are in a folder that no other user can enter.

import { buildProxyV2, type Endpoint, type ProxyHeader } from '../../wire/proxy-protocol.ts';

export interface HandOff {
  /** The worker that has the client, its handle there, and the hand-off's generation: see verdicts.ts. */
  readonly worker: number;
  readonly handle: number;
  readonly generation: number;
  readonly listener: number;
  /** The TCP peer is a balancer that sent no PROXY header: its X-Forwarded-* and Forwarded headers are trusted. */
  readonly trustForwarded: boolean;
  /** The client speaks HTTP/2. On return: the connection is one stream of such a client. */
  readonly isH2: boolean;
  /** On return: the connection came through an agent's tunnel, and its id must be signed. */
  readonly isTunnelled: boolean;
  /**
   * If the client's descriptor is lent (verdicts.ts): how many of the client's bytes the worker had read by then. They
   * follow this header; all others are read and written on the descriptor.
   */
  readonly lentBehind: number | undefined;
}

/** From the range reserved for private use. */
const TLV = 0xe4;
const LENGTH = 21;
/** Bits of the last byte. */
const TRUST_FORWARDED = 1;
const H2 = 2;
const TUNNELLED = 4;
/** No descriptor is lent: all bytes pass through the worker. */
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

/** The worker's row of a returned stream. The worker's answer to the CONNECT names it. */
export type WorkerRow = Pick<HandOff, 'worker' | 'handle' | 'generation'>;

const ROW_HEADER = 'Causeway-Row';
const ROW = new RegExp(`^${ROW_HEADER}: (\\d+) (\\d+) (-?\\d+)\\r$`, 'm');

export function rowHeader({ worker, handle, generation }: WorkerRow): string {
  return `${ROW_HEADER}: ${worker} ${handle} ${generation}\r\n`;
}

/** Reads it from the head of an answer. */
export function readRowHeader(head: string): WorkerRow | undefined {
  const [, worker, handle, generation] = ROW.exec(head) ?? [];
  if (worker === undefined) return undefined;
  return { worker: Number(worker), handle: Number(handle), generation: Number(generation) };
}

/** undefined if the header is not a hand-off. */
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
