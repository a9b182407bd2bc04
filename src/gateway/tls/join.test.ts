import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type Duplex, duplexPair } from 'node:stream';
import { test } from 'node:test';
import { join } from './join.ts';

function given(more: { farEnded?(): void } = {}) {
  const [client, near] = duplexPair();
  const [server, far] = duplexPair();
  const lost: string[] = [];
  const owner = { onFault: (error: unknown) => lost.push(String(error)) };
  join({ owner, near, far, nearLost: () => lost.push('near'), farLost: () => lost.push('far'), ...more });
  return { client, near, server, far, lost };
}

async function readAll(stream: Duplex): Promise<string> {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(stream, 'end');
  return Buffer.concat(chunks).toString();
}

test('join() passes bytes both ways, and a separate FIN in each direction', async () => {
  const { client, server, lost } = given();
  client.end('question');
  assert.equal(await readAll(server), 'question');
  server.end('answer');
  assert.equal(await readAll(client), 'answer');
  assert.deepEqual(lost, []);
});

test('join() reports the side that closed without FIN, and leaves the other to the caller', async () => {
  for (const side of ['near', 'far'] as const) {
    const { near, far, lost } = given();
    const [gone, other] = side === 'near' ? [near, far] : [far, near];
    gone.destroy(new Error('broken'));
    await new Promise<void>(resolve => gone.once('close', resolve));
    assert.deepEqual(new Set(lost), new Set([side]));
    assert.equal(other.destroyed, false);
  }
});

test('join() calls farEnded() instead of passing on the FIN of the far side', async () => {
  const ended = Promise.withResolvers<void>();
  const { server, near } = given({ farEnded: ended.resolve });
  server.end();
  await ended.promise;
  assert.equal(near.writableEnded, false);
});

test('join() reports exceptions to the connection that owns both sides', async () => {
  const { client, server, lost } = given({
    farEnded() {
      throw new Error('injected');
    },
  });
  client.resume();
  server.end('answer');
  while (lost.length === 0) await new Promise(resolve => setImmediate(resolve));
  assert.deepEqual(lost, ['Error: injected']);
});
