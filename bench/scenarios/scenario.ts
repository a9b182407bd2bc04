// One question that the benchmark answers: what is measured of whom, how, and what would be good enough.

import type { Bed } from '../bed.ts';
import type { Peer } from '../peers/peer.ts';

export interface Measure {
  readonly key: string;
  readonly label: string;
  readonly unit: string;
  readonly better: 'lower' | 'higher';
  /** Shown in the picture, under this title. */
  readonly picture?: string;
}

/** Whoever has a figure of its own: a peer, or a way of doing it. */
export interface Column {
  readonly id: string;
  readonly label: string;
}

export type Lookup = (column: string, measure: string) => number | undefined;

export interface Goal {
  readonly text: string;
  /** Of value and limit; × for ratios. */
  readonly unit: string;
  readonly limit: number;
  /** The median that must not be above the limit; undefined where it was not, or cannot be, measured. */
  value(of: Lookup): number | undefined;
}

/** What a scenario is given, and whom it tells. */
export interface Run {
  readonly bed: Bed;
  readonly peers: readonly Peer[];
  readonly rounds: number;
  readonly seconds: number;
  /** Aborted: nothing more is measured. */
  readonly signal: AbortSignal;
  say(text: string): void;
  record(column: string, measure: string, value: number): void;
  /** Something went wrong in a measurement, whose figure then means little. */
  fail(column: string, text: string): void;
  /** The share of its cores that the load itself used. */
  busy(column: string, share: number): void;
}

export interface Scenario {
  readonly id: string;
  readonly title: string;
  /** In a sentence or two. */
  readonly how: string;
  /** Those among the wanted peers that it looks at. */
  readonly peers: readonly string[];
  /** Where columns are not peers. */
  readonly columns?: readonly Column[];
  readonly measures: readonly Measure[];
  readonly goals: readonly Goal[];
  run(run: Run): Promise<void>;
}

/** How one column's figure compares with another's. */
export function ratio(
  of: Lookup,
  measure: string,
  column: string,
  to: string,
  toMeasure = measure,
): number | undefined {
  const value = of(column, measure);
  const base = of(to, toMeasure);
  return value === undefined || base === undefined || base === 0 ? undefined : value / base;
}
