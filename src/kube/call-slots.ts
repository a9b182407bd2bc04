// Bounds how many calls are under way at once. Others wait in turn, for a bounded time.

import type { Clock } from './clock.ts';

export class CallSlots {
  readonly #clock: Clock;
  readonly #maxWaitMs: number;
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number, maxWaitMs: number, clock: Clock) {
    this.#free = count;
    this.#maxWaitMs = maxWaitMs;
    this.#clock = clock;
  }

  /** False when its turn has not come in time. Whoever gets true must release(). */
  async acquire(): Promise<boolean> {
    if (this.#free > 0) {
      this.#free--;
      return true;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const stop = new AbortController();
    const take = () => resolve(true);
    this.#waiting.add(take);
    const giveUp = () => (this.#waiting.delete(take) ? resolve(false) : undefined);
    void this.#clock.wait(this.#maxWaitMs, stop.signal).then(giveUp);
    const isTaken = await promise;
    stop.abort();
    return isTaken;
  }

  release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
