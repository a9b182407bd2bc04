// Formatting of figures: three significant digits.

import { BASE, type GoalReport, type MeasureReport, type ScenarioReport } from './report.ts';

/** Share of the machine that other programs may use without making the figures doubtful. */
const OTHERS_MAY_USE = 0.05;

export function figure(value: number): string {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(Number(value.toPrecision(4))).toLocaleString('en');
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return trim(value.toFixed(1));
  return trim(value.toFixed(size >= 1 ? 2 : 3));
}

/** Ratio to the base column's median; undefined for that column, and without one. */
export function ratioToBase({ results }: MeasureReport, column: string): string | undefined {
  const value = results[column];
  const base = results[BASE];
  if (column === BASE || value === undefined || base === undefined || base.median === 0) return undefined;
  return `${(value.median / base.median).toFixed(2)}×`;
}

export function labelOf({ label, unit }: { readonly label: string; readonly unit: string }): string {
  return unit === '' ? label : `${label}, ${unit}`;
}

export function describeGoal({ text, unit, limit, value, reached }: GoalReport): string {
  const wanted = `${text}: at most ${withUnit(limit, unit)}`;
  if (value === null) return `${wanted}; not measured`;
  return `${wanted}; ${withUnit(value, unit)}, ${reached ? 'reached' : 'not reached'}`;
}

/** Warnings about the figures. */
export function caveats({ failures, loadLimited, othersBusy }: ScenarioReport): string[] {
  const all = failures.map(({ column, text }) => `errors with ${column}: ${text}`);
  if (othersBusy > OTHERS_MAY_USE)
    all.push(`other programs used ${Math.round(100 * othersBusy)} % of the machine just before`);
  if (loadLimited.length > 0) all.push(`the load itself was the limit with: ${loadLimited.join('; ')}`);
  return all;
}

function withUnit(value: number, unit: string): string {
  if (unit === '×') return `${value.toFixed(2)}×`;
  return unit === '' ? figure(value) : `${figure(value)} ${unit}`;
}

function trim(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
