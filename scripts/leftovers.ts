// Processes that a test file has left running, found by what they inherited from it and, as some programs (nginx)
// overwrite their environment, by the directory they are in. Looks into /proc: elsewhere than on Linux none are found.

import { readdir, readFile, readlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

/** What is killed with its test file (testbed/guardian.ts) may take a moment. */
const GRACE_MS = 3_000;
const POLL_MS = 25;

/** Ends processes whose environment or directory names `mark`, and gives their command lines. */
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
