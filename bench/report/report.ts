// The results of a run as plain data: the JSON file has exactly this, and table, SVG and document are made from it.

import type { Goal, Lookup, Measure, Scenario } from '../scenarios/scenario.ts';
import { type Summary, summarize } from '../statistics.ts';

/** All ratios are to this column. */
export const BASE = 'haproxy';

export interface Report {
  /** ISO 8601. */
  readonly date: string;
  readonly command: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly pinning: string;
  /** Name and value, in display order. */
  readonly machine: readonly (readonly [name: string, value: string])[];
  readonly scenarios: readonly ScenarioReport[];
}

export interface ScenarioReport {
  readonly id: string;
  readonly title: string;
  readonly how: string;
  readonly columns: readonly { readonly id: string; readonly label: string }[];
  readonly measures: readonly MeasureReport[];
  readonly goals: readonly GoalReport[];
  readonly failures: readonly Failure[];
  /** Share of the machine that other programs used just before. */
  readonly othersBusy: number;
  /** Columns in which the load was the limit, so they might be faster than shown. */
  readonly loadLimited: readonly string[];
}

export interface MeasureReport extends Measure {
  readonly results: Readonly<Record<string, Summary>>;
}

export interface GoalReport {
  readonly text: string;
  readonly unit: string;
  readonly limit: number;
  /** Null: not measured in this run. */
  readonly value: number | null;
  readonly reached: boolean | null;
}

export interface Failure {
  readonly column: string;
  readonly text: string;
}

/** From this share of its cores, the load counts as the limit. */
const LOAD_LIMIT = 0.97;

/** Collects what a scenario records, and makes its report. */
export class Recording {
  readonly #samples = new Map<string, number[]>();
  readonly #busy = new Map<string, number[]>();
  readonly failures: Failure[] = [];

  record(column: string, measure: string, value: number): void {
    push(this.#samples, `${column} ${measure}`, value);
  }

  busy(column: string, share: number): void {
    push(this.#busy, column, share);
  }

  report(scenario: Scenario, columns: ScenarioReport['columns'], othersBusy: number): ScenarioReport {
    const summaryOf = (column: string, measure: string) => {
      const samples = this.#samples.get(`${column} ${measure}`);
      return samples === undefined ? undefined : summarize(samples);
    };
    const lookup: Lookup = (column, measure) => summaryOf(column, measure)?.median;
    return {
      id: scenario.id,
      title: scenario.title,
      how: scenario.how,
      columns,
      measures: scenario.measures.map(measure => ({
        ...measure,
        results: Object.fromEntries(
          columns.flatMap(({ id }) => {
            const summary = summaryOf(id, measure.key);
            return summary === undefined ? [] : [[id, summary]];
          }),
        ),
      })),
      goals: scenario.goals.map(goal => judge(goal, lookup)),
      failures: this.failures,
      othersBusy,
      loadLimited: [...this.#busy]
        .filter(([, shares]) => summarize(shares).median >= LOAD_LIMIT)
        .map(([id]) => columns.find(column => column.id === id)?.label ?? id),
    };
  }
}

function judge(goal: Goal, lookup: Lookup): GoalReport {
  const { text, unit, limit } = goal;
  const value = goal.value(lookup) ?? null;
  return { text, unit, limit, value, reached: value === null ? null : value <= limit };
}

function push<K>(map: Map<K, number[]>, key: K, value: number): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}
