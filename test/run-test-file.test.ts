// The test runner itself: every problem of a test file must be a failure, and nothing may be left behind.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { describeFailure } from '../scripts/describe-failure.ts';
import { type Limits, runTestFile } from '../scripts/run-test-file.ts';
import { tempDir } from '../testbed/temp-dir.ts';

const PROGRAM = new URL('../testbed/program.ts', import.meta.url).href;
const { signal } = new AbortController();

async function runSource(source: string, limits?: Limits) {
  await using dir = await tempDir();
  const file = dir.file('sample.test.mjs');
  await writeFile(file, `import { describe, it, test } from 'node:test';\n${source}`);
  const result = await runTestFile({ file }, dir.file('scratch'), signal, limits);
  return { ...result, reported: describeFailure(result) };
}

// Limits are long enough for a busy machine to start the file.
describe('runTestFile()', { concurrency: true }, () => {
  test('counts passed and skipped tests, with the reason', async () => {
    const result = await runSource(`
      test('a', () => {});
      describe('b', () => { it('c', () => {}); it('d', { skip: 'no haproxy' }, () => {}); });`);
    assert.equal(result.passed, 2);
    assert.deepEqual(result.skipped, [{ test: 'b > d', reason: 'no haproxy' }]);
    assert.deepEqual(result.failures, []);
  });

  test('reports a failure by its full name with the output of the test and its programs', async () => {
    const result = await runSource(`
      import { startProgram } from ${JSON.stringify(PROGRAM)};
      describe('b', () => it('c', async () => {
        await using program = await startProgram({ command: 'sh', args: ['-c', 'echo from the program; sleep 100 & wait'], ready: { log: /from/ } });
        process.stdout.write('from the test');
        throw new Error('boom');
      }));`);
    assert.deepEqual(
      result.failures.map(({ test, line }) => [test, line]),
      [['b > c', 4]],
    );
    assert.match(result.reported, /Error: boom[^]*log of sh .*\n    from the program[^]*from the test/);
  });

  test('ends a test that hangs, and names it', async () => {
    const result = await runSource("test('a', () => new Promise(() => {})); test('b', () => {});", {
      testMs: 1_000,
    });
    assert.deepEqual(
      result.failures.map(({ test, text }) => [test, text]),
      [['a', 'test timed out after 1000ms']],
    );
    assert.equal(result.passed, 1);
  });

  test('kills a file whose event loop is blocked, and names the test', async () => {
    const result = await runSource("test('a', async () => { await new Promise(setImmediate); for (;;); });", {
      blockedMs: 10_000,
    });
    assert.match(result.reported, /Killed, as its event loop was blocked for 10 s, while this ran: a/);
  });

  test('kills a file that does not end after its tests', async () => {
    const result = await runSource("test('a', () => void setInterval(() => {}, 1000));", {
      lingeringMs: 10_000,
    });
    assert.match(
      result.reported,
      /Killed, as no test was running, but it did not end for 10 s: something is left open/,
    );
  });

  test('treats an early exit as a failure, whatever its code', async () => {
    const early = await runSource(
      "test('a', async () => { await new Promise(setImmediate); process.exit(0); });",
    );
    assert.match(early.reported, /Ended with code 0, while this ran: a/);
    assert.match((await runSource('process.exit(3);')).reported, /Ended with code 3/);
    assert.match((await runSource('')).reported, /Has no tests/);
    assert.match((await runSource('syntax error')).reported, /Ended with code 1[^]*SyntaxError/);
  });

  test('finds and ends leftover processes, and finds leftover temporary files', async () => {
    const result = await runSource(`
      import { spawn } from 'node:child_process';
      import { mkdirSync } from 'node:fs';
      import { tmpdir } from 'node:os';
      test('a', () => {
        spawn('sleep', ['4242'], { detached: true, stdio: 'ignore' }).unref();
        spawn('sleep', ['4243'], { detached: true, stdio: 'ignore', env: {}, cwd: tmpdir() }).unref();
        mkdirSync(tmpdir() + '/left');
      });`);
    assert.deepEqual(result.failures.map(({ text }) => text).toSorted(), [
      'Left a process running: sleep 4242',
      'Left a process running: sleep 4243',
      'Left a temporary file or directory: left',
    ]);
  });
});
