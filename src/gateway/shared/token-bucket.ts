// The rate limit `newPerSecond`: token buckets in shared memory, one per cluster slot, shared by all workers. A bucket
// fills at its rate and holds one second's worth, so that the burst equals the rate. Zeroed memory means full buckets.

import { acquire, release } from './spin-lock.ts';

/** Int32 lock, Int32 used flag, Float64 tokens, Float64 time of the count; half a cache line. */
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
   * Takes one token; false if there is none. `now` is in ms, from one clock shared by all threads. Workers read it once
   * a turn, so it often seems to go back a little: an older `now` adds nothing, since the time up to the latest one is
   * already counted. The rate is in whole tokens; 0 admits nobody.
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
