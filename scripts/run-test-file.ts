// Runs one test file in its own process and returns the results. It must leave nothing behind: a test
// that hangs has a time limit, a file that does not end is killed, and processes or temporary files that it leaves
// are failures.

import { spawn } from 'node:child_process';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { endLeftovers } from './leftovers.ts';
import type { TestFileEvent } from './test-events.ts';

export type Limits = Partial<typeof LIMITS>;

const LIMITS = {
  /** Default limit of a test. A busy machine may need ten times as long as a quiet one. */
  testMs: 300_000,
  /** Without its heartbeat, sent every second: the event loop is blocked. */
  blockedMs: 120_000,
  /** After the last test: something open keeps the process alive. */
  lingeringMs: 60_000,
};
/** Between two checks of these limits. */
const WATCH_MS = 200;
/** The end of a file's output that is kept. */
const MAX_OUTPUT = 64 * 1024;

const REPORTER = fileURLToPath(new URL('./test-events.ts', import.meta.url));

interface Failure {
  /** Full name, as `suite > test`; empty for the file itself. */
  readonly test: string;
  readonly line: number;
  readonly text: string;
}

export interface TestFileResult {
  readonly file: string;
  readonly seconds: number;
  readonly passed: number;
  readonly skipped: readonly { readonly test: string; readonly reason: string }[];
  readonly failures: readonly Failure[];
  readonly output: string;
  /** Directory with the logs of the programs that it started (testbed/kept-log.ts). */
  readonly logs: string;
}

export interface TestRun {
  readonly file: string;
  /** Engine of the gateways that it starts; absent: their choice. */
  readonly engine?: string;
}

/** Runs a file. `scratch` is a directory for its files, which must not exist yet. */
export async function runTestFile(
  { file, engine }: TestRun,
  scratch: string,
  signal: AbortSignal,
  limits: Limits = {},
): Promise<TestFileResult> {
  const { testMs, blockedMs, lingeringMs } = { ...LIMITS, ...limits };
  const started = performance.now();
  const [tmp, logs] = [join(scratch, 'tmp'), join(scratch, 'logs')];
  await mkdir(tmp, { recursive: true });
  await mkdir(logs);
  // The scratch directory is new, so its name also identifies the processes that inherit this environment.
  // With NODE_TEST_CONTEXT set, under `node --test`, the file would report to that runner.
  const env = { ...process.env, TMPDIR: tmp, CAUSEWAY_TEST_LOGS: logs, NODE_TEST_CONTEXT: undefined };
  if (engine !== undefined) Object.assign(env, { CAUSEWAY_TEST_ENGINE: engine });
  const flags = [`--test-timeout=${testMs}`, `--test-reporter=${REPORTER}`];
  const child = spawn(process.execPath, [...flags, file], { env, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
  const abort = () => child.kill('SIGKILL');
  signal.addEventListener('abort', abort);

  let output = '';
  const keep = (chunk: Buffer) => (output = (output + chunk).slice(-MAX_OUTPUT));
  const [, stdout, stderr, events] = child.stdio as unknown as [null, Readable, Readable, Readable];
  stdout.on('data', keep);
  stderr.on('data', keep);

  const tests = new TestTally();
  let lastSign = performance.now();
  let lastEvent = lastSign;
  let killed: string | undefined;
  createInterface({ input: events }).on('line', line => {
    const event = JSON.parse(line) as TestFileEvent;
    lastSign = performance.now();
    if (event.type === 'alive') return;
    lastEvent = lastSign;
    tests.add(event);
  });
  const watch = setInterval(() => {
    const now = performance.now();
    if (now - lastSign > blockedMs) killed = `its event loop was blocked for ${blockedMs / 1000} s`;
    else if (tests.running().length === 0 && now - lastEvent > lingeringMs)
      killed = `no test was running, but it did not end for ${lingeringMs / 1000} s: something is left open`;
    if (killed !== undefined) child.kill('SIGKILL');
  }, WATCH_MS);

  const { promise: closed, resolve } = Promise.withResolvers<[number | null, NodeJS.Signals | null]>();
  child.once('exit', (...exit) => resolve(exit));
  const [code, exitSignal] = await closed;
  clearInterval(watch);
  signal.removeEventListener('abort', abort);
  const leftovers = await endLeftovers(scratch);
  // After killing leftovers, which may hold the pipes.
  await Promise.all([stdout, stderr, events].map(drained));

  const failures = [...tests.failures];
  const fail = (text: string) => failures.push({ test: '', line: 0, text });
  if (killed !== undefined) fail(`Killed, as ${killed}${tests.runningNote()}`);
  else if (exitSignal !== null) fail(`Ended by ${exitSignal}${tests.runningNote()}`);
  else if (tests.running().length > 0) fail(`Ended with code ${code}${tests.runningNote()}`);
  else if (code !== 0 && failures.length === 0) fail(`Ended with code ${code}`);
  else if (tests.ended === 0) fail('Has no tests');
  if (killed === undefined && exitSignal === null) {
    for (const process of leftovers) fail(`Left a process running: ${process}`);
    for (const entry of await readdir(tmp)) fail(`Left a temporary file or directory: ${entry}`);
  }
  const seconds = (performance.now() - started) / 1000;
  const name = engine === undefined ? file : `${file} (${engine})`;
  return { file: name, seconds, passed: tests.passed, skipped: tests.skipped, failures, output, logs };
}

/** The results of a file's tests so far. */
class TestTally {
  passed = 0;
  ended = 0;
  readonly skipped: { test: string; reason: string }[] = [];
  readonly failures: Failure[] = [];
  readonly #names = new Map<number, string>();
  readonly #running = new Set<number>();

  add(event: Exclude<TestFileEvent, { type: 'alive' }>): void {
    if (event.type === 'begin') {
      const parent = this.#names.get(event.parent ?? 0);
      this.#names.set(event.id, parent === undefined ? event.name : `${parent} > ${event.name}`);
      this.#running.add(event.id);
      return;
    }
    const { id, suite, passed, skipped, line, error } = event;
    const test = this.#names.get(id) ?? '';
    this.#running.delete(id);
    this.ended++;
    if (!passed) {
      // A suite fails with its tests, whose errors say more.
      if (error !== '' || !suite) this.failures.push({ test, line, text: error });
    } else if (skipped !== false)
      this.skipped.push({ test, reason: skipped === true ? 'no reason given' : skipped });
    else if (!suite) this.passed++;
  }

  running(): string[] {
    return [...this.#running].map(id => this.#names.get(id) ?? '');
  }

  runningNote(): string {
    return this.#running.size === 0 ? '' : `, while this ran: ${this.running().join(', ')}`;
  }
}

async function drained(stream: Readable): Promise<void> {
  if (stream.closed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.once('close', resolve);
  const timer = setTimeout(resolve, 1_000);
  await promise;
  clearTimeout(timer);
}
