// For tests: the other end of a connection of the scripted reactor, a client or a backend. It sends and reads when the
// test says so, and remembers what it saw.

import { FAILED, HUNG_UP, READABLE, REFUSED, RESET, WRITABLE } from './reactor.ts';

/** Bytes that the kernel takes for a peer that does not read. */
const ROOM = 64 * 1024;

/** Bytes in order. */
class ByteQueue {
  #chunks: Buffer[] = [];
  length = 0;

  put(bytes: Uint8Array): void {
    this.#chunks.push(Buffer.from(bytes));
    this.length += bytes.length;
  }

  /** Moves bytes to [from, to) and returns how many. */
  take(into: Uint8Array, from: number, to: number): number {
    let at = from;
    while (at < to && this.#chunks.length > 0) {
      const [chunk] = this.#chunks;
      const count = chunk.copy(into, at, 0, Math.min(chunk.length, to - at));
      at += count;
      if (count === chunk.length) this.#chunks.shift();
      else this.#chunks[0] = chunk.subarray(count);
    }
    this.length -= at - from;
    return at - from;
  }

  clear(): void {
    this.#chunks = [];
    this.length = 0;
  }
}

/** One connection, with both its directions, as reactor and peer see it. */
export interface Link {
  readonly name: string;
  readonly address: Uint8Array;
  readonly port: number;
  /** -1 before accept and once the reactor's side is closed. */
  handle: number;
  isConnecting: boolean;
  /** Events are promised. */
  isRegistered: boolean;
  /** Events since the last report. */
  changes: number;
  /** Bytes from the peer that the reactor's user has not read. */
  readonly inbox: ByteQueue;
  /** The peer has sent FIN. */
  hasEnded: boolean;
  /** That was reported. */
  isEndSeen: boolean;
  /** The peer has closed: bytes to it are answered with RST. */
  isPeerGone: boolean;
  /** Reset, refused or timed out. */
  isBroken: boolean;
  /** Why, until it is reported. */
  error: number;
  /** Bytes that write() took and the peer has not read. */
  readonly pipe: ByteQueue;
  room: number;
  /** The last write was not taken whole. */
  isFull: boolean;
  fullSince: number;
  stalledMs: number;
  /** FIN follows the bytes in the pipe. */
  isShut: boolean;
  /** How the stream ended for the peer. */
  peerEnd: 'fin' | 'reset' | undefined;
  /** Passes bytes and FIN on to a peer that reads. */
  deliver: () => void;
}

export function newLink(reports: 'state' | 'changes', name: string, address: Uint8Array, port: number): Link {
  return {
    name,
    address,
    port,
    handle: -1,
    isConnecting: false,
    isRegistered: reports === 'changes',
    changes: 0,
    inbox: new ByteQueue(),
    hasEnded: false,
    isEndSeen: false,
    isPeerGone: false,
    isBroken: false,
    error: 0,
    pipe: new ByteQueue(),
    room: ROOM,
    isFull: false,
    fullSince: 0,
    stalledMs: 0,
    isShut: false,
    peerEnd: undefined,
    deliver: () => {},
  };
}

export class ScriptedPeer {
  readonly #link: Link;
  readonly #changed: (link: Link, events: number) => void;
  readonly #received: Buffer[] = [];
  readonly #sent: Buffer[] = [];
  #isReading = true;
  #hasReset = false;

  constructor(link: Link, changed: (link: Link, events: number) => void) {
    this.#link = link;
    this.#changed = changed;
    link.deliver = () => {
      if (link.isPeerGone && link.pipe.length > 0) this.#sendReset();
      else if (this.#isReading) this.#take(Infinity);
    };
  }

  /** Its address and port. */
  get name(): string {
    return this.#link.name;
  }

  /** All bytes that it has read. */
  get received(): Buffer {
    return Buffer.concat(this.#received);
  }

  get text(): string {
    return this.received.toString('latin1');
  }

  /** All bytes that it has sent. */
  get sent(): Buffer {
    return Buffer.concat(this.#sent);
  }

  /** How the stream ended after the received bytes; undefined if it has not. A reset may follow a FIN. */
  get end(): 'fin' | 'reset' | undefined {
    return this.#link.peerEnd;
  }

  /** Takes whatever is written to it. */
  get isReading(): boolean {
    return this.#isReading;
  }

  /** Number of bytes it has sent that the gateway has not read. */
  get unread(): number {
    return this.#link.inbox.length;
  }

  get hasSentFin(): boolean {
    return this.#link.hasEnded;
  }

  get hasSentReset(): boolean {
    return this.#hasReset;
  }

  /** Whether it can still send. */
  get isOpen(): boolean {
    const { isBroken, hasEnded, isConnecting } = this.#link;
    return !isBroken && !hasEnded && !isConnecting;
  }

  get isConnecting(): boolean {
    return this.#link.isConnecting && this.#link.handle >= 0;
  }

  /** As a backend: accepts the connection. */
  accepts(): void {
    if (!this.isConnecting) return;
    this.#link.isConnecting = false;
    this.#changed(this.#link, WRITABLE);
  }

  /** As a backend: the connection fails with that error. */
  refuses(error = REFUSED): void {
    if (!this.isConnecting) return;
    this.#link.isConnecting = false;
    this.#break(error);
  }

  sends(bytes: Uint8Array | string): this {
    if (!this.isOpen) return this;
    const sent = Buffer.from(bytes as Uint8Array);
    this.#sent.push(sent);
    if (this.#link.isShut && this.#link.handle < 0) {
      // The gateway has closed: its kernel answers with RST.
      this.#break(RESET);
      return this;
    }
    this.#link.inbox.put(sent);
    this.#changed(this.#link, READABLE);
    return this;
  }

  /** Sends FIN, and still reads. */
  fin(): this {
    if (!this.isOpen) return this;
    this.#link.hasEnded = true;
    if (this.#link.inbox.length === 0) this.#changed(this.#link, READABLE | HUNG_UP);
    else this.#changed(this.#link, 0);
    return this;
  }

  /** Closes the socket: sends FIN, and answers further bytes with RST. Unread bytes make it a reset. */
  closes(): this {
    if (this.#link.pipe.length > 0) return this.resets();
    this.fin();
    this.#link.isPeerGone = true;
    return this;
  }

  resets(): this {
    if (!this.#link.isBroken && !this.#link.isConnecting) this.#sendReset();
    return this;
  }

  /** Stops reading; the kernel takes `room` more bytes for it. */
  stalls(room = 0): this {
    this.#isReading = false;
    this.#link.room = this.#link.pipe.length + room;
    return this;
  }

  /** Reads that many of the waiting bytes, and makes room for as many. */
  reads(count: number): this {
    if (!this.#isReading) this.#take(count);
    return this;
  }

  /** Reads everything from now on. */
  resumes(): this {
    this.#isReading = true;
    this.#link.room = ROOM;
    this.#take(Infinity);
    return this;
  }

  #take(most: number): void {
    const link = this.#link;
    const count = Math.min(most, link.pipe.length);
    const bytes = Buffer.alloc(count);
    link.pipe.take(bytes, 0, count);
    if (count > 0) this.#received.push(bytes);
    if (link.isShut && link.pipe.length === 0 && !link.isBroken) link.peerEnd ??= 'fin';
    if (!link.isFull || (count === 0 && link.pipe.length >= link.room)) return;
    link.fullSince = Infinity;
    this.#changed(link, WRITABLE);
  }

  #sendReset(): void {
    this.#hasReset = true;
    this.#break(RESET);
  }

  #break(error: number): void {
    const link = this.#link;
    link.isBroken = true;
    link.error = error;
    link.pipe.clear();
    link.peerEnd = 'reset';
    this.#changed(link, READABLE | FAILED);
  }
}
