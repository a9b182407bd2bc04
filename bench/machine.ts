// What the figures were measured with, so that somebody else can tell why his differ.

import { readFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { findProgram } from '../testbed/packages.ts';
import { run } from '../testbed/run.ts';
import { causewayBin } from '../testbed/start-causeway.ts';

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
