// `causeway dns serve` as a user starts it, and dig.

import { writeFile } from 'node:fs/promises';
import { type LogLines, logLines } from '../../testbed/log-lines.ts';
import { type Program, startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

export interface Dns extends AsyncDisposable, LogLines {
  readonly program: Program;
  readonly port: number;
  readonly listen: readonly string[];
  write(config: string): Promise<void>;
}

export async function startDns(config: string, flags: readonly string[], on = '127.0.0.1:0'): Promise<Dns> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const file = dir.file('causeway.yaml');
  await writeFile(file, config);
  const program = stack.use(
    await startProgram({
      command: causewayBin,
      args: ['dns', 'serve', '-c', file, '--on', on, ...flags],
      ready: { log: /"msg":"ready"/ },
    }),
  );
  const { lines, line } = logLines(program);
  const listen = lines().find(({ msg }) => msg === 'ready')?.listen as string[];
  const owned = stack.move();
  return {
    program,
    lines,
    line,
    listen,
    port: Number(listen[0].slice(listen[0].lastIndexOf(':') + 1)),
    write: text => writeFile(file, text),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export interface Dug {
  /** Such as NOERROR. */
  readonly status: string;
  /** `qr aa rd`. */
  readonly flags: string;
  /** Sorted. */
  readonly data: readonly string[];
  readonly authority: readonly string[];
  readonly text: string;
}

export async function dig(port: number, ...args: readonly string[]): Promise<Dug> {
  const server = args.some(arg => arg.startsWith('@')) ? [] : ['@127.0.0.1'];
  const fixed = ['-r', ...server, '-p', String(port), '+tries=1', '+time=5', '+norecurse'];
  const { stdout } = await run('dig', [...fixed, ...args]);
  const text = stdout.toString();
  const section = (name: string) => [
    ...(new RegExp(`;; ${name} SECTION:\n((?:[^;\n].*\n)+)`).exec(text)?.[1] ?? '').matchAll(
      /^(\S+)\s+\d+\s+IN\s+(\S+)\s+(.+)$/gm,
    ),
  ];
  return {
    status: /status: (\w+)/.exec(text)?.[1] ?? 'none',
    flags: /;; flags: ([\w ]*);/.exec(text)?.[1] ?? '',
    data: section('ANSWER')
      .map(([, , , data]) => data)
      .toSorted(),
    authority: section('AUTHORITY').map(([, name, type]) => `${name} ${type}`),
    text,
  };
}
