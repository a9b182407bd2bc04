// The machine on which the figures were measured, to explain differences.

import { readFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { findProgram } from '../testbed/packages.ts';
import { run } from '../testbed/run.ts';
import { causewayBin } from '../testbed/start-causeway.ts';

/** Long compared with ticks of 10 ms. */
const LOOK_MS = 500;

export async function describeMachine(engine: string): Promise<(readonly [string, string])[]> {
  const all = cpus();
  return [
    ['processor', `${all.length} × ${all[0]?.model.trim() ?? 'unknown'}`],
    ['memory', `${Math.round(totalmem() / 2 ** 30)} GiB`],
    ['kernel', `Linux ${release()}, ${await distribution()}`],
    ['causeway', `${await version(causewayBin, ['--version'], /(\d\S*)/)}, engine ${engine}`],
    ['Node', process.versions.node],
    ['HAProxy', await version('haproxy', ['-v'], /version (\S+)/)],
    ['nginx', await version('nginx', ['-v'], /nginx\/(\S+)/)],
    [
      'load',
      `cc ${await version('cc', ['--version'], /(\d+\.\d+\.\d+)/)}, go ${await version('go', ['version'], /go(\d\S*)/)}`,
    ],
  ];
}

/** The share of all cores that others use now, while this program is idle. */
export async function othersBusy(): Promise<number> {
  const before = await jiffies();
  await delay(LOOK_MS);
  const after = await jiffies();
  const total = after.total - before.total;
  return total === 0 ? 0 : 1 - (after.idle - before.idle) / total;
}

/** proc(5): user nice system idle iowait irq softirq steal, for all cores. */
async function jiffies(): Promise<{ readonly total: number; readonly idle: number }> {
  const [first] = (await readFile('/proc/stat', 'utf8')).split('\n');
  const fields = first.trim().split(/\s+/).slice(1, 9).map(Number);
  return { total: fields.reduce((sum, field) => sum + field, 0), idle: fields[3] + fields[4] };
}

async function version(program: string, args: readonly string[], pattern: RegExp): Promise<string> {
  const command = program.includes('/') ? program : findProgram(program);
  if (command === undefined) return 'none';
  const { stdout, stderr } = await run(command, args);
  return pattern.exec(`${stdout}${stderr}`)?.[1] ?? 'unknown';
}

async function distribution(): Promise<string> {
  const text = await readFile('/etc/os-release', 'utf8').catch(() => '');
  return /^PRETTY_NAME="?([^"\n]*)/m.exec(text)?.[1] ?? 'unknown distribution';
}
