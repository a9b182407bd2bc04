// Processes that a test file left running, found by their inherited environment and, because some programs (nginx)
// overwrite it, by their working directory. It reads /proc, so it finds none on systems other than Linux.

import { readdir, readFile, readlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

/** Processes that the guardian kills (testbed/guardian.ts) may take a moment. */
const GRACE_MS = 3_000;
const POLL_MS = 25;

/** Kills processes whose environment or directory contains `mark`, and returns their command lines. */
export async function endLeftovers(mark: string): Promise<string[]> {
  const deadline = performance.now() + GRACE_MS;
  let found = await marked(mark);
  while (found.length > 0 && performance.now() < deadline) {
    await delay(POLL_MS);
    found = await marked(mark);
  }
  for (const { pid } of found) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // gone meanwhile
    }
  }
  return found.map(({ command }) => command);
}

async function marked(mark: string): Promise<{ pid: number; command: string }[]> {
  const entries = await readdir('/proc').catch(() => []);
  const pids = entries.filter(entry => /^\d+$/.test(entry)).map(Number);
  const looked = await Promise.all(pids.map(pid => look(pid, mark)));
  return looked.filter(found => found !== undefined);
}

async function look(pid: number, mark: string): Promise<{ pid: number; command: string } | undefined> {
  const [environment, directory, command] = await Promise.all([
    readFile(`/proc/${pid}/environ`, 'utf8').catch(() => ''),
    readlink(`/proc/${pid}/cwd`).catch(() => ''),
    readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''),
  ]);
  // Without a command line: ended, and not yet waited for.
  if (command === '' || !`${environment}\0${directory}`.includes(mark)) return undefined;
  return { pid, command: command.replaceAll('\0', ' ').trim() };
}
