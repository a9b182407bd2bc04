// The nonces in use, so that a signature is accepted once, whichever workers see it: one hash table in shared memory. A
// nonce is remembered for as long as its signature could be accepted; then its entry is free. Only valid signatures get
// here, so that nobody without a key can fill it. nonce-shares.ts limits each cluster; its counts precede the table.

import { addPieces, bucketAt, bucketBytes, hashFactors, roomOf, wordAt } from './locked-buckets.ts';
import { acquire, release } from './spin-lock.ts';

/**
 * A bucket: lock, used, then for all entries the last word of the nonce, its expiry, and the other words. With all
 * requested room in use, about one nonce in two million finds its bucket full.
 */
const ENTRIES = 63;
const USED_AT = 1;
const LAST_AT = 2;
const UNTIL_AT = LAST_AT + ENTRIES;
const FIRST_AT = UNTIL_AT + ENTRIES;
const SECOND_AT = FIRST_AT + ENTRIES;

/** 16-bit pieces of a nonce. */
const PIECES = 6;

/** The size of a bucket, so that the buckets after it stay aligned. */
const COUNTS_BYTES = bucketBytes(0, ENTRIES);

/** Memory for this many nonces at a time. */
export function nonceTableBytes(entries: number): number {
  return COUNTS_BYTES + bucketBytes(entries, ENTRIES);
}

/** All threads that share the memory must use the same seed, random and secret, because agents choose nonces. */
export class NonceTable {
  /** Memory for the counts of nonce-shares.ts. */
  readonly countWords: Int32Array;
  readonly #words: Int32Array;
  readonly #factors: Int32Array;

  constructor(memory: SharedArrayBuffer, seed: number) {
    this.countWords = new Int32Array(memory, 0, COUNTS_BYTES / Int32Array.BYTES_PER_ELEMENT);
    this.#words = new Int32Array(memory, COUNTS_BYTES);
    this.#factors = hashFactors(seed, PIECES);
  }

  /** Number of nonces there is room for. */
  get room(): number {
    return roomOf(this.#words, ENTRIES);
  }

  /** Whether the nonce is remembered. If it is not, use() can still refuse it. */
  has(nonce: Uint8Array, now: number): boolean {
    const words = this.#words;
    const bucket = this.#bucketOf(nonce);
    acquire(words, bucket);
    const found = look(words, bucket, nonce, now | 0) === USED;
    release(words, bucket);
    return found;
  }

  /**
   * Remembers the 12 bytes up to and including the second `until`, by a clock that shows `now` (whole seconds, of which
   * the lower 32 bits count). `full`: not remembered, because no entry of the bucket has expired.
   */
  use(nonce: Uint8Array, until: number, now: number): 'new' | 'used' | 'full' {
    const words = this.#words;
    const bucket = this.#bucketOf(nonce);
    acquire(words, bucket);
    const answer = useIn(words, bucket, nonce, until | 0, now | 0);
    release(words, bucket);
    return answer;
  }

  #bucketOf(nonce: Uint8Array): number {
    return bucketAt(addPieces(0, nonce, 0, this.#factors, 0), this.#words);
  }
}

const USED = -1;

/** USED, or the index of the first free entry; ENTRIES if there is none. */
function look(words: Int32Array, bucket: number, nonce: Uint8Array, now: number): number {
  const [first, second, last] = [wordAt(nonce, 0), wordAt(nonce, 4), wordAt(nonce, 8)];
  const used = words[bucket + USED_AT];
  let free = used;
  for (let index = 0; index < used; index++) {
    const entry = bucket + index;
    // Seconds increase and wrap as int32; only their difference matters.
    if (((words[entry + UNTIL_AT] - now) | 0) < 0) {
      if (index < free) free = index;
    } else if (
      words[entry + LAST_AT] === last &&
      words[entry + SECOND_AT] === second &&
      words[entry + FIRST_AT] === first
    ) {
      return USED;
    }
  }
  return free;
}

function useIn(
  words: Int32Array,
  bucket: number,
  nonce: Uint8Array,
  until: number,
  now: number,
): 'new' | 'used' | 'full' {
  const free = look(words, bucket, nonce, now);
  if (free === USED) return 'used';
  if (free === ENTRIES) return 'full';
  const entry = bucket + free;
  words[entry + FIRST_AT] = wordAt(nonce, 0);
  words[entry + SECOND_AT] = wordAt(nonce, 4);
  words[entry + LAST_AT] = wordAt(nonce, 8);
  // Last: until here the entry is free, even if the thread ends in between.
  words[entry + UNTIL_AT] = until;
  if (free === words[bucket + USED_AT]) words[bucket + USED_AT] = free + 1;
  return 'new';
}
