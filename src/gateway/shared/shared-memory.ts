// What workers and the control thread share without asking each other: counters by route slot, active
// connections by cluster slot, backends by their slot, and the gateway's totals.
// Counters grow by pages, so that a table may grow without limit and costs memory only for what it has.

import { closeReasons } from '../close-reason.ts';
import { RECENT_COUNT_WORDS } from './recent-count.ts';
import { TOKEN_BUCKET_BYTES, TokenBuckets } from './token-bucket.ts';

/** Slots a page holds; a power of two. */
export const PAGE_SLOTS = 1024;
const PAGE_SHIFT = 10;
const PAGE_MASK = PAGE_SLOTS - 1;

/** Upper bounds in seconds of the dial and hello histograms; the last bucket is +Inf. */
export const secondsBuckets = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
] as const;

/**
 * Route slot 0 means that no route is known yet. 1 is the HTTP part, which finds the route of each request by itself
 * (no connection ends there: its reasons count requests that the front refused); 2 is the end of the agents' tunnels,
 * from which each comes back as a connection of its own.
 */
export const HTTP_SLOT = 1;
export const TUNNEL_SLOT = 2;
/** The first slot that a cluster's route can have. */
export const FIRST_SLOT = 3;

/** Offsets within one route's counters. Each worker has its own page set, so that writing needs no atomics. */
export const REASONS_AT = 0;
export const BYTES_IN_AT = closeReasons.length;
export const BYTES_OUT_AT = BYTES_IN_AT + 1;
export const ACTIVE_AT = BYTES_OUT_AT + 1;
/** Memory for what the other side does not take. */
export const KEPT_AT = ACTIVE_AT + 1;
export const SECONDS_SUM_AT = KEPT_AT + 1;
export const SECONDS_AT = SECONDS_SUM_AT + 1;
/** Doubles per slot. In slot 0, which stands for "no route yet", the histogram is that of hellos. */
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

  /** For a slot that is given to another route, once its last connection is gone. */
  clear(slot: number): void {
    const at = (slot & PAGE_MASK) * STRIDE;
    this.#pages[slot >>> PAGE_SHIFT].fill(0, at, at + STRIDE);
  }

  /** Of all slots: what a thread had that is gone with it. */
  clearField(offset: number): void {
    for (const page of this.#pages) for (let at = offset; at < page.length; at += STRIDE) page[at] = 0;
  }
}

/** HTTP statuses that a counter can have. */
const STATUSES = 600;
/** No status: how many requests there were, whatever came of them. */
const ANY_STATUS = 0;

/** Requests of one HTTP thread by route slot and status. Memory is only touched where there are requests. */
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
    // Most routes have none, and there may be a hundred thousand of them.
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

  /** Where a slot's field is, for what takes more than one of these operations. */
  pageOf(slot: number): Int32Array {
    return this.#pages[slot >>> PAGE_SHIFT];
  }

  indexOf(slot: number, field: number): number {
    return (slot & PAGE_MASK) * this.#fields + field;
  }

  /** Answers the value before. */
  add(slot: number, field: number, amount: number): number {
    return Atomics.add(this.pageOf(slot), this.indexOf(slot, field), amount);
  }

  get(slot: number, field: number): number {
    return Atomics.load(this.pageOf(slot), this.indexOf(slot, field));
  }

  /** Answers the value before. */
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
/** Its nonces that are remembered: see nonce-shares.ts. */
export const CLUSTER_NONCES = 1;
export const CLUSTER_FIELDS = CLUSTER_NONCES + RECENT_COUNT_WORDS;

/** Fields of a backend slot. `TURN` of a route's first backend is the route's round-robin turn. */
export const BACKEND_ACTIVE = 0;
export const BACKEND_TURN = 1;
/** 1 while health checks say so: zeroed memory is up. */
export const BACKEND_DOWN = 2;
export const BACKEND_CHECKS_OK = 3;
export const BACKEND_CHECKS_FAILED = 4;
export const BACKEND_FIELDS = 5;

/** Fields of the totals. */
export const TOTAL_CONNECTIONS = 0;
export const TOTAL_PENDING = 1;
/** Connections that were handed over to a part of ours: HTTP or TLS. */
export const TOTAL_HANDED_OFF = 2;
/**
 * How much of `limits.connections` they can be: one takes up to five descriptors instead of two (the client's, another
 * of it that is lent, both ends of the socket between front and part, the backend's).
 */
export const HANDED_OFF_SHARE = 2 / 5;
/** Backends that are down: while there are none, nobody has to look at a pool's backends. */
export const TOTAL_DOWN = 3;
/** 1 while somebody watches refusals: then workers write their records even where the log does not want them. */
export const TOTAL_WATCHED = 4;
export const TOTAL_FIELDS = 5;
