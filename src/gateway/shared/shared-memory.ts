// Memory that workers and the control thread share: counters by route slot, active connections by cluster slot,
// backends by their slot, and the gateway's totals. Counters grow by pages, so that a table may grow without limit and
// costs memory only for its entries.

import { closeReasons } from '../close-reason.ts';
import { RECENT_COUNT_WORDS } from './recent-count.ts';
import { TOKEN_BUCKET_BYTES, TokenBuckets } from './token-bucket.ts';

/** Slots per page; a power of two. */
export const PAGE_SLOTS = 1024;
const PAGE_SHIFT = 10;
const PAGE_MASK = PAGE_SLOTS - 1;

/** Upper bounds in seconds of the dial and hello histograms; the last bucket is +Inf. */
export const secondsBuckets = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
] as const;

/** Route slot 0 means that no route is known yet. 1 is the end of agents' tunnels. */
export const TUNNEL_SLOT = 1;
/** The first slot that a cluster's route can have. */
export const FIRST_SLOT = 2;

/** Offsets within one route's counters. Each worker has its own page set, so that writing needs no atomics. */
export const REASONS_AT = 0;
export const BYTES_IN_AT = closeReasons.length;
export const BYTES_OUT_AT = BYTES_IN_AT + 1;
export const ACTIVE_AT = BYTES_OUT_AT + 1;
/** Memory held by bytes that the other side does not take yet. */
export const KEPT_AT = ACTIVE_AT + 1;
export const SECONDS_SUM_AT = KEPT_AT + 1;
export const SECONDS_AT = SECONDS_SUM_AT + 1;
/** Doubles per slot. The histogram of slot 0, which stands for "no route yet", is that of hellos. */
const STRIDE = SECONDS_AT + secondsBuckets.length + 1;

/** Counters of one worker, by route slot. Doubles count exactly up to 2^53. */
export class RouteCounters {
  readonly #pages: Float64Array[] = [];

  static newPage(): SharedArrayBuffer {
    return new SharedArrayBuffer(PAGE_SLOTS * STRIDE * Float64Array.BYTES_PER_ELEMENT);
  }

  addPage(memory: SharedArrayBuffer): void {
    this.#pages.push(new Float64Array(memory));
  }

  add(slot: number, offset: number, amount: number): void {
    this.#pages[slot >>> PAGE_SHIFT][(slot & PAGE_MASK) * STRIDE + offset] += amount;
  }

  get(slot: number, offset: number): number {
    return this.#pages[slot >>> PAGE_SHIFT][(slot & PAGE_MASK) * STRIDE + offset];
  }

  observeSeconds(slot: number, seconds: number): void {
    let bucket = 0;
    while (bucket < secondsBuckets.length && seconds > secondsBuckets[bucket]) bucket++;
    this.add(slot, SECONDS_AT + bucket, 1);
    this.add(slot, SECONDS_SUM_AT, seconds);
  }

  /** Before the slot is given to another route, once its last connection is gone. */
  clear(slot: number): void {
    const at = (slot & PAGE_MASK) * STRIDE;
    this.#pages[slot >>> PAGE_SHIFT].fill(0, at, at + STRIDE);
  }

  /** Clears one field of all slots: state that is lost with its thread. */
  clearField(offset: number): void {
    for (const page of this.#pages) for (let at = offset; at < page.length; at += STRIDE) page[at] = 0;
  }
}

/** HTTP statuses that can be counted. */
const STATUSES = 600;
/** Index 0, which is no status: the number of all requests. */
const ANY_STATUS = 0;

/** Requests of one worker by route slot and status. Memory is touched only for routes that have requests. */
export class RequestCounters {
  readonly #pages: Float64Array[] = [];

  static newPage(): SharedArrayBuffer {
    return new SharedArrayBuffer(PAGE_SLOTS * STATUSES * Float64Array.BYTES_PER_ELEMENT);
  }

  addPage(memory: SharedArrayBuffer): void {
    this.#pages.push(new Float64Array(memory));
  }

  add(slot: number, status: number): void {
    if (status >= STATUSES) return;
    const page = this.#pages[slot >>> PAGE_SHIFT];
    const at = (slot & PAGE_MASK) * STATUSES;
    page[at + ANY_STATUS]++;
    page[at + status]++;
  }

  /** All statuses of that slot that have been counted. */
  *of(slot: number): Generator<readonly [status: number, count: number]> {
    const page = this.#pages[slot >>> PAGE_SHIFT];
    const at = (slot & PAGE_MASK) * STATUSES;
    // Most routes have none, and there may be a hundred thousand routes.
    if (page[at + ANY_STATUS] === 0) return;
    for (let status = 100; status < STATUSES; status++) {
      if (page[at + status] !== 0) yield [status, page[at + status]];
    }
  }

  clear(slot: number): void {
    const at = (slot & PAGE_MASK) * STATUSES;
    this.#pages[slot >>> PAGE_SHIFT].fill(0, at, at + STATUSES);
  }
}

/** One Int32 per slot and field, changed by all workers with atomics: clusters and backends. */
export class SharedSlots {
  readonly #fields: number;
  readonly #pages: Int32Array[] = [];

  constructor(fields: number) {
    this.#fields = fields;
  }

  static newPage(fields: number): SharedArrayBuffer {
    return new SharedArrayBuffer(PAGE_SLOTS * fields * Int32Array.BYTES_PER_ELEMENT);
  }

  addPage(memory: SharedArrayBuffer): void {
    this.#pages.push(new Int32Array(memory));
  }

  /** The page of a slot, for operations that need more than one field. */
  pageOf(slot: number): Int32Array {
    return this.#pages[slot >>> PAGE_SHIFT];
  }

  indexOf(slot: number, field: number): number {
    return (slot & PAGE_MASK) * this.#fields + field;
  }

  /** Returns the previous value. */
  add(slot: number, field: number, amount: number): number {
    return Atomics.add(this.pageOf(slot), this.indexOf(slot, field), amount);
  }

  get(slot: number, field: number): number {
    return Atomics.load(this.pageOf(slot), this.indexOf(slot, field));
  }

  /** Returns the previous value. */
  exchange(slot: number, field: number, value: number): number {
    return Atomics.exchange(this.pageOf(slot), this.indexOf(slot, field), value);
  }

  set(slot: number, field: number, value: number): void {
    Atomics.store(this.pageOf(slot), this.indexOf(slot, field), value);
  }
}

/** `newPerSecond` by cluster slot. */
export class BucketPages {
  readonly #pages: TokenBuckets[] = [];

  static newPage(): SharedArrayBuffer {
    return new SharedArrayBuffer(PAGE_SLOTS * TOKEN_BUCKET_BYTES);
  }

  addPage(memory: SharedArrayBuffer): void {
    this.#pages.push(new TokenBuckets(memory));
  }

  take(slot: number, ratePerSecond: number, now: number): boolean {
    return this.#pages[slot >>> PAGE_SHIFT].take(slot & PAGE_MASK, ratePerSecond, now);
  }
}

/** Fields of a cluster slot. */
export const CLUSTER_ACTIVE = 0;
/** The cluster's remembered nonces: see nonce-shares.ts. */
export const CLUSTER_NONCES = 1;
export const CLUSTER_FIELDS = CLUSTER_NONCES + RECENT_COUNT_WORDS;

/** Fields of a backend slot. `TURN` of a route's first backend is the route's round-robin turn. */
export const BACKEND_ACTIVE = 0;
export const BACKEND_TURN = 1;
/** 1 while health checks report it down, so that zeroed memory means up. */
export const BACKEND_DOWN = 2;
export const BACKEND_CHECKS_OK = 3;
export const BACKEND_CHECKS_FAILED = 4;
export const BACKEND_FIELDS = 5;

/** Fields of the totals. */
export const TOTAL_CONNECTIONS = 0;
export const TOTAL_PENDING = 1;
/** Number of backends that are down: while it is 0, balancing skips the check of each backend. */
export const TOTAL_DOWN = 2;
/** 1 while someone watches refusals: workers then write their records even if the log omits them. */
export const TOTAL_WATCHED = 3;
export const TOTAL_FIELDS = 4;
