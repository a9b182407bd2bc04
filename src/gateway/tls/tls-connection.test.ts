import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { tempDir } from '../../../testbed/temp-dir.ts';
import type { HandOff } from '../shared/hand-off.ts';
import { TlsConnection } from './tls-connection.ts';

/** A connection as a worker hands it off, and the worker's end of it. */
async function given(
  work: (it: {
    worker: Socket;
    connection: TlsConnection;
    release(): void;
    faults: unknown[];
  }) => Promise<void>,
) {
  await using dir = await tempDir();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }).listen(dir.file('socket'));
  await once(server, 'listening');
  const worker = connect({ path: dir.file('socket'), allowHalfOpen: true });
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
  const release = () => {
    isCurrent = false;
  };
  try {
    await work({ worker, connection, release, faults });
  } finally {
    worker.destroy();
    socket.destroy();
    server.close();
  }
}

test('TlsConnection.take() returns the bytes read ahead, and stops reading', () =>
  given(async ({ worker, connection }) => {
    connection.readAhead(() => assert.fail('The client has not ended'));
    worker.write('hello');
    await once(connection.socket, 'data');
    assert.equal(connection.take().toString(), 'hello');
    worker.write('more');
    await once(connection.socket, 'readable');
    assert.equal(String(connection.socket.read()), 'more');
  }));

test('TlsConnection.readAhead() reports the end of the client', () =>
  given(async ({ worker, connection }) => {
    const ended = new Promise<void>(resolve => connection.readAhead(resolve));
    worker.write(Buffer.alloc(40 * 1024));
    worker.end();
    await ended;
    assert.equal(connection.take().length, 40 * 1024);
  }));

test('TlsConnection.readAhead() reads about 64 KiB and leaves the rest in the kernel', () =>
  given(async ({ worker, connection }) => {
    connection.readAhead(() => {});
    worker.write(Buffer.alloc(1024 * 1024));
    while (!connection.socket.isPaused()) await new Promise(resolve => setImmediate(resolve));
    const { length } = connection.take();
    assert.ok(length >= 64 * 1024 && length <= 192 * 1024, `${length}`);
  }));

test('TlsConnection.firstByte() waits for the first byte, but not for ever', () =>
  given(async ({ worker, connection }) => {
    assert.equal(await connection.firstByte(10), undefined);
    const waiting = connection.firstByte(10_000);
    worker.write(Uint8Array.of(0x16, 3));
    assert.equal(await waiting, 0x16);
    worker.end();
    assert.equal(await connection.firstByte(10_000), undefined);
  }));

test('TlsConnection.check() cuts a connection that the worker has ended', () =>
  given(async ({ connection, release }) => {
    connection.check();
    assert.equal(connection.gone.aborted, false);
    release();
    connection.check();
    assert.equal(connection.gone.aborted, true);
    assert.equal(connection.socket.destroyed, true);
  }));

test('TlsConnection.check() gives the last bytes time after FIN', () =>
  given(async ({ connection, release }) => {
    connection.socket.end();
    release();
    connection.check();
    assert.equal(connection.gone.aborted, false);
  }));

test('TlsConnection detects at FIN that the client was cut off', () =>
  given(async ({ worker, connection, release }) => {
    release();
    worker.destroy();
    connection.socket.resume();
    await once(connection.gone, 'abort');
  }));

test('TlsConnection is cut off, with its other side, when one of its callbacks throws', () =>
  given(async ({ worker, connection, faults }) => {
    const thrown = new Error('injected');
    connection.readAhead(() => {
      throw thrown;
    });
    const closed = once(connection.socket, 'close');
    worker.end();
    await closed;
    assert.deepEqual([faults, connection.gone.aborted], [[thrown], true]);
  }));
