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

/** What has been received once those chunks have come, one by one. */
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

test('receiveHandOff() waits for all that the front had read of a client whose descriptor is lent', async () => {
  const header = buildHandOff(client, client, { ...handOff, lentBehind: 4 });
  const [a, b] = [Buffer.from('GE'), Buffer.from('T ')];
  assert.deepEqual(await receive(header), { received: [], isClosed: false });
  assert.deepEqual(await receive(header, a), { received: [], isClosed: false });
  assert.deepEqual(await receive(header, a, b), { received: ['GET '], isClosed: false });
  assert.deepEqual(await receive(Buffer.concat([header, a, b])), { received: ['GET '], isClosed: false });
});

test('receiveHandOff() waits for nothing but the header where all bytes pass the front', async () => {
  const header = buildHandOff(client, client, { ...handOff, lentBehind: undefined });
  const [first, rest] = [header.subarray(0, 20), header.subarray(20)];
  assert.deepEqual(await receive(first), { received: [], isClosed: false });
  assert.deepEqual(await receive(first, rest), { received: [''], isClosed: false });
  assert.deepEqual(await receive(first, Buffer.concat([rest, Buffer.from('GE')])), {
    received: ['GE'],
    isClosed: false,
  });
});

test('receiveHandOff() closes what is no hand-over', async () => {
  assert.deepEqual(await receive(Buffer.from('GET / HTTP/1.1\r\n')), { received: [], isClosed: true });
});

test('receiveHandOff() closes a connection whose receiver throws, and tells whose it was', async () => {
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
