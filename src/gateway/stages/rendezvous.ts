// Rendezvous hashing, for `balance: source` and `balance: host`: each backend gets a score per client, and the highest
// wins. Removing a backend therefore moves only its own clients, and replicas that share nothing but the configuration
// agree.
//
// They agree across versions, platforms and processes only as long as these functions return the same numbers: 32-bit
// integer arithmetic on bytes, without a seed. Changing a number here moves clients during every upgrade.

import { hash32 } from './hash32.ts';

/** 32-bit FNV-1a: draft-eastlake-fnv, section 5. */
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

const encoder = new TextEncoder();

/** Hashes the text's UTF-8 bytes, so that a name has the same hash as text and as bytes. */
export function hashText(text: string): number {
  let hash = FNV_OFFSET;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) return hashEncoded(text);
    hash = Math.imul(hash ^ code, FNV_PRIME);
  }
  return hash32(hash);
}

/**
 * Hashes bytes `from` to `to` (exclusive): FNV-1a plus a finalizer, since its high bits hardly depend on the last
 * bytes.
 */
export function hashBytes(bytes: Uint8Array, from: number, to: number): number {
  let hash = FNV_OFFSET;
  for (let i = from; i < to; i++) hash = Math.imul(hash ^ bytes[i], FNV_PRIME);
  return hash32(hash);
}

/** A backend's score for a key, both given by their hashes. Different backend hashes never tie for the same key. */
export function score(key: number, backend: number): number {
  return hash32(hash32(key) ^ backend);
}

/** Index of the backend with the highest score among those not skipped, or -1. Among equal hashes the first wins. */
export function pickBest(
  key: number,
  backends: ArrayLike<number>,
  skip?: (index: number) => boolean,
): number {
  const hashedKey = hash32(key);
  let best = -1;
  let highest = -1;
  for (let i = 0; i < backends.length; i++) {
    if (skip !== undefined && skip(i)) continue;
    const current = hash32(hashedKey ^ backends[i]);
    if (current <= highest) continue;
    highest = current;
    best = i;
  }
  return best;
}

/** All indices, best first. */
export function rankAll(key: number, backends: ArrayLike<number>): number[] {
  return Array.from({ length: backends.length }, (_, index) => index).toSorted(
    (a, b) => score(key, backends[b]) - score(key, backends[a]),
  );
}

/** A separate function for the rare case: host names and addresses are ASCII. */
function hashEncoded(text: string): number {
  const bytes = encoder.encode(text);
  return hashBytes(bytes, 0, bytes.length);
}
