// One scenario of the benchmark: what is measured, for which peers, and the goals.

import type { Bed } from '../bed.ts';
import type { Peer } from '../peers/peer.ts';

export interface Measure {
  readonly key: string;
  readonly label: string;
  readonly unit: string;
  readonly better: 'lower' | 'higher';
  /** Shown in the SVG, under this title. */
  readonly picture?: string;
}

/** A column of figures: a peer, or a variant. */
export interface Column {
  readonly id: string;
  readonly label: string;
}

export type Lookup = (column: string, measure: string) => number | undefined;

export interface Goal {
  readonly text: string;
  /** Unit of value and limit; × for ratios. */
  readonly unit: string;
  readonly limit: number;
  /** The median that must not exceed the limit; undefined if it was not, or cannot be, measured. */
  value(of: Lookup): number | undefined;
}

/** Input of a scenario, and its reporting functions. */
export interface Run {
  readonly bed: Bed;
  readonly peers: readonly Peer[];
  readonly rounds: number;
  readonly seconds: number;
  /** Once aborted, nothing more is measured. */
  readonly signal: AbortSignal;
  say(text: string): void;
  record(column: string, measure: string, value: number): void;
  /** Reports an error in a measurement, which makes its figure doubtful. */
  fail(column: string, text: string): void;
  /** Reports the share of its cores that the load used. */
  busy(column: string, share: number): void;
}

export interface Scenario {
  readonly id: string;
  readonly title: string;
  /** One or two sentences. */
  readonly how: string;
  /** The selected peers that it measures. */
  readonly peers: readonly string[];
  /** If columns are not peers. */
  readonly columns?: readonly Column[];
  readonly measures: readonly Measure[];
  readonly goals: readonly Goal[];
  run(run: Run): Promise<void>;
}

/** The ratio of one column's figure to another's. */
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
