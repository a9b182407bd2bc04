// Runs all checks (`npm test`), or those that need nothing but `npm ci` (`--quick`), on the Node of node_modules:
// Debian packages, programs of the test bed, linters, test files. The last line is `N passed, N failed`.

import { globSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { installPackages, missingPackages } from '../testbed/packages.ts';
import { prepare } from '../testbed/prepare.ts';
import { run } from '../testbed/run.ts';
import { describeFailure } from './describe-failure.ts';
import { runTestFile, type TestFileResult } from './run-test-file.ts';

const ROOT = resolve(import.meta.dirname, '..');
/** Less than a minute on two cores: rules, unit tests, and one feature that shows that everything fits together. */
const QUICK_TESTS = [
  'test/features/routes.test.ts',
  'test/{architecture,docs}.test.ts',
  '{src,dashboard}/**/*.test.ts',
];
/** Each would take a sixth of that time or more: the contract of the I/O port, and threads that die. */
const NOT_QUICK = [
  'src/gateway/io/*-reactor.test.ts',
  'src/gateway/control/gateway{,-deaths}.test.ts',
  'src/gateway/streams/stream-threads.test.ts',
  'src/gateway/stages/terminated.test.ts',
  'src/sources/{directory,tenant-control-planes,tenant-cluster,services}.test.ts',
  'src/outputs/{write-objects,tenant-access,ingress}.test.ts',
  'src/cli/render.test.ts',
  'src/agent/{endpoints,local-address}.test.ts',
  'src/kube/kube-client-watch.test.ts',
  'src/demo/kubernetes/api-server.test.ts',
];
/** Long files first. */
const ALL_TESTS = ['test', 'bench', 'testbed', '{src,dashboard}'].map(folder => `${folder}/**/*.test.ts`);
/** End-to-end tests run on every engine. */
const ON_EVERY_ENGINE = /^test\/(features|interop)\//;
const ENGINES = ['epoll', 'net'];
/** End-to-end tests that do not run on HAProxy, by reason. What HAProxy lacks of the others is in test/features/engine.ts. */
const NOT_ON_HAPROXY: Readonly<Record<string, readonly string[]>> = {
  'check refuses signatures and tunnels there': [
    'features/agent-refusals',
    'features/identity',
    'features/tunnel-hosts',
    'interop/identity',
  ],
  'check refuses CONNECT there': ['features/connect', 'features/h2-connect', 'interop/h2-connect'],
  'it does not count connections that are not routed yet': ['features/pending-per-source'],
  'it reads HTTP with a parser of its own': [
    'interop/smuggling',
    'interop/http-hostile',
    'interop/http-storm',
  ],
  'it needs minutes for 10,000 allow lists': ['interop/scale'],
  'they are about threads of ours': [
    'features/threads',
    'features/fault',
    'features/fault-http',
    'interop/chaos',
  ],
  'the gateway is not what they are about': ['features/agent-process', 'features/demo'],
  'HAProxy takes a FIN behind a request for a client that has left': [
    'features/http-changes',
    'features/http-sequences',
  ],
};
const notOnHaproxy = new Set(Object.values(NOT_ON_HAPROXY).flat());

const LINT_TIMEOUT_MS = 300_000;
const LINTERS = {
  'tsc --noEmit': ['typescript/bin/tsc', '--noEmit'],
  'tsc -p dashboard': ['typescript/bin/tsc', '-p', 'dashboard'],
  oxlint: ['oxlint/bin/oxlint'],
  'biome ci': ['@biomejs/biome/bin/biome', 'ci', '--colors=off'],
  knip: ['knip/bin/knip.js', '--no-progress'],
};

const { values, positionals: filters } = parseArgs({
  options: { quick: { type: 'boolean' } },
  allowPositionals: true,
});
/** Tests wait for real programs more than they compute; unit tests are short enough for one more at a time. */
const PARALLEL = Math.max(2, availableParallelism()) + (values.quick ? 1 : 0);
const counts = { passed: 0, failed: 0, skipped: 0 };
/** In CI nothing may be missing. */
const skipIsFailure = Boolean(process.env.CI) && process.env.CI !== 'false';
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());

process.chdir(ROOT);
// Programs that start `node` by name get this one.
process.env.PATH = `${join(ROOT, 'node_modules/.bin')}${delimiter}${process.env.PATH}`;

const patterns = values.quick ? QUICK_TESTS : ALL_TESTS;
const files = patterns
  .flatMap(pattern => globSync(pattern, { exclude: values.quick ? NOT_QUICK : [] }).toSorted())
  .filter(file => filters.length === 0 || filters.some(filter => file.includes(filter.replace(/^\.\//, ''))));
if (files.length === 0) {
  say(`No test file matches: ${filters.join(' ')}`);
  process.exit(1);
}
if (!values.quick && files.some(file => !/^(src|dashboard)\//.test(file))) await setUp();
if (filters.length === 0) await lint();
await test();
say(
  `${counts.passed} passed, ${counts.failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''}`,
);
process.exitCode = counts.failed > 0 || stop.signal.aborted ? 1 : 0;

async function setUp(): Promise<void> {
  const packages = missingPackages();
  if (packages.length > 0) say(`Debian packages: installing ${packages.join(' ')}`);
  try {
    await timed('Debian packages', async () => installPackages(packages));
    await timed('Test programs', () => prepare(files));
  } catch (error) {
    say((error as Error).message);
    process.exit(1);
  }
}

async function lint(): Promise<void> {
  await Promise.all(
    Object.entries(LINTERS).map(async ([name, [tool, ...args]]) => {
      const started = performance.now();
      const options = { timeoutMs: LINT_TIMEOUT_MS, env: { NO_COLOR: '1' } };
      const { code, stdout, stderr } = await run(
        process.execPath,
        [`node_modules/${tool}`, ...args],
        options,
      );
      counts[code === 0 ? 'passed' : 'failed']++;
      say(`${code === 0 ? '✓' : '✗'} ${name} (${since(started)})`);
      if (code !== 0) say(`${stdout}${stderr}`.trimEnd());
    }),
  );
}

async function test(): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'causeway-test-'));
  // Compiled modules, shared by all processes of this run: most of what a start of ours costs is compiling.
  const compiled = join(scratch, 'compiled');
  process.env.NODE_COMPILE_CACHE ??= compiled;
  const results: TestFileResult[] = [];
  const runs = files.flatMap(file =>
    !values.quick && ON_EVERY_ENGINE.test(file)
      ? [...ENGINES, ...(runsOnHaproxy(file) ? ['haproxy'] : [])].map(engine => ({ file, engine }))
      : [{ file }],
  );
  const waiting = runs.entries();
  async function work(): Promise<void> {
    for (const [number, run] of waiting) {
      if (stop.signal.aborted) return;
      const own = join(scratch, String(number));
      const result = await runTestFile(run, own, stop.signal);
      results.push(result);
      report(result);
      if (result.failures.length === 0) await rm(own, { recursive: true, force: true });
    }
  }
  await Promise.all(Array.from({ length: PARALLEL }, work));

  const skipped = results.flatMap(({ file, skipped }) => skipped.map(skip => ({ file, ...skip })));
  if (skipped.length > 0) say(`\nSkipped${skipIsFailure ? ', which in CI is a failure' : ''}:`);
  for (const { file, test, reason } of skipped) say(`  ${file}: ${test}: ${reason}`);
  const failed = results.filter(({ failures }) => failures.length > 0);
  if (failed.length > 0) say('\nFailed:');
  for (const { file, failures } of failed) {
    for (const { test, line, text } of failures) say(`  ${file}:${line}: ${test || text.split('\n')[0]}`);
  }
  await rm(compiled, { recursive: true, force: true });
  if (failed.length === 0) await rm(scratch, { recursive: true, force: true });
  else say(`\nLogs of the programs in failed test files: ${scratch}`);
}

function runsOnHaproxy(file: string): boolean {
  return !notOnHaproxy.has(file.replace(/^test\/|\.test\.ts$/g, ''));
}

function report(result: TestFileResult): void {
  const { file, seconds, passed, skipped, failures } = result;
  counts.passed += passed;
  counts.failed += failures.length;
  counts[skipIsFailure ? 'failed' : 'skipped'] += skipped.length;
  const notes = [`${passed} passed`];
  if (failures.length > 0) notes.push(`${failures.length} failed`);
  if (skipped.length > 0) notes.push(`${skipped.length} skipped`);
  say(`${failures.length > 0 ? '✗' : '✓'} ${file}: ${notes.join(', ')} (${seconds.toFixed(1)} s)`);
  if (failures.length > 0) say(describeFailure(result));
}

async function timed(name: string, work: () => Promise<void>): Promise<void> {
  const started = performance.now();
  await work();
  say(`✓ ${name} (${since(started)})`);
}

function since(started: number): string {
  return `${((performance.now() - started) / 1000).toFixed(1)} s`;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
