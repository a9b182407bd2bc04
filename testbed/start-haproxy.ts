// HAProxy in a test: `await using proxy = await startHaproxy({ config })`. The test brings the configuration; only a
// runtime socket is added, which shows the starter that it serves and lets a test run commands.

import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { haproxyBuild } from './haproxy-build.ts';
import type { Netns } from './netns.ts';
import { findProgram } from './packages.ts';
import { type Program, startProgram } from './program.ts';
import { run } from './run.ts';
import { tempDir } from './temp-dir.ts';

export interface HaproxyOptions {
  /** The whole file, with the ports it binds. Another `global` section is prepended. */
  readonly config: string;
  /** Default: the machine's own, 2.6 on Debian 12. 3.0 sends and reads PROXY protocol TLVs. */
  readonly version?: '3.0';
  readonly netns?: Netns;
}

export interface Haproxy extends Program {
  /** The answer to a runtime command, e.g. `show stat` (HAProxy Management Guide, 9.3). */
  runtime(command: string): Promise<string>;
}

/** Starts HAProxy, and resolves when its loop runs, which is after it has bound everything. */
export async function startHaproxy(options: HaproxyOptions): Promise<Haproxy> {
  const { config, version, netns } = options;
  const command = version === '3.0' ? await haproxyBuild() : (findProgram('haproxy') ?? 'haproxy');
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const socket = dir.file('runtime.sock');
  const file = dir.file('haproxy.cfg');
  await writeFile(file, `global\n  stats socket ${socket} mode 600 level admin\n\n${config}\n`);

  const check = await run(command, ['-c', '-f', file]);
  if (check.code !== 0)
    throw new Error(`HAProxy does not accept its configuration:\n${check.stdout}${check.stderr}`);

  const program = stack.use(
    await startProgram({
      command,
      args: ['-db', '-f', file],
      cwd: dir.path,
      netns,
      ready: { probe: async () => (await ask(socket, 'show info').catch(() => '')).includes('Uptime') },
      // SIGTERM is its hard stop; SIGUSR1 would wait for connections.
      stopSignal: 'SIGTERM',
    }),
  );
  const owned = stack.move();
  return {
    ...program,
    runtime: command => ask(socket, command),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function ask(path: string, command: string): Promise<string> {
  const socket = connect({ path });
  socket.write(`${command}\n`);
  return text(socket);
}
