// Summary of several rounds: the median, so that one disturbed round does not
// count, and the spread, without which a ratio means nothing.

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  /** Median absolute deviation from the median. */
  readonly mad: number;
  readonly samples: readonly number[];
}

export function summarize(samples: readonly number[]): Summary {
  if (samples.length === 0) throw new Error('Cannot summarize as there must be at least one sample');
  const middle = median(samples);
  return {
    median: middle,
    min: Math.min(...samples),
    max: Math.max(...samples),
    mad: median(samples.map(sample => Math.abs(sample - middle))),
    samples,
  };
}

export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
