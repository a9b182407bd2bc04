// MurmurHash3's 32-bit finalizer, for rendezvous hashing and the table of sources: a bijection in which every input bit
// flips about half of the output bits. Replicas of different versions must agree on it: see rendezvous.ts.

/** Takes the value modulo 2^32 and returns a uint32. */
export function hash32(value: number): number {
  let hash = value ^ (value >>> 16);
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
