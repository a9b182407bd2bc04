import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { readTextFrames, tickingWebSocket, webSocketAccept } from './ticking-web-socket.ts';

async function startTicking(): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createServer();
  server.on('upgrade', (request, socket, head) =>
    tickingWebSocket(request, socket, head, tick => `tick ${tick}`),
  );
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}

test("tickingWebSocket() works with Node's WebSocket, and closes with it", async () => {
  await using server = await startTicking();
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/`);
  const [{ data }] = (await once(socket, 'message')) as [MessageEvent];
  assert.equal(data, 'tick 1');
  const closed = once(socket, 'close') as Promise<[CloseEvent]>;
  socket.close(1000, 'enough');
  const [{ code, wasClean }] = await closed;
  assert.deepEqual([code, wasClean], [1000, true]);
});

test('tickingWebSocket() answers a ping in pieces, and cuts off a client that sends longer frames', async () => {
  await using server = await startTicking();
  const socket = connect(server.port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const receives = async (bytes: Buffer) => {
    while (!Buffer.concat(chunks).includes(bytes)) await once(socket, 'data');
  };
  socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n');
  socket.write('Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n');
  await receives(Buffer.from('tick 1'));
  // "hi", masked with 1, 2, 3, 4.
  for (const byte of [0x89, 0x82, 1, 2, 3, 4, 0x68 ^ 1, 0x69 ^ 2]) socket.write(Uint8Array.of(byte));
  await receives(Buffer.from([0x8a, 2, 0x68, 0x69]));
  socket.write(Uint8Array.of(0x81, 0xfe));
  await once(socket, 'close');
});

test('tickingWebSocket() answers 400 to an upgrade to something else', async () => {
  await using server = await startTicking();
  const socket = connect(server.port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n');
  const [head] = (await once(socket, 'data')) as [Buffer];
  assert.match(head.toString(), /^HTTP\/1\.1 400 /);
  socket.destroy();
});

test('webSocketAccept() matches the example of RFC 6455, section 1.3', () => {
  assert.equal(webSocketAccept('dGhlIHNhbXBsZSBub25jZQ=='), 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=');
});

test('readTextFrames() reads only complete frames', () => {
  const frames = Buffer.from('\x81\x01a\x81\x02bc', 'latin1');
  assert.deepEqual(readTextFrames(frames), ['a', 'bc']);
  for (let length = 0; length < frames.length; length++)
    assert.deepEqual(readTextFrames(frames.subarray(0, length)), length < 3 ? [] : ['a']);
});
