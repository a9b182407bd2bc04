import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { buildHandOff } from './hand-off.ts';
import { receiveHandOff } from './receive-hand-off.ts';

const client = { address: Uint8Array.of(192, 0, 2, 1), port: 1234 };
const handOff = {
  worker: 0,
  handle: 7,
  generation: 3,
  listener: 0,
  trustForwarded: false,
  isH2: false,
  isTunnelled: false,
};

/** The result after those chunks have arrived one by one. */
async function receive(...chunks: readonly Uint8Array[]) {
  const socket = new PassThrough();
  const received: string[] = [];
  receiveHandOff(socket as unknown as Socket, {
    received: (_, rest) => received.push(rest.toString()),
    fault: error => assert.fail(error as Error),
  });
  for (const chunk of chunks) {
    socket.write(chunk);
    await new Promise(resolve => setImmediate(resolve));
  }
  return { received, isClosed: socket.destroyed };
}

test('receiveHandOff() waits for all bytes that the worker had read of a lent client', async () => {
  const header = buildHandOff(client, client, { ...handOff, lentBehind: 4 });
  const [a, b] = [Buffer.from('GE'), Buffer.from('T ')];
  assert.deepEqual(await receive(header), { received: [], isClosed: false });
  assert.deepEqual(await receive(header, a), { received: [], isClosed: false });
  assert.deepEqual(await receive(header, a, b), { received: ['GET '], isClosed: false });
  assert.deepEqual(await receive(Buffer.concat([header, a, b])), { received: ['GET '], isClosed: false });
});

test('receiveHandOff() waits only for the header when all bytes pass through the worker', async () => {
  const header = buildHandOff(client, client, { ...handOff, lentBehind: undefined });
  const [first, rest] = [header.subarray(0, 20), header.subarray(20)];
  assert.deepEqual(await receive(first), { received: [], isClosed: false });
  assert.deepEqual(await receive(first, rest), { received: [''], isClosed: false });
  assert.deepEqual(await receive(first, Buffer.concat([rest, Buffer.from('GE')])), {
    received: ['GE'],
    isClosed: false,
  });
});

test('receiveHandOff() closes a connection that does not start with a hand-off', async () => {
  assert.deepEqual(await receive(Buffer.from('GET / HTTP/1.1\r\n')), { received: [], isClosed: true });
});

test('receiveHandOff() closes a connection whose receiver throws, and reports its hand-off', async () => {
  const socket = new PassThrough();
  const faults: unknown[] = [];
  const thrown = new Error('injected');
  receiveHandOff(socket as unknown as Socket, {
    received: () => {
      throw thrown;
    },
    fault: (error, handOff) => faults.push(error, handOff?.handle),
  });
  socket.write(buildHandOff(client, client, { ...handOff, lentBehind: undefined }));
  await new Promise(resolve => setImmediate(resolve));
  assert.deepEqual([faults, socket.destroyed], [[thrown, handOff.handle], true]);
});
