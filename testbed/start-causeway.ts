// Starts our own program as a user would, `causeway run -c FILE` in its own process, and reads its log:
// `await using gateway = await startCauseway({ config: \`listen: [":0"] …\` })`.

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type LogLine, type LogLines, logLines } from './log-lines.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { tempDir } from './temp-dir.ts';
import { withoutHealthChecks } from './without-health-checks.ts';

export const causewayBin = fileURLToPath(new URL('../bin/causeway', import.meta.url));

export type { LogLine } from './log-lines.ts';

export interface Causeway extends AsyncDisposable, LogLines {
  readonly program: Program;
  /** The config file; write() replaces its content in place. */
  readonly file: string;
  /** Of the first listener. */
  readonly port: number;
  readonly ports: readonly number[];
  readonly admin: string;
  write(config: string): Promise<void>;
  /** Log lines of the connections that have ended. */
  connections(): LogLine[];
  /** The sum of the series of a metric that have these labels. */
  metric(name: string, labels?: Record<string, string>): Promise<number>;
  status(): Promise<Record<string, unknown>>;
}

export interface CausewayOptions {
  /**
   * causeway.yaml. Unless it sets them, `admin` is on a free port and health checks are off; the word
   * `health:` anywhere leaves all checks as written.
   */
  readonly config: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Default: this checkout's. */
  readonly command?: string;
  /** The host it runs on. Its admin listener can then be reached from there only. */
  readonly netns?: Netns;
}

export async function startCauseway(options: CausewayOptions): Promise<Causeway> {
  const { config, args = [], env, command = causewayBin, netns } = options;
  const dir = await tempDir();
  const file = join(dir.path, 'causeway.yaml');
  const complete = (text: string) => {
    const quiet = withoutHealthChecks(text);
    return /^admin:/m.test(quiet) ? quiet : `admin: { on: "127.0.0.1:0" }\n${quiet}`;
  };
  await writeFile(file, complete(config));
  // Its own: a gateway that is killed, or has no time left after the second signal, leaves its sockets behind.
  const tmp = join(dir.path, 'tmp');
  await mkdir(tmp);
  let program: Program;
  try {
    program = await startProgram({
      command,
      args: ['run', '-c', file, ...engineArgs(), ...args],
      env: { TMPDIR: tmp, ...env },
      netns,
      ready: { log: /"msg":"ready"/ },
      stopSignal: 'SIGTERM',
    });
  } catch (error) {
    await dir[Symbol.asyncDispose]();
    throw error;
  }
  const { lines, line } = logLines(program);
  const ready = lines().find(line => line.msg === 'ready') as LogLine;
  const ports = (ready.listen as string[]).map(address =>
    Number(address.slice(address.lastIndexOf(':') + 1)),
  );
  const admin = String(ready.admin);
  return {
    program,
    file,
    port: ports[0],
    ports,
    admin,
    write: text => writeFile(file, complete(text)),
    lines,
    line,
    connections: () => lines().filter(line => line.msg === 'connection'),
    async metric(name, labels = {}) {
      const text = await (await fetch(`${admin}/metrics`)).text();
      return sumOf(text, name, labels);
    },
    async status() {
      return (await (await fetch(`${admin}/api/v1/status`)).json()) as Record<string, unknown>;
    },
    async [Symbol.asyncDispose]() {
      // Most tests do not need the drain: a second signal ends open tunnels. It is a different one, because
      // the kernel merges equal pending signals.
      program.signal('SIGINT');
      await program.stop();
      await dir[Symbol.asyncDispose]();
    },
  };
}

/** The same tests run on every engine: `CAUSEWAY_TEST_ENGINE`, or the program's choice. */
function engineArgs(): string[] {
  const engine = process.env.CAUSEWAY_TEST_ENGINE;
  return engine === undefined ? [] : ['--engine', engine];
}

function sumOf(text: string, name: string, labels: Record<string, string>): number {
  let sum = 0;
  for (const line of text.split('\n')) {
    const match = /^([a-z_:]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null || match[1] !== name) continue;
    const found = Object.fromEntries(
      [...(match[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(pair => [pair[1], pair[2]]),
    );
    if (Object.entries(labels).every(([key, value]) => found[key] === value)) sum += Number(match[3]);
  }
  return sum;
}
