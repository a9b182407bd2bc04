import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { arch, platform } from 'node:os';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseIp } from '../../wire/ip-address.ts';
import { ThreadControl } from '../shared/thread-control.ts';
import { EpollReactor } from './epoll-reactor.ts';
import { type Libc, loadLibc } from './libc.ts';
import { whyNoEpoll } from './open-reactor.ts';
import { reactorContract } from './reactor.contract.ts';
import { AGAIN } from './reactor.ts';
import { selfTest } from './self-test.ts';

reactorContract('epoll');

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

test('the control thread knows which descriptors the reactor has open', async () => {
  const capacity = 1024;
  const control = new ThreadControl(ThreadControl.memory(capacity));
  const io = new EpollReactor({ capacity, share: false, libc: loadLibc(), arch: arch(), control });
  const held = () => [...control.held.entries()].flatMap(([fd, kind]) => (kind === 0 ? [] : [fd]));
  const loopback = parseIp('127.0.0.1') as Uint8Array;
  let listener = -1;
  io.listen({ address: loopback, port: 0 }, handle => {
    listener = handle;
  });
  assert.deepEqual(held(), [listener]);
  const port = io.listeningPort(listener);
  const client = connect(port, '127.0.0.1').on('error', () => {});
  await once(client, 'connect');
  const accepted = io.accept(listener);
  assert.ok(accepted >= 0);
  const dialled = io.connect({ address: loopback, port });
  assert.ok(dialled >= 0);
  assert.deepEqual(new Set(held()), new Set([listener, accepted, dialled]));
  // One that cannot be bound is closed again.
  io.listen({ address: loopback, port }, result => assert.ok(result < 0));
  io.reset(accepted);
  io.close(dialled);
  assert.deepEqual(held(), [listener]);
  io.stop();
  assert.deepEqual(held(), []);
  for (const fd of control.descriptors) closeSync(fd);
  client.destroy();
});

test('give() yields the descriptor with what was not read, and closing it sends a reset', async () => {
  const capacity = 1024;
  const control = new ThreadControl(ThreadControl.memory(capacity));
  const io = new EpollReactor({ capacity, share: false, libc: loadLibc(), arch: arch(), control });
  const loopback = parseIp('127.0.0.1') as Uint8Array;
  let listener = -1;
  io.listen({ address: loopback, port: 0 }, handle => {
    listener = handle;
  });
  const client = connect(io.listeningPort(listener), '127.0.0.1');
  const failed = new Promise<Error>(resolve => client.once('error', resolve));
  await once(client, 'connect');
  client.write('hello');
  const handle = io.accept(listener);
  const bytes = new Uint8Array(2);
  while (io.read(handle, bytes, 0, 2) === AGAIN) await sleep(1);
  const owned = new Uint8Array(capacity);
  const descriptor = io.give(handle, owned);
  assert.deepEqual([owned[descriptor], control.held[descriptor]], [1, 0]);
  // It is not the reactor's any more.
  io.reset(handle);
  io.close(handle);
  const socket = new Socket({ fd: descriptor });
  const [rest] = await once(socket, 'data');
  assert.equal(Buffer.from(bytes).toString() + String(rest), 'hello');
  socket.destroy();
  assert.match(String(await failed), /ECONNRESET/);
  io.stop();
  for (const fd of control.descriptors) closeSync(fd);
});
