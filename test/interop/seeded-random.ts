// Seeded random numbers, so that a random test can be repeated.

export interface SeededRandom {
  /** From 0, inclusive, to 1, exclusive. */
  next(): number;
  /** An integer from `low` to `high`, inclusive. */
  between(low: number, high: number): number;
  /** Log-uniform, for sizes: as likely between 1 and 10 as between 1,000 and 10,000. */
  magnitude(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
}

/** The same seeds give the same numbers. */
export function seededRandom(...words: readonly number[]): SeededRandom {
  let state = 0x9e3779b9;
  /** A step of a Weyl sequence and two rounds of multiply and xorshift. */
  function bits(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }
  for (const word of words) state = Math.imul(bits() ^ word, 0x85ebca6b) | 0;
  const next = () => bits() / 2 ** 32;
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    magnitude: (low, high) => Math.round(Math.exp(Math.log(low) + next() * Math.log(high / low))),
    chance: probability => next() < probability,
    pick: from => from[between(0, from.length - 1)],
  };
}
