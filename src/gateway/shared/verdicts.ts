// What the HTTP part tells the front of a connection that it was handed: the last request's route and backend, and
// why the connection is to end. In shared memory, by the front's handle. Each hand-over has a generation of its own,
// so that a late word about one connection never lands on the next that has the same handle.
//
// The same words serve a stream that comes back to the front: between the two is a unix socket, which knows no RST, so
// each side says here that it broke off before it closes.
//
// A client whose descriptor the front lends is served by the HTTP part itself: then the bytes it moved stand here too, and
// the descriptor until it is taken. It is taken once, by the part or, when nobody did, back by the front.

const GENERATION = 0;
const SLOT = 1;
const BACKEND = 2;
/**
 * Index of the close reason plus one; 0 while a request is in progress. With BROKEN, the client gets a reset; with
 * ENDING, FIN that comes now is the backend's. Above them the generation it is about: a word that was on its way when
 * the handle changed hands counts for nothing.
 */
const REASON = 3;
const REASON_MASK = 0xff;
const BROKEN = 0x100;
const ENDING = 0x200;
const GENERATION_SHIFT = 10;
const GENERATION_MASK = 0x1fffff;
/** Tenths of a millisecond plus one; 0 when no backend was dialled. */
const DIAL = 4;
/** How the one before ended: its generation shifted by one bit, which is set when it was broken off. */
const LAST = 5;
/** The generation that the counts of bytes are about. */
const MOVED = 6;
/** Index of a dial's failure; 0 when none failed. */
const FAILURE = 7;
const WORDS = 14;

/** Of the same rows, in numbers of eight bytes. */
const BYTES_IN = 4;
const BYTES_OUT = 5;
/** A descriptor, and above it the generation it is lent for; 0 when there is none. */
const LENT = 6;
const DOUBLES = 7;
const NONE = 0n;
const DESCRIPTOR_BITS = 32n;

export interface Verdict {
  readonly slot: number;
  readonly backendSlot: number;
  /** -1 when no backend was reached. */
  readonly dialMs: number;
  /** Index of the close reason, -1 while a request is in progress. */
  readonly reason: number;
  /** An answer was cut off, which the client must be able to see. */
  readonly isBroken: boolean;
  /** The backend of an upgraded connection has said FIN. Unannounced, FIN means that the HTTP thread has died. */
  readonly isEnding: boolean;
  /** Index of why the dial failed, where the reason is that it did. */
  readonly failure?: number;
}

export class Verdicts {
  readonly #words: Int32Array;
  readonly #doubles: Float64Array;
  readonly #lent: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#words = new Int32Array(memory);
    this.#doubles = new Float64Array(memory);
    this.#lent = new BigInt64Array(memory);
  }

  /** Kept when the worker starts anew, so that generations go on. */
  static memory(capacity: number): SharedArrayBuffer {
    return new SharedArrayBuffer(capacity * WORDS * Int32Array.BYTES_PER_ELEMENT);
  }

  /** The front hands over. */
  begin(handle: number): void {
    const at = handle * WORDS;
    Atomics.add(this.#words, at + GENERATION, 1);
    this.#words.fill(0, at + SLOT, at + LAST);
  }

  /** The front has let go of it: nothing that is said about it counts any more. */
  end(handle: number): void {
    const at = handle * WORDS;
    this.#words[at + LAST] = (this.generation(handle) << 1) | (this.isBroken(handle) ? 1 : 0);
    Atomics.add(this.#words, at + GENERATION, 1);
  }

  /** The front is about to break it off. */
  breakOff(handle: number): void {
    const about = (this.generation(handle) & GENERATION_MASK) << GENERATION_SHIFT;
    Atomics.store(this.#words, handle * WORDS + REASON, (this.#said(handle) ?? about) | BROKEN);
  }

  /** How a stream stands with the front. One that is long gone counts as broken off: nobody must take it for whole. */
  ending(handle: number, generation: number): 'open' | 'ended' | 'broken' {
    if (this.isCurrent(handle, generation)) return 'open';
    return this.#words[handle * WORDS + LAST] === generation << 1 ? 'ended' : 'broken';
  }

  generation(handle: number): number {
    return Atomics.load(this.#words, handle * WORDS + GENERATION);
  }

  /** Whether the front still has that connection. */
  isCurrent(handle: number, generation: number): boolean {
    return this.generation(handle) === generation;
  }

  /** Whether the part has it: it says so before anything else. */
  isTaken(handle: number): boolean {
    return this.#said(handle) !== undefined;
  }

  say(handle: number, generation: number, said: Verdict): void {
    if (!this.isCurrent(handle, generation)) return;
    const at = handle * WORDS;
    this.#words[at + SLOT] = said.slot;
    this.#words[at + BACKEND] = said.backendSlot;
    this.#words[at + DIAL] = said.dialMs < 0 ? 0 : Math.round(said.dialMs * 10) + 1;
    this.#words[at + FAILURE] = said.failure ?? 0;
    const about = (generation & GENERATION_MASK) << GENERATION_SHIFT;
    const flags = (said.isBroken ? BROKEN : 0) | (said.isEnding ? ENDING : 0);
    Atomics.store(this.#words, at + REASON, about | flags | (said.reason + 1));
  }

  /** The front: for the part to take that has the connection now. */
  lend(handle: number, descriptor: number): void {
    const about = BigInt(this.generation(handle)) << DESCRIPTOR_BITS;
    Atomics.store(this.#lent, handle * DOUBLES + LENT, about | BigInt(descriptor));
  }

  /** The part takes it and is to close it. Undefined when the front has taken it back. */
  borrow(handle: number, generation: number): number | undefined {
    const at = handle * DOUBLES + LENT;
    const found = Atomics.load(this.#lent, at);
    if (found === NONE || found >> DESCRIPTOR_BITS !== BigInt(generation)) return undefined;
    return Atomics.compareExchange(this.#lent, at, found, NONE) === found ? descriptorOf(found) : undefined;
  }

  /** The front, or who buries it, takes back what nobody has taken, and is to close it. */
  takeBack(handle: number): number | undefined {
    const at = handle * DOUBLES + LENT;
    if (Atomics.load(this.#lent, at) === NONE) return undefined;
    const found = Atomics.exchange(this.#lent, at, NONE);
    return found === NONE ? undefined : descriptorOf(found);
  }

  /** How many bytes the part has read from the client by itself, and written to it. */
  count(handle: number, generation: number, bytesIn: number, bytesOut: number): void {
    if (!this.isCurrent(handle, generation)) return;
    this.#doubles[handle * DOUBLES + BYTES_IN] = bytesIn;
    this.#doubles[handle * DOUBLES + BYTES_OUT] = bytesOut;
    Atomics.store(this.#words, handle * WORDS + MOVED, generation);
  }

  bytesIn(handle: number): number {
    return this.#hasCounts(handle) ? this.#doubles[handle * DOUBLES + BYTES_IN] : 0;
  }

  bytesOut(handle: number): number {
    return this.#hasCounts(handle) ? this.#doubles[handle * DOUBLES + BYTES_OUT] : 0;
  }

  slot(handle: number): number {
    return this.#said(handle) === undefined ? 0 : this.#words[handle * WORDS + SLOT];
  }

  backendSlot(handle: number): number {
    return this.#said(handle) === undefined ? 0 : this.#words[handle * WORDS + BACKEND];
  }

  dialMs(handle: number): number {
    return this.#said(handle) === undefined ? -1 : (this.#words[handle * WORDS + DIAL] - 1) / 10;
  }

  failure(handle: number): number {
    return this.#said(handle) === undefined ? 0 : this.#words[handle * WORDS + FAILURE];
  }

  /** -1 while a request is in progress. */
  reason(handle: number): number {
    return ((this.#said(handle) ?? 0) & REASON_MASK) - 1;
  }

  isBroken(handle: number): boolean {
    return ((this.#said(handle) ?? 0) & BROKEN) !== 0;
  }

  isEnding(handle: number): boolean {
    return ((this.#said(handle) ?? 0) & ENDING) !== 0;
  }

  #hasCounts(handle: number): boolean {
    return Atomics.load(this.#words, handle * WORDS + MOVED) === this.generation(handle);
  }

  /** undefined when nothing was said about the connection that has the handle now. */
  #said(handle: number): number | undefined {
    const word = Atomics.load(this.#words, handle * WORDS + REASON);
    const about = (word >>> GENERATION_SHIFT) & GENERATION_MASK;
    return about === (this.generation(handle) & GENERATION_MASK) ? word : undefined;
  }
}

function descriptorOf(lent: bigint): number {
  return Number(BigInt.asIntN(32, lent));
}
