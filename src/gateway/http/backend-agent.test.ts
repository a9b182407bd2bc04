import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { setImmediate as soon } from 'node:timers/promises';
import { parseIp } from '../../wire/ip-address.ts';
import type { TableBackend } from '../table/table.ts';
import { BackendAgent, type BackendRequest, DialError } from './backend-agent.ts';

/** Answers with the number of the connection that the request came on. */
const sockets: Socket[] = [];
const server = createServer((asked, response) => response.end(`${sockets.indexOf(asked.socket)}`));
server.on('connection', socket => sockets.push(socket));
let port: number;

before(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  ({ port } = server.address() as AddressInfo);
});

after(() => {
  server.closeAllConnections();
  server.close();
});

function backend(slot: number, ...addresses: readonly string[]): TableBackend {
  return {
    slot,
    text: '',
    port,
    addresses: addresses.map(address => ({ address: parseIp(address) as Uint8Array, port })),
    preferred: 0,
  };
}

/** Resolves to the number of the connection that served the request. */
async function ask(agent: BackendAgent, to: TableBackend, header?: Uint8Array): Promise<string> {
  const options: BackendRequest = {
    agent,
    backend: to,
    connectMs: 5000,
    keepaliveMs: 30_000,
    clientFiles: 4096,
    header,
    owner: { onFault: error => assert.fail(error as Error) },
  };
  const sent = request(options);
  sent.end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const body = await text(answer);
  // The agent gets the socket back one turn later.
  await soon();
  return body;
}

test('BackendAgent dials anew for each request', async () => {
  using agent = disposable();
  const first = await ask(agent, backend(1, '127.0.0.1'));
  assert.notEqual(await ask(agent, backend(1, '127.0.0.1')), first);
});

test('BackendAgent tries the addresses of a name in turn, and prefers the one that worked', async () => {
  using agent = disposable();
  // Nobody listens on the first two.
  const named = backend(1, '127.0.0.2', '::1', '127.0.0.1');
  await ask(agent, named);
  assert.equal(named.preferred, 2);
  await ask(agent, named);
  assert.equal(named.preferred, 2);
});

test('BackendAgent fails with a DialError when no address can be reached, or there is none', async () => {
  using agent = disposable();
  for (const [failure, ...addresses] of [['refused', '127.0.0.2', '127.0.0.3'], ['name-not-found']]) {
    await assert.rejects(
      () => ask(agent, backend(1, ...addresses)),
      error => error instanceof DialError && error.failure === failure,
    );
  }
});

test('BackendAgent sends the PROXY header before anything else', async () => {
  using agent = disposable();
  const clientError = once(server, 'clientError');
  const asked = ask(agent, backend(1, '127.0.0.1'), Buffer.from('PROXY UNKNOWN\r\n'));
  asked.catch(() => {});
  const [error, socket] = (await clientError) as [Error & { rawPacket: Buffer }, Socket];
  assert.match(error.rawPacket.toString(), /^PROXY UNKNOWN\r\n/);
  socket.destroy();
  await assert.rejects(asked);
});

function disposable(): BackendAgent & Disposable {
  const agent = new BackendAgent();
  return Object.assign(agent, { [Symbol.dispose]: () => agent.destroy() });
}
