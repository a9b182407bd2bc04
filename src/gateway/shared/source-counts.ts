// Counts the open connections of each source address, for `perSource` and `pendingPerSource`: one hash table in memory
// shared by all workers. A key is a scope (the whole gateway, pending connections, or a cluster's slot) and a 16-byte
// address. Keys are compared in full, so that no source is refused for another's connections. An entry with a count of
// zero is free, so nothing needs sweeping.

import { addPieces, bucketAt, bucketBytes, hashFactors, wordAt } from './locked-buckets.ts';
import { acquire, release } from './spin-lock.ts';

/**
 * A bucket: lock, used, then for all entries the last address word, count, scope, and the other words. With all
 * requested room in use, about one key in 300,000 finds its bucket full.
 */
const ENTRIES = 42;
const USED_AT = 1;
/** The word in which addresses differ most comes first, contiguous for all entries: a search reads little else. */
const LAST_AT = 2;
const COUNT_AT = LAST_AT + ENTRIES;
const SCOPE_AT = COUNT_AT + ENTRIES;
const FIRST_AT = SCOPE_AT + ENTRIES;
const SECOND_AT = FIRST_AT + ENTRIES;
const THIRD_AT = SECOND_AT + ENTRIES;

/** 16-bit pieces of a key: two of the scope, eight of the address. */
const PIECES = 10;

const NOT_FOUND = -1;

/** Scopes that belong to no cluster: cluster slots are above 0. */
export const GATEWAY_SCOPE = 0;
export const PENDING_SCOPE = -1;

/** Memory for this many different keys at a time. */
export function sourceCountsBytes(entries: number): number {
  return bucketBytes(entries, ENTRIES);
}

/** Where a caller keeps in mind that it holds a count: `flag` in `counts[row]`. */
interface Flags {
  readonly counts: Uint8Array;
}

/** For callers that keep nothing in mind. */
const NO_FLAGS: Flags = { counts: new Uint8Array(1) };

/**
 * All threads that share the memory must use the same seed, which should be random. The caller's flag changes right
 * behind the count, so that a thread that is terminated in between leaves no count without its flag (see
 * thread-control.ts).
 */
export class SourceCounts {
  readonly #words: Int32Array;
  readonly #factors: Int32Array;

  constructor(memory: SharedArrayBuffer, seed: number) {
    this.#words = new Int32Array(memory);
    this.#factors = hashFactors(seed, PIECES);
  }

  /** Counts one more, sets the flag and returns the new count; or -1 if there is no room for another source. */
  add(scope: number, address: Uint8Array, at: number, { counts } = NO_FLAGS, row = 0, flag = 0): number {
    const words = this.#words;
    const bucket = this.#bucketOf(scope, address, at);
    acquire(words, bucket);
    const entry = find(words, bucket, scope, address, at);
    const count = entry === NOT_FOUND ? insert(words, bucket, scope, address, at) : ++words[entry + COUNT_AT];
    if (count >= 0) counts[row] |= flag;
    release(words, bucket);
    return count;
  }

  /** Counts one less and clears the flag. Must not be called for a source that add() had no room for. */
  remove(scope: number, address: Uint8Array, at: number, { counts } = NO_FLAGS, row = 0, flag = 0): void {
    const words = this.#words;
    const bucket = this.#bucketOf(scope, address, at);
    acquire(words, bucket);
    const entry = find(words, bucket, scope, address, at);
    const left = entry === NOT_FOUND ? 0 : --words[entry + COUNT_AT];
    counts[row] &= ~flag;
    if (left === 0) shrink(words, bucket);
    release(words, bucket);
  }

  count(scope: number, address: Uint8Array, at: number): number {
    const words = this.#words;
    const bucket = this.#bucketOf(scope, address, at);
    acquire(words, bucket);
    const entry = find(words, bucket, scope, address, at);
    const count = entry === NOT_FOUND ? 0 : words[entry + COUNT_AT];
    release(words, bucket);
    return count;
  }

  /** Index of the bucket's first word. */
  #bucketOf(scope: number, address: Uint8Array, at: number): number {
    const factors = this.#factors;
    const sum = Math.imul(scope >>> 16, factors[0]) + Math.imul(scope & 0xffff, factors[1]);
    return bucketAt(addPieces(sum, address, at, factors, 2), this.#words);
  }
}

/** Where the key's entry starts (add COUNT_AT and so on), or NOT_FOUND. */
function find(words: Int32Array, bucket: number, scope: number, address: Uint8Array, at: number): number {
  const last = wordAt(address, at + 12);
  const end = bucket + words[bucket + USED_AT];
  for (let entry = bucket; entry < end; entry++) {
    if (
      words[entry + LAST_AT] === last &&
      words[entry + COUNT_AT] !== 0 &&
      words[entry + SCOPE_AT] === (scope | 0) &&
      words[entry + THIRD_AT] === wordAt(address, at + 8) &&
      words[entry + SECOND_AT] === wordAt(address, at + 4) &&
      words[entry + FIRST_AT] === wordAt(address, at)
    ) {
      return entry;
    }
  }
  return NOT_FOUND;
}

/** Returns the new count, 1, or -1 if full. The count is written last: a half-written entry stays free. */
function insert(words: Int32Array, bucket: number, scope: number, address: Uint8Array, at: number): number {
  const used = words[bucket + USED_AT];
  let index = 0;
  while (index < used && words[bucket + COUNT_AT + index] !== 0) index++;
  if (index === ENTRIES) return -1;
  const entry = bucket + index;
  words[entry + FIRST_AT] = wordAt(address, at);
  words[entry + SECOND_AT] = wordAt(address, at + 4);
  words[entry + THIRD_AT] = wordAt(address, at + 8);
  words[entry + LAST_AT] = wordAt(address, at + 12);
  words[entry + SCOPE_AT] = scope;
  words[entry + COUNT_AT] = 1;
  if (index === used) words[bucket + USED_AT] = used + 1;
  return 1;
}

/** Removes free entries from the end of the range to search. */
function shrink(words: Int32Array, bucket: number): void {
  let used = words[bucket + USED_AT];
  while (used > 0 && words[bucket + COUNT_AT + used - 1] === 0) used--;
  words[bucket + USED_AT] = used;
}
