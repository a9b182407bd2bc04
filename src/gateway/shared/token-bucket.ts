// The rate limit `newPerSecond`: token buckets in shared memory, one for each slot, from which all workers take.
// A bucket fills at its rate and holds one second's worth, so that a burst is as large as the rate.
// Slots are clusters'; memory that is all zero is a set of full buckets.

import { acquire, release } from './spin-lock.ts';

/** Int32 lock, Int32 whether it was ever used, Float64 tokens, Float64 when they were counted; a half cache line. */
export const TOKEN_BUCKET_BYTES = 32;

const WORDS = TOKEN_BUCKET_BYTES / Int32Array.BYTES_PER_ELEMENT;
const USED_AT = 1;
const DOUBLES = TOKEN_BUCKET_BYTES / Float64Array.BYTES_PER_ELEMENT;
const TOKENS_AT = 1;
const LAST_AT = 2;

export class TokenBuckets {
  readonly #words: Int32Array;
  readonly #doubles: Float64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#words = new Int32Array(memory);
    this.#doubles = new Float64Array(memory);
  }

  /**
   * Takes one token, or answers false where there is none. `now` is in ms of one clock common to all threads. Workers
   * read that clock once a turn, so that it seems to go back by a little all the time: an older `now` adds nothing,
   * since the time up to the latest one is already counted. The rate is in whole tokens; 0 admits nobody.
   */
  take(slot: number, ratePerSecond: number, now: number): boolean {
    const words = this.#words;
    const doubles = this.#doubles;
    const lock = slot * WORDS;
    const at = slot * DOUBLES;
    acquire(words, lock);
    const last = doubles[at + LAST_AT];
    let tokens = doubles[at + TOKENS_AT];
    if (words[lock + USED_AT] === 0) {
      tokens = ratePerSecond;
      doubles[at + LAST_AT] = now;
      words[lock + USED_AT] = 1;
    } else if (now > last) {
      tokens += ((now - last) * ratePerSecond) / 1000;
      doubles[at + LAST_AT] = now;
    }
    if (tokens > ratePerSecond) tokens = ratePerSecond;
    const taken = tokens >= 1;
    doubles[at + TOKENS_AT] = taken ? tokens - 1 : tokens;
    release(words, lock);
    return taken;
  }
}
