// Expensive answers are made one after the other, with turns of the event loop in between: a probe waits for one of them
// at most, however many are requested.

import { setImmediate } from 'node:timers/promises';

/** Turns of the event loop between two answers. libuv accepts one connection in each, and a probe may be behind many. */
const TURNS_BETWEEN = 32;
/** About a second in total: a large table takes some 20 ms. */
const MAX_WAITING = 64;

export class Turns {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Returns undefined, without doing the work, when too many are waiting. */
  take<T>(work: () => T | Promise<T>): Promise<T> | undefined {
    if (this.#waiting >= MAX_WAITING) return undefined;
    this.#waiting++;
    const turn = this.#last.then(async () => {
      for (let turn = 0; turn < TURNS_BETWEEN; turn++) await setImmediate();
      this.#waiting--;
      return work();
    });
    this.#last = turn.catch(() => {});
    return turn;
  }
}
