// Carries connection records from a worker to the log: a ring of bytes in shared memory, written by one worker and read
// by the control thread. When it is full, records are counted and dropped; writing never waits.

import { shownClusterId } from '../../cluster/cluster-id.ts';
import { AGENT_WITH_ORIGIN, CLIENT, ENDED_FIRST, ORIGIN, PEER, type Rows } from './rows.ts';

/** Room for about 6,000 connections between two reads. */
const RING_BYTES = 1024 * 1024;
/** Int32 words before the ring. */
const WRITTEN = 0;
const TAKEN = 1;
const DROPPED = 2;
/** 1 while the reader has been notified and has not read yet. */
const NOTIFIED = 3;
const HEAD_WORDS = 4;
const HEAD_BYTES = HEAD_WORDS * Int32Array.BYTES_PER_ELEMENT;

/** Longest text in a record; SNI and CONNECT names have at most 255 characters. */
const MAX_TEXT = 255;
const ADDRESS = 16;
/** Bits of the flags byte. */
const ORIGIN_KNOWN = 1;
const NOT_LOGGED = 2;
const IS_REQUEST = 4;
const CLIENT_FIRST = 8;
/** Where the flags are, in every record. */
const FLAGS_AT = 20;
/** listener, slot, backend slot, detailSeconds; protocol, reason, flags, detail; in, out, ms, dialMs. */
const NUMBERS = 4 * 4 + 4 + 4 * 8;
/** Peer, client and origin with their ports. */
const FIXED = NUMBERS + 3 * (ADDRESS + 2);
/** Length in front, the fixed part, two texts with a length byte each. */
const MAX_RECORD = 2 + FIXED + 2 * (1 + MAX_TEXT);

export interface ConnectionRecord {
  readonly listener: number;
  readonly slot: number;
  readonly backendSlot: number;
  readonly protocol: number;
  readonly reason: number;
  /** Detail of the reason: see Rows. */
  readonly detail: number;
  readonly detailSeconds: number;
  readonly peer: RecordAddress;
  readonly client: RecordAddress;
  readonly origin: RecordAddress | undefined;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly ms: number;
  /** -1 when no backend was reached. */
  readonly dialMs: number;
  readonly host: string;
  /** In a form fit to be shown; empty if there was none. */
  readonly clusterId: string;
  /** Whether the client sent FIN before the backend did. */
  readonly clientEndedFirst: boolean;
  /** Whether the log wants it; otherwise it was written for those who watch refusals. */
  readonly logged: boolean;
}

/** An HTTP request that has ended. */
export interface RequestRecord {
  /** The true client. */
  readonly client: RecordAddress;
  /** Empty if it is not known. */
  readonly host: string;
  /** Route slot, 0 for none. */
  readonly slot: number;
  readonly backendSlot: number;
  /** Empty if the request could not be read. */
  readonly method: string;
  readonly status: number;
  readonly ms: number;
}

export interface RecordAddress {
  readonly address: Uint8Array;
  readonly port: number;
}

export function newRecordRing(): SharedArrayBuffer {
  return new SharedArrayBuffer(HEAD_BYTES + RING_BYTES);
}

export class RecordWriter {
  readonly #head: Int32Array;
  readonly #ring: Uint8Array;
  readonly #notify: () => void;
  readonly #scratch = Buffer.alloc(MAX_RECORD);

  /** `notify` is called when there are records that the reader does not know of. */
  constructor(memory: SharedArrayBuffer, notify: () => void) {
    this.#head = new Int32Array(memory, 0, HEAD_WORDS);
    this.#ring = new Uint8Array(memory, HEAD_BYTES);
    this.#notify = notify;
  }

  write(rows: Rows, client: number, reason: number, now: number, logged = true): void {
    this.#put(this.#encode(rows, client, reason, now, logged), logged);
  }

  writeRequest(rows: Rows, client: number, method: string, status: number, ms: number): void {
    this.#put(this.#encodeRequest(rows, client, method, status, ms), true);
  }

  #put(length: number, logged: boolean): void {
    const written = this.#head[WRITTEN];
    // Positions increase and wrap as int32; only their difference matters.
    const used = (written - Atomics.load(this.#head, TAKEN)) | 0;
    if (used + length > RING_BYTES) {
      if (logged) Atomics.add(this.#head, DROPPED, 1);
    } else {
      const at = (written >>> 0) % RING_BYTES;
      const first = Math.min(length, RING_BYTES - at);
      this.#ring.set(this.#scratch.subarray(0, first), at);
      if (first < length) this.#ring.set(this.#scratch.subarray(first, length), 0);
      Atomics.store(this.#head, WRITTEN, (written + length) | 0);
    }
    if (Atomics.exchange(this.#head, NOTIFIED, 1) === 0) this.#notify();
  }

  #encode(rows: Rows, client: number, reason: number, now: number, logged: boolean): number {
    const b = this.#scratch;
    const origin = rows.client[client] === AGENT_WITH_ORIGIN ? ORIGIN_KNOWN : 0;
    const first = rows.input[client] === ENDED_FIRST ? CLIENT_FIRST : 0;
    let at = 2;
    at = b.writeInt32LE(rows.listener[client], at);
    at = b.writeInt32LE(rows.slot[client], at);
    at = b.writeInt32LE(rows.backendSlot[client], at);
    at = b.writeInt32LE(rows.detailSeconds[client], at);
    at = b.writeUInt8(rows.protocol[client], at);
    at = b.writeUInt8(reason, at);
    at = b.writeUInt8(origin | first | (logged ? 0 : NOT_LOGGED), at);
    at = b.writeUInt8(rows.detail[client], at);
    at = b.writeDoubleLE(rows.bytesIn[client], at);
    at = b.writeDoubleLE(rows.bytesOut[client], at);
    at = b.writeDoubleLE(now - rows.startedAt[client], at);
    at = b.writeDoubleLE(rows.dialMs[client], at);
    for (const place of [PEER, CLIENT, ORIGIN]) {
      const from = rows.addressAt(client, place);
      b.set(rows.addresses.subarray(from, from + ADDRESS), at);
      at = b.writeUInt16LE(rows.portOf(client, place), at + ADDRESS);
    }
    const id = rows.clusterId[client];
    for (const text of [rows.host[client] ?? '', id === undefined ? '' : shownClusterId(id)]) {
      const count = b.write(text.slice(0, MAX_TEXT), at + 1, 'latin1');
      b[at] = count;
      at += 1 + count;
    }
    b.writeUInt16LE(at, 0);
    return at;
  }

  #encodeRequest(rows: Rows, client: number, method: string, status: number, ms: number): number {
    const b = this.#scratch;
    const from = rows.addressAt(client, CLIENT);
    let at = b.writeInt32LE(rows.slot[client], 2);
    at = b.writeInt32LE(rows.backendSlot[client], at);
    at = b.writeDoubleLE(ms, at);
    at = b.writeUInt16LE(status, at);
    at = b.writeUInt8(IS_REQUEST, at);
    at = b.writeUInt16LE(rows.portOf(client, CLIENT), at);
    b.set(rows.addresses.subarray(from, from + ADDRESS), at);
    at += ADDRESS;
    for (const text of [rows.host[client] ?? '', method]) {
      const count = b.write(text.slice(0, MAX_TEXT), at + 1, 'latin1');
      b[at] = count;
      at += 1 + count;
    }
    b.writeUInt16LE(at, 0);
    return at;
  }
}

export class RecordReader {
  readonly #head: Int32Array;
  readonly #ring: Uint8Array;

  constructor(memory: SharedArrayBuffer) {
    this.#head = new Int32Array(memory, 0, HEAD_WORDS);
    this.#ring = new Uint8Array(memory, HEAD_BYTES);
  }

  /** Passes on all records and returns how many log lines were dropped since the last call. */
  take(
    each: (record: ConnectionRecord) => void,
    eachRequest: (record: RequestRecord) => void = () => {},
  ): number {
    Atomics.store(this.#head, NOTIFIED, 0);
    const written = Atomics.load(this.#head, WRITTEN);
    let taken = this.#head[TAKEN];
    while (taken !== written) {
      const length = this.#byte(taken) | (this.#byte(taken + 1) << 8);
      const record = this.#copy(taken, length);
      if ((record[FLAGS_AT] & IS_REQUEST) === 0) each(decode(record));
      else eachRequest(decodeRequest(record));
      taken = (taken + length) | 0;
      Atomics.store(this.#head, TAKEN, taken);
    }
    return Atomics.exchange(this.#head, DROPPED, 0);
  }

  #byte(position: number): number {
    return this.#ring[(position >>> 0) % RING_BYTES];
  }

  #copy(position: number, length: number): Buffer {
    const record = Buffer.allocUnsafe(length);
    const at = (position >>> 0) % RING_BYTES;
    const first = Math.min(length, RING_BYTES - at);
    record.set(this.#ring.subarray(at, at + first), 0);
    if (first < length) record.set(this.#ring.subarray(0, length - first), first);
    return record;
  }
}

function decode(b: Buffer): ConnectionRecord {
  const addressAt = 2 + NUMBERS;
  const addresses = [0, 1, 2].map(place => {
    const at = addressAt + place * (ADDRESS + 2);
    return {
      address: Uint8Array.prototype.slice.call(b, at, at + ADDRESS),
      port: b.readUInt16LE(at + ADDRESS),
    };
  });
  const hostAt = addressAt + 3 * (ADDRESS + 2);
  const idAt = hostAt + 1 + b[hostAt];
  return {
    listener: b.readInt32LE(2),
    slot: b.readInt32LE(6),
    backendSlot: b.readInt32LE(10),
    detailSeconds: b.readInt32LE(14),
    protocol: b[18],
    reason: b[19],
    origin: (b[20] & ORIGIN_KNOWN) === 0 ? undefined : addresses[2],
    clientEndedFirst: (b[20] & CLIENT_FIRST) !== 0,
    logged: (b[20] & NOT_LOGGED) === 0,
    detail: b[21],
    bytesIn: b.readDoubleLE(22),
    bytesOut: b.readDoubleLE(30),
    ms: b.readDoubleLE(38),
    dialMs: b.readDoubleLE(46),
    peer: addresses[0],
    client: addresses[1],
    host: b.toString('latin1', hostAt + 1, idAt),
    clusterId: b.toString('latin1', idAt + 1, idAt + 1 + b[idAt]),
  };
}

function decodeRequest(b: Buffer): RequestRecord {
  const addressAt = FLAGS_AT + 3;
  const hostAt = addressAt + ADDRESS;
  const methodAt = hostAt + 1 + b[hostAt];
  return {
    slot: b.readInt32LE(2),
    backendSlot: b.readInt32LE(6),
    ms: b.readDoubleLE(10),
    status: b.readUInt16LE(18),
    client: {
      address: Uint8Array.prototype.slice.call(b, addressAt, hostAt),
      port: b.readUInt16LE(FLAGS_AT + 1),
    },
    host: b.toString('latin1', hostAt + 1, methodAt),
    method: b.toString('latin1', methodAt + 1, methodAt + 1 + b[methodAt]),
  };
}
