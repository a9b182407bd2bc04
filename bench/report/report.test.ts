import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeGoal, figure } from './figures.ts';
import { renderMarkdown, withResults } from './markdown.ts';
import { sampleReport } from './report.samples.ts';
import { renderSvg } from './svg.ts';
import { renderGoals, renderHeader, renderScenario } from './table.ts';

test('figure() keeps three significant digits', () => {
  const values = [0, 0.0123, 0.5, 1.234, 12.34, 123.4, 1234.5, 123_456];
  assert.deepEqual(values.map(figure), ['0', '0.012', '0.5', '1.23', '12.3', '123', '1,235', '123,500']);
});

test('Recording.report() judges goals by medians, and omits what was not measured', () => {
  const [{ goals, loadLimited }] = sampleReport().scenarios;
  assert.deepEqual(
    goals.map(({ value, reached }) => [value, reached]),
    [
      [85 / 68, false],
      [null, null],
      [12_000, true],
    ],
  );
  assert.deepEqual(loadLimited, ['no proxy']);
});

test('describeGoal() has the goal, the result and the verdict', () => {
  const [{ goals }] = sampleReport().scenarios;
  assert.deepEqual(goals.map(describeGoal), [
    'CPU against HAProxy: at most 1.00×; 1.25×, not reached',
    'what was not measured: at most 5 ms; not measured',
    'connections: at most 20,000 /s; 12,000 /s, reached',
  ]);
});

test('renderHeader() has the machine and the command', () => {
  const header = renderHeader(sampleReport());
  assert.match(header, /^processor: 2 × Fast & Co$/m);
  assert.match(header, /^load on core 0, proxy on core 1/m);
  assert.match(header, /^3 rounds of 1\.5 s each/m);
});

test('renderGoals() has a line for each goal, with its result', () => {
  assert.match(renderGoals(sampleReport().scenarios), /^ {2}✗ \(a\) CPU against HAProxy: .* not reached$/m);
});

test('renderScenario() aligns medians, spreads and ratios to HAProxy, and marks doubtful figures', () => {
  const table = renderScenario(sampleReport().scenarios[0]);
  assert.match(table, /^ {2}CPU per connection, µs {2}85 ±6% 1\.25× {3}68 ±7% {13}–$/m);
  assert.match(table, /^ {2}connections, \/s {9}12,000 0\.80× {3}15,000 {2}22,000 1\.47×$/m);
  assert.doesNotMatch(table, /never measured/);
  assert.match(table, /^ {2}✗ CPU against HAProxy/m);
  assert.match(table, /^ {2}! errors with causeway: 3 reset$/m);
  assert.match(table, /^ {2}! the load itself was the limit with: no proxy$/m);
  assert.match(table, /^ {2}! other programs used 25 % of the machine just before$/m);
});

test('renderMarkdown() has machine, command, goals and a table for each scenario', () => {
  const text = renderMarkdown(sampleReport(), 'performance.svg');
  assert.match(text, /^## Results of 2026-11-15$/m);
  assert.match(text, /^\| HAProxy \| 2\.6\.12 \|$/m);
  assert.match(text, /`npm run bench -- --scenario a`/);
  assert.match(text, /^\| a \| CPU against HAProxy: at most 1\.00× \| 1\.25×, not reached \| ✗ \|$/m);
  assert.match(text, /^\| CPU per connection, µs \| 85 \(1\.25×\) <br> 80–90 \| 68 <br> 60–70 \| – \|$/m);
});

test('withResults() replaces only the text between its markers', () => {
  const first = withResults(undefined, 'first');
  assert.match(first, /^# Performance\n/);
  const edited = `${first.replace('# Performance', '# Speed')}\n## Why\n`;
  const second = withResults(edited, 'second');
  assert.equal(second, edited.replace('first', 'second'));
  assert.match(withResults('# Mine\n', 'three'), /^# Mine\n\n<!-- bench: results -->\n\nthree\n/);
});

test('renderSvg() is valid XML with a card for each titled measure and a bar for each contender', () => {
  const svg = renderSvg(sampleReport());
  assert.match(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 960 \d+(\.\d+)?"/);
  assert.match(svg, />CPU &lt;per&gt; connection</);
  assert.match(svg, /2 × Fast &amp; Co/);
  assert.equal(svg.match(/rx="10"/g)?.length, 1);
  assert.equal(svg.match(/rx="3"/g)?.length, 2);
  const open: string[] = [];
  for (const [, close, name, empty] of svg.matchAll(/<(\/?)(\w+)[^>]*?(\/?)>/g)) {
    if (close) assert.equal(open.pop(), name);
    else if (!empty) open.push(name);
  }
  assert.deepEqual(open, []);
  assert.doesNotMatch(svg, /NaN|Infinity|undefined/);
});
