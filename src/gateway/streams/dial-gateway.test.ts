import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer as netServer, type Server, type Socket } from 'node:net';
import { test } from 'node:test';
import { createServer } from 'node:tls';
import { authority, certificateFor } from '../../../testbed/certificates.ts';
import { missingPrograms } from '../../../testbed/packages.ts';
import type { pauseBefore } from '../stages/dial-policy.ts';
import { GatewayDialer, GatewayError } from './dial-gateway.ts';

const skip = missingPrograms('openssl');
const NAME = 'gw.test';
const settings = { connectMs: 5000, keepaliveMs: 30_000, retries: 3, clientFiles: 4096 };
const signal = new AbortController().signal;

async function listen(server: Server, host: string, port = 0): Promise<number> {
  server.listen(port, host);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** A gateway on that loopback address that counts its connections. */
async function startGateway(host = '127.0.0.1', port = 0) {
  const { certFile, keyFile } = await certificateFor(NAME);
  const sockets = new Set<Socket>();
  const server = createServer({
    cert: await readFile(certFile),
    key: await readFile(keyFile),
    ALPNProtocols: ['a'],
  });
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => {})));
  server.on('secureConnection', socket => socket.on('error', () => {}));
  server.on('tlsClientError', () => {});
  return {
    port: await listen(server, host, port),
    visits: () => sockets.size,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

async function place(port: number, ...addresses: readonly string[]) {
  const ca = await readFile((await authority()).certFile, 'latin1');
  return { host: NAME, port, addresses, serverName: NAME, ca };
}

const options = { wrongProtocol: 'none of them' };
/** Replaces the real pauses. */
const shortly: typeof pauseBefore = (attempt, _, { retries }) =>
  attempt > retries ? undefined : Math.min(attempt, 1);

test('GatewayDialer tries addresses in turn, and then starts with the one that worked', {
  skip,
}, async () => {
  await using second = await startGateway('127.0.0.3');
  const dialer = new GatewayDialer(shortly);
  const gateway = await place(second.port, '127.0.0.2', '127.0.0.3');
  (await dialer.dial(gateway, options, settings, signal)).tls.destroy();
  // The first address comes up, but is not tried while the second works.
  await using first = await startGateway('127.0.0.2', second.port);
  (await dialer.dial(gateway, options, settings, signal)).tls.destroy();
  assert.deepEqual([first.visits(), second.visits()], [0, 2]);
});

test('GatewayDialer retries the addresses, with 1 + retries attempts in all', { skip }, async () => {
  let attempts = 0;
  const server = netServer(socket => {
    attempts++;
    socket.on('error', () => {});
    socket.destroy();
  });
  const port = await listen(server, '127.0.0.1');
  const gateway = await place(port, '127.0.0.1');
  await assert.rejects(
    new GatewayDialer(shortly).dial(gateway, options, settings, signal),
    (error: GatewayError) => {
      assert.match(error.message, /^127\.0\.0\.1: /);
      return error instanceof GatewayError && error.failure !== 'timeout';
    },
  );
  assert.equal(attempts, 4);
  server.close();
});

test('GatewayDialer does not retry when the certificate does not verify', { skip }, async () => {
  await using gateway = await startGateway();
  const other = { ...(await place(gateway.port, '127.0.0.1')), serverName: 'other.test' };
  await assert.rejects(new GatewayDialer(shortly).dial(other, options, settings, signal), {
    code: 'ERR_GATEWAY',
    isFinal: true,
    message: /does not verify for other\.test: .*\. Is --server-name right/,
  });
});

test('GatewayDialer times out when the server sends nothing', { skip }, async () => {
  const sockets: Socket[] = [];
  const server = netServer(socket => sockets.push(socket));
  const port = await listen(server, '127.0.0.1');
  const gateway = await place(port, '127.0.0.1');
  const quick = { ...settings, connectMs: 30 };
  await assert.rejects(new GatewayDialer(shortly).dial(gateway, options, quick, signal), {
    failure: 'timeout',
  });
  for (const socket of sockets) socket.destroy();
  server.close();
});

test('GatewayDialer stops when it is aborted, during an attempt and between two', {
  skip,
}, async () => {
  const accepted = Promise.withResolvers<Socket>();
  const server = netServer(socket => accepted.resolve(socket));
  const port = await listen(server, '127.0.0.1');
  const controller = new AbortController();
  const dialer = new GatewayDialer(attempt => (attempt === 0 ? 0 : 60_000));
  const dialled = dialer.dial(await place(port, '127.0.0.1'), options, settings, controller.signal);
  const socket = await accepted.promise;
  const closed = once(
    socket.resume().on('error', () => {}),
    'close',
  );
  controller.abort();
  await assert.rejects(dialled, { name: 'AbortError' });
  await closed;
  server.close();
  await once(server, 'close');

  const later = new AbortController();
  const waiting = dialer.dial(await place(port, '127.0.0.1'), options, settings, later.signal);
  setTimeout(() => later.abort(), 100);
  await assert.rejects(waiting, { name: 'AbortError' });
});

test('GatewayDialer reports a name that does not resolve', { skip }, async () => {
  const gateway = await place(443);
  await assert.rejects(new GatewayDialer(shortly).dial(gateway, options, settings, signal), {
    message: 'gw.test does not resolve',
    failure: 'name-not-found',
  });
});

test('GatewayDialer fails with `wrongProtocol` when the server accepts none', { skip }, async () => {
  await using gateway = await startGateway();
  const alpn = { ...options, ALPNProtocols: ['b'] };
  await assert.rejects(
    new GatewayDialer(shortly).dial(await place(gateway.port, '127.0.0.1'), alpn, settings, signal),
    {
      isFinal: true,
      message: 'none of them',
    },
  );
});
