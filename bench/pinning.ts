// The cores of the load and the proxy. They should not compete for time: on two
// cores each side gets one.

import { readFile } from 'node:fs/promises';
import { run } from '../testbed/run.ts';
import { processTree } from './process-usage.ts';

export interface Pinning {
  readonly load: readonly number[];
  readonly proxy: readonly number[];
  /** Workers of the proxy. */
  readonly workers: number;
  /** Description. */
  readonly text: string;
}

/** With more, the load generator's half would be the limit, not the proxy's. */
const MAX_WORKERS = 8;
const PIN_TRIES = 20;

export function choosePinning(cores: readonly number[]): Pinning {
  if (cores.length === 1) {
    const text = `load and proxy share core ${cores[0]}; 1 worker each`;
    return { load: cores, proxy: cores, workers: 1, text };
  }
  const half = cores.length >> 1;
  const load = cores.slice(0, cores.length - half);
  const proxy = cores.slice(cores.length - half);
  const workers = Math.min(proxy.length, MAX_WORKERS);
  return { load, proxy, workers, text: describe(load, proxy, workers) };
}

/** For one and for two workers: on fewer than four cores all share all, because two workers need two cores. */
export function chooseSharedPinning(cores: readonly number[]): Pinning {
  const apart = choosePinning(cores);
  if (apart.proxy.length >= 2) return apart;
  return { load: cores, proxy: cores, workers: 2, text: `load and proxy share cores ${list(cores)}` };
}

/** The cores that this process may use. */
export async function availableCores(): Promise<number[]> {
  const status = await readFile('/proc/self/status', 'utf8');
  return parseCores(/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '0');
}

/** `0-2,5` as numbers. */
export function parseCores(text: string): number[] {
  return text.split(',').flatMap(part => {
    const [first, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** Moves a running program, all its threads and its child processes to these cores. */
export async function pin(pid: number, cores: readonly number[]): Promise<void> {
  for (let tries = 1; ; tries++) {
    const results = await Promise.all(
      (await processTree(pid)).map(each => run('taskset', ['-a', '-c', '-p', list(cores), String(each)])),
    );
    const failed = results.find(({ code }) => code !== 0);
    if (failed === undefined) return;
    // taskset stops at a thread that has just ended.
    if (tries === PIN_TRIES) throw new Error(`Cannot pin process ${pid}: ${failed.stderr}`);
  }
}

function describe(load: readonly number[], proxy: readonly number[], workers: number): string {
  const noun = (cores: readonly number[]) => `core${cores.length > 1 ? 's' : ''} ${list(cores)}`;
  const each = `${workers} worker${workers > 1 ? 's' : ''} each`;
  return `load on ${noun(load)}, proxy on ${noun(proxy)} (taskset); ${each}`;
}

function list(cores: readonly number[]): string {
  return cores.join(',');
}
