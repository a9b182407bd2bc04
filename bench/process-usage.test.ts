import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { cpuSeconds, memoryOf, processTree } from './process-usage.ts';

const skip = process.platform === 'linux' ? false : 'there is no /proc';

test('processTree() has a process and its descendants', { skip }, async () => {
  const shell = spawn('sh', ['-c', 'sh -c "echo; read line; :"; :'], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(shell.stdout, 'data');
  const tree = await processTree(process.pid);
  const below = await processTree(shell.pid as number);
  shell.stdin.end();
  await once(shell, 'close');
  assert.equal(below.length, 2);
  assert.ok(below.every(pid => tree.includes(pid)));
});

test('cpuSeconds() grows by the CPU time that the process reports', { skip }, async () => {
  const own = () => process.cpuUsage();
  const [before, reported] = [await cpuSeconds([process.pid]), own()];
  const until = performance.now() + 200;
  while (performance.now() < until);
  const { user, system } = process.cpuUsage(reported);
  const grown = (await cpuSeconds([process.pid])) - before;
  // Threads of the runtime run meanwhile, and the kernel counts in ticks.
  assert.ok(Math.abs(grown - (user + system) / 1e6) < 0.1, `${grown} s, not ${(user + system) / 1e6} s`);
});

test('memoryOf() adds up processes', { skip }, async () => {
  const { rssKib, pssKib } = await memoryOf([process.pid]);
  assert.ok(rssKib > 10_000 && pssKib > 0 && pssKib <= rssKib);
  assert.ok((await memoryOf([process.pid, process.pid])).rssKib > 1.5 * rssKib);
});
