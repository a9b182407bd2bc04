// Runs a real program to completion: clients, compilers, checks of a configuration.

import { basename } from 'node:path';
import { type Exit, type SpawnOptions, spawnGroup } from './process-group.ts';

/** For a busy machine; on a quiet one most programs end within a second. */
const TIMEOUT_MS = 120_000;

export interface RunOptions extends Omit<SpawnOptions, 'command' | 'args'> {
  readonly input?: string | Uint8Array;
  /** Keeps its input open until its stdout satisfies this. Default: closes it after `input`. */
  readonly inputUntil?: (stdout: Buffer) => boolean;
  readonly timeoutMs?: number;
  /** Gets what it prints, as it comes. */
  readonly onOutput?: (chunk: Buffer, from: 'stdout' | 'stderr') => void;
}

export interface RunResult extends Exit {
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** What a program printed and how it ended, whatever its exit code. Rejects if it cannot start or takes too long. */
export async function run(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const { input = '', inputUntil, timeoutMs = TIMEOUT_MS, onOutput, ...spawnOptions } = options;
  const output: { stdout: Buffer[]; stderr: Buffer[] } = { stdout: [], stderr: [] };
  const group = await spawnGroup({ command, args, ...spawnOptions }, (chunk, from) => {
    output[from].push(chunk);
    onOutput?.(chunk, from);
    if (from === 'stdout' && inputUntil?.(Buffer.concat(output.stdout)) === true) group.child.stdin.end();
  });
  group.child.stdin.write(input);
  if (inputUntil === undefined) group.child.stdin.end();

  let late = false;
  const timer = setTimeout(() => {
    late = true;
    group.kill();
  }, timeoutMs);
  const exit = await group.ended;
  clearTimeout(timer);
  const stdout = Buffer.concat(output.stdout);
  const stderr = Buffer.concat(output.stderr).toString();
  if (late) {
    throw new Error(
      `${basename(command)} did not end within ${timeoutMs} ms. It printed:\n${stdout}\n${stderr}`,
    );
  }
  return { ...exit, stdout, stderr };
}
