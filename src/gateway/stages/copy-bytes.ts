/** Shorter copies are faster without a view. */
const SHORT = 32;

/** Copies bytes [from, to) to `out`, starting at `into`. Returns where they end. */
export function copyBytes(
  bytes: Uint8Array,
  from: number,
  to: number,
  out: Uint8Array,
  into: number,
): number {
  if (to - from > SHORT) out.set(bytes.subarray(from, to), into);
  else for (let at = from; at < to; at++) out[into + at - from] = bytes[at];
  return into + to - from;
}
