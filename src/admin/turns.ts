// Answers that take a while are made one after the other, and between two of them everything else gets its turn: a
// probe waits for one of them at most, however many are asked for.

import { setImmediate } from 'node:timers/promises';

/** Turns of the event loop between two of them. In each, libuv accepts one connection, and probes may queue behind many. */
const OTHERS = 32;
/** A large table takes some 20 ms: about a second in all. */
const MOST_WAITING = 64;

export class Turns {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Undefined, and nothing done, when too many wait already. */
  take<T>(work: () => T | Promise<T>): Promise<T> | undefined {
    if (this.#waiting >= MOST_WAITING) return undefined;
    this.#waiting++;
    const turn = this.#last.then(async () => {
      for (let turn = 0; turn < OTHERS; turn++) await setImmediate();
      this.#waiting--;
      return work();
    });
    this.#last = turn.catch(() => {});
    return turn;
  }
}
