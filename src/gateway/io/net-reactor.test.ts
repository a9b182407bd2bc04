import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseIp } from '../../wire/ip-address.ts';
import { allIsRead, does, fills, opens, peerSees, peerSends, row } from './contract/steps.ts';
import { NetReactor, reactorErrorOf } from './net-reactor.ts';
import { reactorContract } from './reactor.contract.ts';
import { AGAIN, BROKEN, DENIED, EXHAUSTED, errorWord, TIMED_OUT } from './reactor.ts';

reactorContract('net');

// More than the port promises: bytes that close() has yet to write wait in this process, not in the kernel.
row(
  'net',
  'close() drops what still comes until all is written',
  [{ name: 'accepted', isDialled: false, host: '127.0.0.1' }],
  opens,
  fills,
  does('close'),
  peerSends(1_000_000),
  allIsRead,
  peerSees('end'),
);

test('reactorErrorOf() maps errors that tests cannot provoke everywhere', () => {
  const words = ['EACCES', 'EMFILE', 'ETIMEDOUT', 'EWHATEVER'].map(code =>
    reactorErrorOf({ name: '', message: '', code }),
  );
  assert.deepEqual(words, [DENIED, EXHAUSTED, TIMED_OUT, BROKEN]);
  assert.equal(errorWord(words[0]), 'permission denied');
});

test('give() yields the socket with what was not read, and adopt() takes it over', async () => {
  const io = new NetReactor({ capacity: 8, share: false });
  const { port1, port2 } = new MessageChannel();
  const events: number[] = [];
  io.run({ event: handle => events.push(handle), turn: () => {}, message: () => {} }, port1);
  const loopback = parseIp('127.0.0.1') as Uint8Array;
  const listener = await new Promise<number>(opened => io.listen({ address: loopback, port: 0 }, opened));
  const client = connect(io.listeningPort(listener), '127.0.0.1');
  client.write('hello');
  const until = async (call: () => number) => {
    for (;;) {
      const result = call();
      if (result !== AGAIN) return result;
      await sleep(1);
    }
  };
  const handle = await until(() => io.accept(listener));
  const bytes = Buffer.alloc(64);
  assert.equal(await until(() => io.read(handle, bytes, 0, 2)), 2);
  const socket = io.give(handle);
  const before = events.length;
  client.write(', you');
  await sleep(20);
  assert.equal(events.length, before, 'no event for what was given');
  assert.equal(io.write(handle, bytes, 0, 1), BROKEN);
  const again = io.adopt(socket, Buffer.from('he'));
  let length = 0;
  while (length < 10) length += await until(() => io.read(again, bytes, length, 64));
  assert.equal(bytes.toString('latin1', 0, length), 'hello, you');
  const failed = new Promise<Error>(resolve => client.once('error', resolve));
  io.reset(again);
  assert.match(String(await failed), /ECONNRESET/);
  io.stop();
  port2.close();
});
