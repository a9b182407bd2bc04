// Finds the known word that a person most likely meant by an unknown one, for "did you mean".

/** The nearest of `known`, if it is near enough for a typing mistake. */
export function nearest(
  word: string,
  known: readonly string[],
  distanceOf: typeof slipDistance = slipDistance,
): string | undefined {
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const distance = distanceOf(word, candidate) ?? Number.POSITIVE_INFINITY;
    if (distance >= bestDistance) continue;
    best = candidate;
    bestDistance = distance;
  }
  return best;
}

/** The number of edits, or undefined if more than a third of the letters (and more than one) differ. */
export function slipDistance(word: string, candidate: string): number | undefined {
  const limit = Math.max(1, Math.floor(candidate.length / 3));
  if (Math.abs(candidate.length - word.length) > limit) return undefined;
  const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
  // Of two-letter words with one different letter, neither is a misspelling of the other.
  return distance <= limit && 2 * distance < Math.max(candidate.length, word.length) ? distance : undefined;
}

/** Insertions, deletions, changes and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) cost = Math.min(cost, beforeLast[j - 2] + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length];
}
