// Resource usage of a program and its child processes, from /proc.

import { readdir, readFile } from 'node:fs/promises';

export interface Memory {
  readonly rssKib: number;
  /** Proportional set size: shared pages are divided, so that workers of one program can be summed. */
  readonly pssKib: number;
}

/** A process and its descendants. */
export async function processTree(pid: number): Promise<number[]> {
  const tasks = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = await Promise.all(
    tasks.map(task => readFile(`/proc/${pid}/task/${task}/children`, 'utf8').catch(() => '')),
  );
  const children = lists.flatMap(list => list.trim().split(/\s+/).filter(Boolean)).map(Number);
  return [pid, ...(await Promise.all(children.map(processTree))).flat()];
}

/**
 * User and system time of all living threads, in seconds. From schedstat, which counts nanoseconds:
 * /proc/PID/stat has the same sum in steps of 10 ms, too coarse for a second of light load.
 */
export async function cpuSeconds(pids: readonly number[]): Promise<number> {
  const each = await Promise.all(pids.map(async pid => (await schedstat(pid)) ?? stat(pid)));
  return each.reduce((sum, seconds) => sum + seconds, 0);
}

export async function memoryOf(pids: readonly number[]): Promise<Memory> {
  const texts = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/smaps_rollup`, 'utf8')));
  const sum = (field: string) =>
    texts.reduce(
      (total, text) => total + Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0),
      0,
    );
  return { rssKib: sum('Rss'), pssKib: sum('Pss') };
}

async function schedstat(pid: number): Promise<number | undefined> {
  const tasks = await readdir(`/proc/${pid}/task`);
  const texts = await Promise.all(
    tasks.map(task => readFile(`/proc/${pid}/task/${task}/schedstat`, 'utf8').catch(() => undefined)),
  );
  const known = texts.filter(text => text !== undefined);
  if (known.length === 0) return undefined;
  return known.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1e9;
}

/** proc(5): fields 14 and 15, in ticks of 10 ms. The name in field 2 may contain spaces. */
async function stat(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
