// The run for a terminal: figures with their spread, ratios to HAProxy, goals. Narrow rather than complete: minimum and
// maximum of each figure are in the document, all samples in the JSON.

import { caveats, describeGoal, figure, labelOf, ratioToBase } from './figures.ts';
import type { GoalReport, MeasureReport, Report, ScenarioReport } from './report.ts';

export function renderHeader({ machine, pinning, rounds, seconds }: Omit<Report, 'scenarios'>): string {
  const lines = machine.map(([name, value]) => `${name}: ${value}`);
  const each = `${rounds} round${rounds > 1 ? 's' : ''} of ${seconds} s each; median, ± half its range, ratio to HAProxy`;
  return [...lines, pinning, each, ''].join('\n');
}

export function renderScenario(scenario: ScenarioReport): string {
  const rows = scenario.measures.filter(({ results }) => Object.keys(results).length > 0);
  const cells = [
    ['', ...scenario.columns.map(({ label }) => label)],
    ...rows.map(measure => [labelOf(measure), ...scenario.columns.map(({ id }) => cell(measure, id))]),
  ];
  const widths = cells[0].map((_, column) => Math.max(...cells.map(row => row[column].length)));
  const lines = cells.map(row =>
    row.map((text, i) => (i === 0 ? text.padEnd(widths[i]) : text.padStart(widths[i]))).join('  '),
  );
  const notes = [
    ...scenario.goals.map(goal => `${mark(goal)} ${describeGoal(goal)}`),
    ...caveats(scenario).map(text => `! ${text}`),
  ];
  return [`(${scenario.id}) ${scenario.title}`, ...[...lines, ...notes].map(line => `  ${line}`), ''].join(
    '\n',
  );
}

function cell(measure: MeasureReport, column: string): string {
  const summary = measure.results[column];
  if (summary === undefined) return '–';
  const { median, min, max } = summary;
  const spread = min === max ? '' : ` ±${Math.round((50 * (max - min)) / median)}%`;
  const ratio = ratioToBase(measure, column);
  return `${figure(median)}${spread}${ratio === undefined ? '' : ` ${ratio}`}`;
}

function mark({ reached }: GoalReport): string {
  if (reached === null) return '·';
  return reached ? '✓' : '✗';
}

/** The goals of a run, one line each. */
export function renderGoals(scenarios: readonly ScenarioReport[]): string {
  const lines = scenarios.flatMap(({ id, goals }) =>
    goals.map(goal => `  ${mark(goal)} (${id}) ${describeGoal(goal)}`),
  );
  return ['Goals', ...lines, ''].join('\n');
}
