// The run for a terminal: figures with their spread, ratios to HAProxy, goals.

import { describeGoal, figure, labelOf, ratioToBase } from './figures.ts';
import type { GoalReport, MeasureReport, Report, ScenarioReport } from './report.ts';

export function renderTable(report: Report): string {
  const machine = report.machine.map(([name, value]) => `${name}: ${value}`);
  const each = `${report.rounds} rounds of ${report.seconds} s each; median (min–max) and ratio to HAProxy`;
  return [...machine, report.pinning, each, '', ...report.scenarios.map(renderScenario), ''].join('\n');
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
    ...scenario.failures.map(({ column, text }) => `! errors with ${column}: ${text}`),
  ];
  if (scenario.loadLimited.length > 0)
    notes.push(`the load itself was the limit with: ${scenario.loadLimited.join('; ')}`);
  return [`(${scenario.id}) ${scenario.title}`, ...[...lines, ...notes].map(line => `  ${line}`), ''].join(
    '\n',
  );
}

function cell(measure: MeasureReport, column: string): string {
  const summary = measure.results[column];
  if (summary === undefined) return '–';
  const { median, min, max } = summary;
  const spread = min === max ? '' : ` (${figure(min)}–${figure(max)})`;
  const ratio = ratioToBase(measure, column);
  return `${figure(median)}${spread}${ratio === undefined ? '' : ` ${ratio}`}`;
}

function mark({ reached }: GoalReport): string {
  if (reached === null) return '·';
  return reached ? '✓' : '✗';
}
