import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { tempDir } from '../../../testbed/temp-dir.ts';
import type { HandOff } from '../shared/hand-off.ts';
import { TlsConnection } from './tls-connection.ts';

/** A connection as the front hands it over, and the front's end of it. */
async function given(
  work: (it: { front: Socket; connection: TlsConnection; letGo(): void; faults: unknown[] }) => Promise<void>,
) {
  await using dir = await tempDir();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }).listen(dir.file('part'));
  await once(server, 'listening');
  const front = connect({ path: dir.file('part'), allowHalfOpen: true });
  const [socket] = (await once(server, 'connection')) as [Socket];
  let isCurrent = true;
  const endpoint = { address: new Uint8Array(4), port: 1 };
  const handed = { socket, handOff: {} as HandOff, source: endpoint, destination: endpoint };
  const faults: unknown[] = [];
  const connection = new TlsConnection(
    handed,
    () => isCurrent,
    (_, error) => faults.push(error),
  );
  const letGo = () => {
    isCurrent = false;
  };
  try {
    await work({ front, connection, letGo, faults });
  } finally {
    front.destroy();
    socket.destroy();
    server.close();
  }
}

test('TlsConnection.take() has what the client said ahead, and nothing is read after it', () =>
  given(async ({ front, connection }) => {
    connection.listen(() => assert.fail('it has not left'));
    front.write('hello');
    await once(connection.socket, 'data');
    assert.equal(connection.take().toString(), 'hello');
    front.write('more');
    await once(connection.socket, 'readable');
    assert.equal(String(connection.socket.read()), 'more');
  }));

test('TlsConnection.listen() tells that the client left, and reads no more than 64 KiB ahead', () =>
  given(async ({ front, connection }) => {
    const left = new Promise<void>(resolve => connection.listen(resolve));
    front.write(Buffer.alloc(40 * 1024));
    front.end();
    await left;
    assert.equal(connection.take().length, 40 * 1024);
  }));

test('TlsConnection.listen() reads about 64 KiB ahead and leaves the rest in the kernel', () =>
  given(async ({ front, connection }) => {
    connection.listen(() => {});
    front.write(Buffer.alloc(1024 * 1024));
    while (!connection.socket.isPaused()) await new Promise(resolve => setImmediate(resolve));
    const { length } = connection.take();
    assert.ok(length >= 64 * 1024 && length <= 192 * 1024, `${length}`);
  }));

test('TlsConnection.firstByte() waits for it, within limits', () =>
  given(async ({ front, connection }) => {
    assert.equal(await connection.firstByte(10), undefined);
    const waiting = connection.firstByte(10_000);
    front.write(Uint8Array.of(0x16, 3));
    assert.equal(await waiting, 0x16);
    front.end();
    assert.equal(await connection.firstByte(10_000), undefined);
  }));

test('TlsConnection.look() cuts what the front has let go of, unless both sides have ended', () =>
  given(async ({ connection, letGo }) => {
    connection.look();
    assert.equal(connection.gone.aborted, false);
    letGo();
    connection.look();
    assert.equal(connection.gone.aborted, true);
    assert.equal(connection.socket.destroyed, true);
  }));

test('TlsConnection.look() leaves time to what has ended', () =>
  given(async ({ connection, letGo }) => {
    connection.socket.end();
    letGo();
    connection.look();
    assert.equal(connection.gone.aborted, false);
  }));

test('TlsConnection notices at FIN that the client was cut off', () =>
  given(async ({ front, connection, letGo }) => {
    letGo();
    front.destroy();
    connection.socket.resume();
    await once(connection.gone, 'abort');
  }));

test('TlsConnection is cut off, and so is its other side, when a callback of its own throws', () =>
  given(async ({ front, connection, faults }) => {
    const thrown = new Error('injected');
    connection.listen(() => {
      throw thrown;
    });
    const closed = once(connection.socket, 'close');
    front.end();
    await closed;
    assert.deepEqual([faults, connection.gone.aborted], [[thrown], true]);
  }));
