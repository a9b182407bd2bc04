// The results as a section of docs/performance.md, between two markers; the text around it is kept.

import { caveats, describeGoal, figure, labelOf, ratioToBase } from './figures.ts';
import type { MeasureReport, Report, ScenarioReport } from './report.ts';

const BEGIN = '<!-- bench: results -->';
const END = '<!-- bench: end of results -->';

const PREFACE = `# Performance

How Causeway compares with HAProxy and nginx as a TLS-passthrough gateway, measured in one run on one machine.
`;

export function renderMarkdown(report: Report, picture: string): string {
  const machine = report.machine.map(([name, value]) => `| ${name} | ${value} |`);
  const day = report.date.slice(0, 10);
  return `## Results of ${day}

![Causeway, HAProxy and nginx compared](${picture})

| | |
|---|---|
${machine.join('\n')}
| cores | ${report.pinning} |
| rounds | ${report.rounds} of ${report.seconds} s each, contenders interleaved; figures are medians, with the least and the most |

To repeat: \`${report.command}\`. Ratios are to HAProxy as Debian ships it.

### Goals

| scenario | goal | measured | |
|---|---|---|---|
${report.scenarios.flatMap(goalRows).join('\n')}

${report.scenarios.map(renderScenario).join('\n\n')}
`;
}

/** The document with its results replaced, or a new document. */
export function withResults(document: string | undefined, results: string): string {
  const block = `${BEGIN}\n\n${results.trim()}\n\n${END}`;
  if (document === undefined) return `${PREFACE}\n${block}\n`;
  const from = document.indexOf(BEGIN);
  const to = document.indexOf(END);
  if (from < 0 || to < from) return `${document.trimEnd()}\n\n${block}\n`;
  return document.slice(0, from) + block + document.slice(to + END.length);
}

function goalRows({ id, goals }: ScenarioReport): string[] {
  return goals.map(goal => {
    const [wanted, measured] = describeGoal(goal).split('; ');
    const sign = goal.reached === null ? '' : goal.reached ? '✓' : '✗';
    return `| ${id} | ${wanted} | ${measured} | ${sign} |`;
  });
}

function renderScenario(scenario: ScenarioReport): string {
  const { columns, measures } = scenario;
  const rows = measures
    .filter(({ results }) => Object.keys(results).length > 0)
    .map(measure => `| ${labelOf(measure)} | ${columns.map(({ id }) => cell(measure, id)).join(' | ')} |`);
  const notes = caveats(scenario).map(text => `- Note: ${text}`);
  return `### ${scenario.title}

${scenario.how}

| | ${columns.map(({ label }) => label).join(' | ')} |
|---|${columns.map(() => '---:|').join('')}
${rows.join('\n')}${notes.length === 0 ? '' : `\n\n${notes.join('\n')}`}`;
}

function cell(measure: MeasureReport, column: string): string {
  const summary = measure.results[column];
  if (summary === undefined) return '–';
  const ratio = ratioToBase(measure, column);
  const { median, min, max } = summary;
  const spread = min === max ? '' : ` <br> ${figure(min)}–${figure(max)}`;
  return `${figure(median)}${ratio === undefined ? '' : ` (${ratio})`}${spread}`;
}
