// The base of the hash tables in shared memory (source-counts.ts, nonce-table.ts): an array of buckets of 1 KiB, each
// with a lock in its first word. A key lives in its own bucket only, so that one lock is enough.

import { hash32 } from '../stages/hash32.ts';

const BUCKET_WORDS = 256;
/** Twice the requested room, so that hardly any key finds its bucket full even when all requested room is in use. */
const HEADROOM = 2;

/** Memory for this many entries at a time; a bucket has room for `perBucket`. */
export function bucketBytes(entries: number, perBucket: number): number {
  const buckets = Math.max(1, Math.ceil((entries * HEADROOM) / perBucket));
  return buckets * BUCKET_WORDS * Int32Array.BYTES_PER_ELEMENT;
}

/** Number of entries that the memory was sized for. */
export function roomOf(words: Int32Array, perBucket: number): number {
  return Math.floor(((words.length / BUCKET_WORDS) * perBucket) / HEADROOM);
}

/**
 * Factors for multilinear hashing of keys in 16-bit pieces. They are secret and odd: unlike with FNV or Murmur, no keys
 * collide under every seed, and keys that differ in one piece never have the same sum. All threads derive the same
 * factors from the seed: a hashed counter, made odd so that multiplying loses nothing.
 */
export function hashFactors(seed: number, pieces: number): Int32Array {
  return Int32Array.from({ length: pieces }, (_, i) => hash32(seed + Math.imul(i + 1, 0x9e3779b9)) | 1);
}

/** Adds the pieces of `bytes` from `at` on to a sum, with the factors from `first` on. */
export function addPieces(
  sum: number,
  bytes: Uint8Array,
  at: number,
  factors: Int32Array,
  first: number,
): number {
  for (let piece = first, i = at; piece < factors.length; piece++, i += 2) {
    sum = (sum + Math.imul((bytes[i] << 8) | bytes[i + 1], factors[piece])) | 0;
  }
  return sum;
}

/** Index of the first word of the sum's bucket. Hashing the sum scatters consecutive keys. */
export function bucketAt(sum: number, words: Int32Array): number {
  const buckets = Math.floor(words.length / BUCKET_WORDS);
  return Math.floor((hash32(sum) * buckets) / 0x1_0000_0000) * BUCKET_WORDS;
}

export function wordAt(bytes: Uint8Array, at: number): number {
  return (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
}
