import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { type ConnectionGuard, guardConnections } from './connection-guard.ts';

/** A server for three connections that answers `/` at once and holds `/hold` open. */
class Guarded implements AsyncDisposable {
  readonly server: Server;
  readonly guard: ConnectionGuard;
  readonly held: ServerResponse[] = [];
  readonly sockets: Socket[] = [];

  constructor() {
    this.server = createServer();
    this.guard = guardConnections(this.server, 3);
    this.server.on('request', (request, response) => {
      if (!this.guard.admit(request, response)) return;
      if (request.url === '/') response.end('answer');
      else this.held.push(response);
    });
  }

  static async start(): Promise<Guarded> {
    const guarded = new Guarded();
    guarded.server.listen(0, '127.0.0.1');
    await once(guarded.server, 'listening');
    return guarded;
  }

  /** Connected, and its request, if any, has arrived. */
  async client(path?: string): Promise<Socket> {
    const { port } = this.server.address() as AddressInfo;
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    this.sockets.push(socket);
    const accepted = once(this.server, 'connection');
    await accepted;
    if (path !== undefined) {
      const asked = once(this.server, 'request');
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      await asked;
    }
    if (path === '/') await once(socket, 'data');
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }
}

const closed = (socket: Socket) => new Promise<void>(resolve => socket.once('close', () => resolve()));

test('guardConnections() lets the newest in, and the oldest that has said nothing go', async () => {
  await using guarded = await Guarded.start();
  const busy = await guarded.client('/hold');
  const first = await guarded.client();
  const second = await guarded.client();
  const gone = closed(first);
  await guarded.client('/');
  await gone;
  assert.deepEqual([busy.destroyed, second.destroyed], [false, false]);
});

test('guardConnections() then lets go who was answered, and last who is being answered', async () => {
  await using guarded = await Guarded.start();
  const busy = await guarded.client('/hold');
  const idle = await guarded.client('/');
  const second = await guarded.client('/hold');
  let gone = closed(idle);
  const third = await guarded.client('/hold');
  await gone;
  gone = closed(busy);
  await guarded.client();
  await gone;
  assert.deepEqual([second.destroyed, third.destroyed], [false, false]);
});

test('guardConnections() closes a connection that asks for too much at a time, and answers none of the rest', async () => {
  await using guarded = await Guarded.start();
  const greedy = await guarded.client();
  const gone = closed(greedy);
  greedy.write('GET /hold HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1000));
  await gone;
  assert.equal(guarded.held.length, 8);
  assert.equal(guarded.guard.waiting(), 0);
});

test('guardConnections() counts what clients have not taken', async () => {
  await using guarded = await Guarded.start();
  (await guarded.client('/hold')).pause();
  const size = 32 * 1024 * 1024;
  guarded.held[0].end(Buffer.alloc(size));
  assert.ok(guarded.guard.waiting() > size / 2, `${guarded.guard.waiting()}`);
  guarded.sockets[0].destroy();
  await once(guarded.held[0], 'close');
  assert.equal(guarded.guard.waiting(), 0);
});
