import assert from 'node:assert/strict';
import { closeSync, fstatSync, openSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tempDir } from '../../testbed/temp-dir.ts';
import { descriptorOf } from '../gateway/io/net-reactor.ts';
import { DescriptorReceiver, sendDescriptors } from './pass-descriptors.ts';

test('descriptors arrive, more than fit one message, and are other numbers for the same files', async () => {
  await using dir = await tempDir();
  const sent = Array.from({ length: 450 }, (_, i) => {
    writeFileSync(dir.file(`${i}`), '');
    return openSync(dir.file(`${i}`), 'r');
  });
  const { promise: accepted, resolve } = Promise.withResolvers<Socket>();
  await using server = createServer(resolve).listen(dir.file('socket'));
  const receiver = DescriptorReceiver.connect(dir.file('socket')) ?? assert.fail('nobody listens');
  const socket = await accepted;
  assert.equal(receiver.receive(), undefined);
  sendDescriptors(descriptorOf(socket), 'hello\n', sent);
  let text = '';
  const received: number[] = [];
  while (received.length < sent.length) {
    const part = receiver.receive();
    if (part === undefined) await sleep(1);
    text += part?.text ?? '';
    received.push(...(part?.descriptors ?? []));
  }
  assert.equal(text, 'hello\n\n\n');
  assert.deepEqual(
    received.map(descriptor => fstatSync(descriptor).ino),
    sent.map(descriptor => fstatSync(descriptor).ino),
  );
  assert.equal(new Set([...sent, ...received]).size, 900);
  for (const descriptor of [...sent, ...received]) closeSync(descriptor);
  socket.destroy();
  while (receiver.receive()?.text !== '') await sleep(1);
  receiver.close();
  server.close();
});

test('nobody listens', async () => {
  await using dir = await tempDir();
  assert.equal(DescriptorReceiver.connect(dir.file('missing')), undefined);
});
