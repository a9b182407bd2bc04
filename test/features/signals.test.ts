// SIGUSR1 and SIGUSR2 do nothing: Node's inspector stays closed, and the process keeps running.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { type Program, startProgram } from '../../testbed/program.ts';
import { startAgent } from '../../testbed/start-agent.ts';
import { causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, hello, servedBy, until } from './given.ts';

/** Several, because each may be delivered to another thread. */
async function signalOften(program: Program): Promise<void> {
  for (let i = 0; i < 20; i++) {
    program.signal('SIGUSR1');
    program.signal('SIGUSR2');
    await until('SIGUSR2 to be taken', () => !isPending(program.pid, SIGUSR2));
  }
}

/** On Linux. */
const SIGUSR2 = 12;

/** Pending for the process. SIGUSR1 may stay pending if Node blocks it. */
function isPending(pid: number, signal: number): boolean {
  const pending = /^ShdPnd:\s+([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return ((BigInt(`0x${pending?.[1]}`) >> BigInt(signal - 1)) & 1n) === 1n;
}

function assertUntouched(program: Program): void {
  assert.equal(program.exit(), undefined);
  assert.doesNotMatch(program.log(), /[Dd]ebugger|inspector|ws:\/\//);
}

test('run keeps serving, with workers and stream threads', async () => {
  await using backend = await Backend.start({ name: 'backend' });
  await using gateway = await startCauseway({
    config: `
listen: ["127.0.0.1:0"]
workers: 2
clusters:
  - name: lab
    api: { hosts: [api.lab.test], backends: ["${backend.text}"], health: { check: tcp } }
    apps: { hosts: [web.lab.test], http: redirect }
`,
  });
  await signalOften(gateway.program);
  for (let i = 0; i < 4; i++) assert.equal(await servedBy(gateway.port, hello('api.lab.test')), 'backend');
  assertUntouched(gateway.program);
});

test('agent keeps serving', async () => {
  await using backend = await Backend.start({ name: 'backend' });
  await using agent = await startAgent({
    uplink: 'proxy',
    id: 'a',
    gateway: `127.0.0.1:${backend.port}`,
  });
  await signalOften(agent.program);
  assert.equal(await servedBy(agent.port, hello('')), 'backend');
  assertUntouched(agent.program);
});

test('demo keeps running', async () => {
  await using dir = await tempDir();
  await using demo = await startProgram({
    command: causewayBin,
    args: ['demo', '--port', String(await freePort())],
    cwd: dir.path,
    ready: { log: /Press Ctrl-C to end/ },
  });
  await signalOften(demo);
  assertUntouched(demo);
  demo.signal('SIGINT');
  assert.deepEqual(await demo.ended, { code: 0, signal: null });
});
