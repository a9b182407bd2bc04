import assert from 'node:assert/strict';
import { writeSync } from 'node:fs';
import { arch, platform } from 'node:os';
import { test } from 'node:test';
import { type Libc, loadLibc } from './libc.ts';
import { whyNoEpoll } from './open-reactor.ts';
import { reactorContract } from './reactor.contract.ts';
import { selfTest } from './self-test.ts';

const wakeUp = new Uint8Array([1, 0, 0, 0, 0, 0, 0, 0]);

reactorContract({
  name: 'epoll',
  module: new URL('./contract/epoll-adapter.ts', import.meta.url),
  wake: fd => void writeSync(fd as number, wakeUp),
});

test('selfTest() finds no fault in this libc', () => {
  assert.equal(selfTest(loadLibc(), arch()), undefined);
});

test('selfTest() names the call that misbehaves', () => {
  const libc = loadLibc();
  const broken = (changes: Partial<Libc>) => selfTest({ ...libc, ...changes }, arch());
  assert.equal(broken({ send: () => -1 }), 'send does not behave as declared');
  assert.equal(broken({ errno: () => 0 }), 'connect does not behave as declared');
  assert.match(String(broken({ epoll_create1: () => -1 })), /^epoll_create1 failed with errno/);
  assert.equal(
    selfTest(libc, arch() === 'x64' ? 'arm64' : 'x64'),
    'struct epoll_event does not behave as declared',
  );
});

test('whyNoEpoll() gives the reason, or undefined if epoll works', async () => {
  assert.equal(await whyNoEpoll(platform(), arch()), undefined);
  assert.equal(await whyNoEpoll('darwin', 'arm64'), 'it requires Linux, but this is darwin');
  assert.equal(await whyNoEpoll('linux', 'mips'), 'it supports x64 and arm64, but this is mips');
});
