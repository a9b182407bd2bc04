// A program in its own process group, so that whatever it starts ends with it. The base of programs
// that keep running (program.ts) and of those that run to completion (run.ts).

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { guard, release } from './guardian.ts';

/** For output that is still in the pipes at the end. Only a process that left the group and holds them takes longer. */
const DRAIN_MS = 10_000;

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface SpawnOptions {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The network namespace it runs in (netns.ts). Default: this process's own. */
  readonly netns?: { readonly name: string } | undefined;
}

export interface ProcessGroup {
  readonly child: ChildProcessWithoutNullStreams;
  readonly pid: number;
  /** Settles when the program has ended, its output is read, and nothing of the group is left. Never rejects. */
  readonly ended: Promise<Exit>;
  /** Kills the group. */
  kill(): void;
}

/** Starts a program. `onOutput` gets what it prints, from the first byte. */
export async function spawnGroup(
  options: SpawnOptions,
  onOutput: (chunk: Buffer, from: 'stdout' | 'stderr') => void,
): Promise<ProcessGroup> {
  const { cwd, env, netns, command: program, args: words = [] } = options;
  // `ip netns exec` replaces itself by the program: process id, group and signals are the program's.
  const [command, args] =
    netns === undefined ? [program, words] : ['ip', ['netns', 'exec', netns.name, program, ...words]];
  const child = spawn(command, args, {
    ...(cwd === undefined ? {} : { cwd }),
    env: { ...process.env, ...env },
    detached: true,
    stdio: 'pipe',
  });
  child.stdout.on('data', (chunk: Buffer) => onOutput(chunk, 'stdout'));
  child.stderr.on('data', (chunk: Buffer) => onOutput(chunk, 'stderr'));
  // EPIPE: it closed its input or ended; its exit status says more.
  child.stdin.on('error', () => {});
  if (child.pid === undefined) {
    const [cause] = await once(child, 'error');
    throw new Error(`Cannot start ${basename(command)}: ${(cause as Error).message}`, { cause });
  }
  const { pid } = child;
  guard(`group:${pid}`);
  return { child, pid, ended: endOf(child, pid), kill: () => killGroup(pid) };
}

/** `SIGTERM` or `code 1`, for messages. */
export function describeExit({ code, signal }: Exit): string {
  return signal ?? `code ${code}`;
}

async function endOf(child: ChildProcessWithoutNullStreams, pid: number): Promise<Exit> {
  const closed = once(child, 'close');
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  killGroup(pid);
  release(`group:${pid}`);
  const drained = new AbortController();
  await Promise.race([closed, delay(DRAIN_MS, undefined, { signal: drained.signal }).catch(() => {})]);
  drained.abort();
  child.stdout.destroy();
  child.stderr.destroy();
  return { code, signal };
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
