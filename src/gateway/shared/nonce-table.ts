// Which nonces were used, so that a signature counts once whichever worker sees it again: one hash table in shared
// memory. A nonce is remembered for as long as its signature could be accepted; then its place is free. Asked only
// for signatures that are right, so that nobody without a key can fill it.

import { addPieces, bucketAt, bucketBytes, hashFactors, wordAt } from './locked-buckets.ts';
import { acquire, release } from './spin-lock.ts';

/**
 * A bucket: lock, used, then for all entries the last word of the nonce, until when, and the other words. With all the
 * room that is asked for in use, about one nonce in two million finds its bucket full.
 */
const ENTRIES = 63;
const USED_AT = 1;
const LAST_AT = 2;
const UNTIL_AT = LAST_AT + ENTRIES;
const FIRST_AT = UNTIL_AT + ENTRIES;
const SECOND_AT = FIRST_AT + ENTRIES;

/** 16-bit pieces of a nonce. */
const PIECES = 6;

/** Memory for this many nonces at one time. */
export function nonceTableBytes(entries: number): number {
  return bucketBytes(entries, ENTRIES);
}

/** All threads that share the memory give the same seed, which should be random and secret: agents choose nonces. */
export class NonceTable {
  readonly #words: Int32Array;
  readonly #factors: Int32Array;

  constructor(memory: SharedArrayBuffer, seed: number) {
    this.#words = new Int32Array(memory);
    this.#factors = hashFactors(seed, PIECES);
  }

  /**
   * Remembers the 12 bytes up to and with the second `until`, by a clock that shows `now` (whole seconds, of which
   * the lower 32 bits count). `full`: not remembered, as the bucket has only living ones.
   */
  use(nonce: Uint8Array, until: number, now: number): 'new' | 'used' | 'full' {
    const words = this.#words;
    const bucket = bucketAt(addPieces(0, nonce, 0, this.#factors, 0), words);
    acquire(words, bucket);
    const answer = useIn(words, bucket, nonce, until | 0, now | 0);
    release(words, bucket);
    return answer;
  }
}

function useIn(
  words: Int32Array,
  bucket: number,
  nonce: Uint8Array,
  until: number,
  now: number,
): 'new' | 'used' | 'full' {
  const [first, second, last] = [wordAt(nonce, 0), wordAt(nonce, 4), wordAt(nonce, 8)];
  const used = words[bucket + USED_AT];
  let free = used;
  for (let index = 0; index < used; index++) {
    const entry = bucket + index;
    // Seconds run on and wrap as int32; their difference is what counts.
    if (((words[entry + UNTIL_AT] - now) | 0) < 0) {
      if (index < free) free = index;
    } else if (
      words[entry + LAST_AT] === last &&
      words[entry + SECOND_AT] === second &&
      words[entry + FIRST_AT] === first
    ) {
      return 'used';
    }
  }
  if (free === ENTRIES) return 'full';
  const entry = bucket + free;
  words[entry + FIRST_AT] = first;
  words[entry + SECOND_AT] = second;
  words[entry + LAST_AT] = last;
  // Last: until here the place is free, also when the thread ends in between.
  words[entry + UNTIL_AT] = until;
  if (free === used) words[bucket + USED_AT] = used + 1;
  return 'new';
}
