// Decides when each backend is checked. Pure: the caller brings the clock. Every backend has its interval ± 10 %; at
// most 500 checks start in any second, so with many backends all intervals are stretched by one factor until they fit.
// New backends are spread out, so that neither a start nor an edit causes a burst.
//
// Among the checks that are due, the one with the earliest deadline starts first: a check that drew a late moment has
// little time left; one that drew an early moment can wait.

import { Heap } from './heap.ts';

/** In any second, wherever it begins. A TLS handshake takes about 1 ms: half a core at most. */
export const STARTS_PER_SECOND = 500;
const SECOND_MS = 1000;
/** Fewer are planned, so that a random crowd clears soon: at the limit itself, a queue would never drain. */
export const PLANNED_PER_SECOND = 450;
/** Checks at one time. 512 descriptors are reserved for everything but connections; half of them are for checks. */
export const MAX_IN_FLIGHT = 256;
/** Leaves the same slack as PLANNED_PER_SECOND. */
const PLANNED_IN_FLIGHT = 0.9 * MAX_IN_FLIGHT;
export const JITTER = 0.1;
/** Checks are planned at least this much before their deadline, since they may have to wait for their turn. */
export const TURN = 0.02;
/** A few new backends are checked within this time, spread out for replicas that start together. */
const SOON_MS = 500;
/** Many new backends are checked at this pace, or within their interval if that is shorter. */
const SOON_EACH_MS = 20;
/** Multiples of it, modulo 1, are evenly spread, and so is every run of them. */
const GOLDEN_RATIO = 0.618033988749895;
/** The weight of each new check in the mean duration. */
const WEIGHT_OF_LAST = 1 / 64;
/** The stretch follows the mean duration once it is off by this much. */
const STRETCH_STEP = 0.1;

/** A backend's place in the schedule. Whoever gets it from `take()` makes one check. */
export interface Planned {
  readonly slot: number;
  readonly everyMs: number;
  dueAt: number;
  deadline: number;
  startedAt: number;
  /** Removed or replaced: it stays in its heap until its turn comes, and is dropped then. */
  gone: boolean;
}

export class Schedule {
  readonly #random: () => number;
  readonly #known = new Map<number, Planned>();
  /** Checks that are not due yet, and those that are. */
  readonly #waiting = new Heap<Planned>(planned => planned.dueAt);
  readonly #ready = new Heap<Planned>(planned => planned.deadline);
  /** When the last checks started, as a ring. */
  readonly #starts = new Float64Array(STARTS_PER_SECOND).fill(Number.NEGATIVE_INFINITY);
  #nextStart = 0;
  #inFlight = 0;
  #perSecond = 0;
  #meanMs = 0;
  #stretch = 1;
  #spread: number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
    this.#spread = random();
  }

  /** The factor by which all intervals are longer than configured; 1 when they are kept. */
  get stretch(): number {
    return this.#stretch;
  }

  /** Adds backends that are new or have another interval, and removes others. The rest keep their places. */
  change(
    put: readonly { readonly slot: number; readonly everyMs: number }[],
    removed: readonly number[],
    now: number,
  ): void {
    for (const slot of removed) this.#forget(slot);
    for (const { slot } of put) this.#forget(slot);
    this.#perSecond = 0;
    for (const { everyMs } of [...this.#known.values(), ...put]) this.#perSecond += SECOND_MS / everyMs;
    this.#restretch(now);
    const soonMs = Math.max(SOON_MS, put.length * SOON_EACH_MS);
    for (const { slot, everyMs } of put) {
      this.#spread = (this.#spread + GOLDEN_RATIO) % 1;
      const intervalMs = everyMs * this.#stretch;
      const dueAt = now + this.#spread * Math.min(intervalMs, soonMs);
      const deadline = now + intervalMs * (1 + JITTER);
      const planned = { slot, everyMs, dueAt, deadline, startedAt: now, gone: false };
      this.#known.set(slot, planned);
      this.#waiting.push(planned);
    }
  }

  /** The next check to start now, if any. The caller starts it and calls `end()` when it has ended. */
  take(now: number): Planned | undefined {
    while (this.#waiting.first !== undefined && this.#waiting.first.dueAt <= now) {
      this.#ready.push(this.#waiting.pop() as Planned);
    }
    while (this.#ready.first?.gone === true) this.#ready.pop();
    if (this.#ready.first === undefined || this.#inFlight >= MAX_IN_FLIGHT) return undefined;
    if (this.#mayStartAt() > now) return undefined;
    const planned = this.#ready.pop() as Planned;
    planned.startedAt = now;
    this.#starts[this.#nextStart] = now;
    this.#nextStart = (this.#nextStart + 1) % STARTS_PER_SECOND;
    this.#inFlight++;
    return planned;
  }

  end(planned: Planned, now: number): void {
    this.#inFlight--;
    this.#meanMs += (now - planned.startedAt - this.#meanMs) * WEIGHT_OF_LAST;
    const wanted = this.#wantedStretch();
    // Always back to 1: otherwise a stretch of less than a step would be reported for ever.
    if (wanted === 1 || Math.abs(wanted - this.#stretch) > STRETCH_STEP * this.#stretch) this.#restretch(now);
    if (planned.gone) return;
    const intervalMs = planned.everyMs * this.#stretch;
    const jitter = this.#random() * (2 * JITTER - TURN) - JITTER;
    planned.dueAt = Math.max(now, planned.startedAt + intervalMs * (1 + jitter));
    planned.deadline = planned.startedAt + intervalMs * (1 + JITTER);
    this.#waiting.push(planned);
  }

  /** When to call `take()` next. Infinity: not before an `end()` or a `change()`. */
  nextAt(): number {
    if (this.#ready.first === undefined) return this.#waiting.first?.dueAt ?? Number.POSITIVE_INFINITY;
    return this.#inFlight < MAX_IN_FLIGHT ? this.#mayStartAt() : Number.POSITIVE_INFINITY;
  }

  #forget(slot: number): void {
    const planned = this.#known.get(slot);
    if (planned === undefined) return;
    planned.gone = true;
    this.#known.delete(slot);
  }

  /** One second after the oldest start in the ring. */
  #mayStartAt(): number {
    return this.#starts[this.#nextStart] + SECOND_MS;
  }

  /** Slow checks, such as those that time out, delay others too. */
  #wantedStretch(): number {
    const perSecond = Math.min(PLANNED_PER_SECOND, (PLANNED_IN_FLIGHT * SECOND_MS) / this.#meanMs);
    return Math.max(1, this.#perSecond / perSecond);
  }

  /** Moves what is already planned: otherwise the old pace would go on for a whole interval. */
  #restretch(now: number): void {
    const before = this.#stretch;
    this.#stretch = this.#wantedStretch();
    const factor = this.#stretch / before;
    if (factor === 1) return;
    for (const heap of [this.#waiting, this.#ready]) {
      for (const planned of heap) {
        planned.dueAt = now + (planned.dueAt - now) * factor;
        planned.deadline = now + (planned.deadline - now) * factor;
      }
    }
  }
}
