// When each backend is checked: pure, the clock is the caller's. Every backend has its interval ± 10 %; at most 500
// checks start in any second, however many backends there are: all intervals are stretched by one factor until they
// fit. New backends are spread, so that neither a start nor an edit is a burst.
//
// Of those whose time has come the one with the earliest deadline starts first: a check that drew a late moment has
// little time left, one that drew an early moment can wait.

import { Heap } from './heap.ts';

/** In every second, wherever it begins. A TLS handshake takes about 1 ms: half a core at the most. */
export const STARTS_PER_SECOND = 500;
const SECOND_MS = 1000;
/** Planned are fewer, so that a random crowd soon clears: at the limit itself a queue would never end. */
export const PLANNED_PER_SECOND = 450;
/** Descriptors: 512 are set aside for everything but connections, and half of those are for checks. */
export const MOST_UNDER_WAY = 256;
/** The same room for those under way. */
const PLANNED_UNDER_WAY = 0.9 * MOST_UNDER_WAY;
export const JITTER = 0.1;
/** Moments are drawn this much before the end of what is allowed: a check may have to wait for its turn. */
export const TURN = 0.02;
/** A few new backends are checked within this; replicas that start together do not all come at once. */
const SOON_MS = 500;
/** Many are checked at this pace, or within their interval where that is less. */
const SOON_EACH_MS = 20;
/** Multiples of it, modulo 1, are spread evenly, and so is every run of them. */
const GOLDEN_RATIO = 0.618033988749895;
/** Of the mean time that a check takes, each new one counts for this much. */
const WEIGHT_OF_LAST = 1 / 64;
/** The stretch follows the time that checks take when it is off by this much. */
const STRETCH_STEP = 0.1;

/** A backend's place in the schedule, and the right to one check when `take()` hands it out. */
export interface Planned {
  readonly slot: number;
  readonly everyMs: number;
  dueAt: number;
  deadline: number;
  startedAt: number;
  /** Removed or replaced: it stays where it is until its turn comes, and then is dropped. */
  gone: boolean;
}

export class Schedule {
  readonly #random: () => number;
  readonly #known = new Map<number, Planned>();
  /** Those whose time has not come, and those whose has. */
  readonly #waiting = new Heap<Planned>(planned => planned.dueAt);
  readonly #ready = new Heap<Planned>(planned => planned.deadline);
  /** When the last checks started: a ring. */
  readonly #starts = new Float64Array(STARTS_PER_SECOND).fill(Number.NEGATIVE_INFINITY);
  #nextStart = 0;
  #underWay = 0;
  #perSecond = 0;
  #meanMs = 0;
  #stretch = 1;
  #spread: number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
    this.#spread = random();
  }

  /** Every interval is longer by this factor than asked for; 1 when intervals are kept. */
  get stretch(): number {
    return this.#stretch;
  }

  /** Backends that are new or have another interval, and backends that are gone. All that is known stays as it is. */
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

  /** The next check to start now, if any may. The caller starts it and says `finish()` in the end. */
  take(now: number): Planned | undefined {
    while (this.#waiting.first !== undefined && this.#waiting.first.dueAt <= now) {
      this.#ready.push(this.#waiting.pop() as Planned);
    }
    while (this.#ready.first?.gone === true) this.#ready.pop();
    if (this.#ready.first === undefined || this.#underWay >= MOST_UNDER_WAY) return undefined;
    if (this.#mayStartAt() > now) return undefined;
    const planned = this.#ready.pop() as Planned;
    planned.startedAt = now;
    this.#starts[this.#nextStart] = now;
    this.#nextStart = (this.#nextStart + 1) % STARTS_PER_SECOND;
    this.#underWay++;
    return planned;
  }

  finish(planned: Planned, now: number): void {
    this.#underWay--;
    this.#meanMs += (now - planned.startedAt - this.#meanMs) * WEIGHT_OF_LAST;
    const wanted = this.#wantedStretch();
    // All the way back to 1: less than a step above it would be told for ever as too slow.
    if (wanted === 1 || Math.abs(wanted - this.#stretch) > STRETCH_STEP * this.#stretch) this.#restretch(now);
    if (planned.gone) return;
    const intervalMs = planned.everyMs * this.#stretch;
    const jitter = this.#random() * (2 * JITTER - TURN) - JITTER;
    planned.dueAt = Math.max(now, planned.startedAt + intervalMs * (1 + jitter));
    planned.deadline = planned.startedAt + intervalMs * (1 + JITTER);
    this.#waiting.push(planned);
  }

  /** When `take()` is worth asking next. Infinity: not before a `finish()` or a `change()`. */
  nextAt(): number {
    if (this.#ready.first === undefined) return this.#waiting.first?.dueAt ?? Number.POSITIVE_INFINITY;
    return this.#underWay < MOST_UNDER_WAY ? this.#mayStartAt() : Number.POSITIVE_INFINITY;
  }

  #forget(slot: number): void {
    const planned = this.#known.get(slot);
    if (planned === undefined) return;
    planned.gone = true;
    this.#known.delete(slot);
  }

  /** When the start that is STARTS_PER_SECOND ago is a second ago. */
  #mayStartAt(): number {
    return this.#starts[this.#nextStart] + SECOND_MS;
  }

  /** Backends that take long to check, as those that swallow everything do, also hold up others. */
  #wantedStretch(): number {
    const perSecond = Math.min(PLANNED_PER_SECOND, (PLANNED_UNDER_WAY * SECOND_MS) / this.#meanMs);
    return Math.max(1, this.#perSecond / perSecond);
  }

  /** What is planned moves with the stretch: otherwise the old pace would go on for a whole interval. */
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
