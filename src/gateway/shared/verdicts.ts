// Verdicts: how a protocol thread reports to the worker about a connection that it was handed. They state the last
// request's route and backend, and why the connection is to end. They are in shared memory, by the worker's handle.
// Each hand-off has its own generation, so that a late verdict on one connection never applies to the next with the
// same handle.
//
// Streams that return to a worker use the same memory: the unix socket between the two has no RST, so each side records
// a break-off here before it closes.
//
// The HTTP thread serves a client whose descriptor is lent to it: then the byte counts are here too, and the descriptor
// until it is taken. It is taken exactly once: by the thread or, if the thread never did, back by the worker.

const GENERATION = 0;
const SLOT = 1;
const BACKEND = 2;
/**
 * Index of the close reason plus one; 0 while a request is in progress. With BROKEN, the client gets a reset; with
 * ENDING, the next FIN is the backend's. The high bits hold the generation, which voids a verdict that was being
 * written while the handle passed to another connection.
 */
const REASON = 3;
const REASON_MASK = 0xff;
const BROKEN = 0x100;
const ENDING = 0x200;
const GENERATION_SHIFT = 10;
const GENERATION_MASK = 0x1fffff;
/** Tenths of a millisecond plus one; 0 when no backend was dialled. */
const DIAL = 4;
/** Index of a dial's failure; 0 if none failed. */
const FAILURE = 5;
/** The generation that the byte counts belong to. */
const MOVED = 6;
/**
 * How the previous connections ended: their generations shifted by one bit; the low bit is set if one was broken off. A
 * busy HTTP thread may look when the handle has been used several times since.
 */
const ENDS = 14;
const ENDS_KEPT = 8;
const WORDS = ENDS + ENDS_KEPT;

/** Offsets in the same rows, in units of eight bytes. */
const BYTES_IN = 4;
const BYTES_OUT = 5;
/** The lent descriptor, with its generation in the high half; 0 if there is none. */
const LENT = 6;
const DOUBLES = WORDS / 2;
const NONE = 0n;
const DESCRIPTOR_BITS = 32n;

export interface Verdict {
  readonly slot: number;
  readonly backendSlot: number;
  /** -1 when no backend was reached. */
  readonly dialMs: number;
  /** Index of the close reason, -1 while a request is in progress. */
  readonly reason: number;
  /** An answer was cut off, and the client must be able to see that. */
  readonly isBroken: boolean;
  /** The backend of an upgraded connection sent FIN. An unannounced FIN means that the HTTP thread has died. */
  readonly isEnding: boolean;
  /** Index of the dial's failure, if that is the reason. */
  readonly failure?: number;
}

/** The part of a reactor that lends. */
export interface Lender {
  lend(handle: number): number;
}

/** Nothing is known yet. */
export const noVerdict: Verdict = {
  slot: 0,
  backendSlot: 0,
  dialMs: -1,
  reason: -1,
  isBroken: false,
  isEnding: false,
};

export class Verdicts {
  readonly #words: Int32Array;
  readonly #doubles: Float64Array;
  readonly #lent: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#words = new Int32Array(memory);
    this.#doubles = new Float64Array(memory);
    this.#lent = new BigInt64Array(memory);
  }

  /** The memory outlives a restart of the worker, so that generations continue. */
  static memory(capacity: number): SharedArrayBuffer {
    return new SharedArrayBuffer(capacity * WORDS * Int32Array.BYTES_PER_ELEMENT);
  }

  /** The worker hands the connection off. */
  begin(handle: number): void {
    const at = handle * WORDS;
    Atomics.add(this.#words, at + GENERATION, 1);
    this.#words.fill(0, at + SLOT, at + FAILURE);
  }

  /** The worker has released the connection: later verdicts on it are void. */
  end(handle: number): void {
    const at = handle * WORDS;
    const generation = this.generation(handle);
    this.#words[at + endOf(generation)] = (generation << 1) | (this.isBroken(handle) ? 1 : 0);
    Atomics.add(this.#words, at + GENERATION, 1);
  }

  /** The worker is about to reset the connection. */
  breakOff(handle: number): void {
    const about = (this.generation(handle) & GENERATION_MASK) << GENERATION_SHIFT;
    Atomics.store(this.#words, handle * WORDS + REASON, (this.#current(handle) ?? about) | BROKEN);
  }

  /** A stream's state at its worker. One whose end is no longer known counts as broken, never as complete. */
  ending(handle: number, generation: number): 'open' | 'ended' | 'broken' {
    if (this.isCurrent(handle, generation)) return 'open';
    return this.#words[handle * WORDS + endOf(generation)] === generation << 1 ? 'ended' : 'broken';
  }

  generation(handle: number): number {
    return Atomics.load(this.#words, handle * WORDS + GENERATION);
  }

  /** Whether the worker still has that connection. */
  isCurrent(handle: number, generation: number): boolean {
    return this.generation(handle) === generation;
  }

  /** Whether the thread has taken the connection: it then records a verdict before anything else. */
  isTaken(handle: number): boolean {
    return this.#current(handle) !== undefined;
  }

  say(handle: number, generation: number, verdict: Verdict): void {
    if (!this.isCurrent(handle, generation)) return;
    const at = handle * WORDS;
    this.#words[at + SLOT] = verdict.slot;
    this.#words[at + BACKEND] = verdict.backendSlot;
    this.#words[at + DIAL] = verdict.dialMs < 0 ? 0 : Math.round(verdict.dialMs * 10) + 1;
    this.#words[at + FAILURE] = verdict.failure ?? 0;
    const about = (generation & GENERATION_MASK) << GENERATION_SHIFT;
    const flags = (verdict.isBroken ? BROKEN : 0) | (verdict.isEnding ? ENDING : 0);
    Atomics.store(this.#words, at + REASON, about | flags | (verdict.reason + 1));
  }

  /**
   * The worker offers a descriptor of its connection to the thread that has the connection now. False if the reactor
   * cannot lend one. Nothing is called between the reactor's answer and the store: see thread-control.ts.
   */
  lend(handle: number, io: Lender): boolean {
    const about = BigInt(this.generation(handle)) << DESCRIPTOR_BITS;
    const descriptor = io.lend(handle);
    if (descriptor < 0) return false;
    Atomics.store(this.#lent, handle * DOUBLES + LENT, about | BigInt(descriptor));
    return true;
  }

  /** The thread takes the descriptor and must close it. Undefined if the worker has taken it back. */
  borrow(handle: number, generation: number): number | undefined {
    const at = handle * DOUBLES + LENT;
    const found = Atomics.load(this.#lent, at);
    if (found === NONE || found >> DESCRIPTOR_BITS !== BigInt(generation)) return undefined;
    if (Atomics.compareExchange(this.#lent, at, found, NONE) !== found) return undefined;
    return Number(BigInt.asIntN(32, found));
  }

  /**
   * The worker, or the control thread after its death, closes a descriptor that was never taken. For a worker, `close`
   * is a native function, so that taking and closing are one step: see thread-control.ts.
   */
  takeBack(handle: number, close: (descriptor: number) => void): void {
    const at = handle * DOUBLES + LENT;
    if (Atomics.load(this.#lent, at) === NONE) return;
    const found = Atomics.exchange(this.#lent, at, NONE);
    if (found !== NONE) close(Number(BigInt.asIntN(32, found)));
  }

  /** Sets the totals of bytes that the thread has read from and written to the client. */
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
    return this.#current(handle) === undefined ? 0 : this.#words[handle * WORDS + SLOT];
  }

  backendSlot(handle: number): number {
    return this.#current(handle) === undefined ? 0 : this.#words[handle * WORDS + BACKEND];
  }

  dialMs(handle: number): number {
    return this.#current(handle) === undefined ? -1 : (this.#words[handle * WORDS + DIAL] - 1) / 10;
  }

  failure(handle: number): number {
    return this.#current(handle) === undefined ? 0 : this.#words[handle * WORDS + FAILURE];
  }

  /** -1 while a request is in progress. */
  reason(handle: number): number {
    return ((this.#current(handle) ?? 0) & REASON_MASK) - 1;
  }

  isBroken(handle: number): boolean {
    return ((this.#current(handle) ?? 0) & BROKEN) !== 0;
  }

  isEnding(handle: number): boolean {
    return ((this.#current(handle) ?? 0) & ENDING) !== 0;
  }

  #hasCounts(handle: number): boolean {
    return Atomics.load(this.#words, handle * WORDS + MOVED) === this.generation(handle);
  }

  /** The word of the current connection's verdict; undefined if there is none. */
  #current(handle: number): number | undefined {
    const word = Atomics.load(this.#words, handle * WORDS + REASON);
    const about = (word >>> GENERATION_SHIFT) & GENERATION_MASK;
    return about === (this.generation(handle) & GENERATION_MASK) ? word : undefined;
  }
}

/** Each use of a handle has two generations: begin() and end() add one each. */
function endOf(generation: number): number {
  return ENDS + ((generation >>> 1) % ENDS_KEPT);
}
