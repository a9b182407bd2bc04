// Admin clients that flood, stall, never read or send too much: they are bounded, and others are unaffected.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { ask, changing } from './ask-admin.ts';
import { Backend, connectClient, hello, type Peer, until } from './given.ts';

/** More than the admin listener keeps open. */
const FLOOD = 600;

let gateway: Causeway;
let tunnel: Peer;
/** The backend's side of it. */
let served: Peer;
const stack = new AsyncDisposableStack();

before(async () => {
  const backend = stack.use(await Backend.start({ name: 'backend' }));
  // A table with megabytes of JSON, which a client that never reads would hold.
  const clusters = Array.from(
    { length: 4000 },
    (_, i) => `  - { name: c${i}, api: { hosts: [a${i}.test, b${i}.test], backends: ["${backend.text}"] } }`,
  );
  gateway = stack.use(
    await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
log: { connections: none }
clusters:
  - { name: lab, api: { hosts: [api.lab.test], backends: ["${backend.text}"] } }
${clusters.join('\n')}
`,
    }),
  );
  tunnel = stack.use(await connectClient(gateway.port));
  tunnel.send(hello('api.lab.test'));
  await tunnel.receives('backend\n');
  served = await backend.accepted();
  await served.receives(hello('api.lab.test'));
});

after(() => stack.disposeAsync());

/** A raw client of the admin listener that does not read unless resumed. */
async function raw(said = ''): Promise<Socket> {
  const socket = connect(Number(new URL(gateway.admin).port), '127.0.0.1');
  socket.on('error', () => {}).pause();
  await once(socket, 'connect');
  if (said !== '') socket.write(said);
  return socket;
}

async function raws(count: number, said?: string): Promise<Disposable & { readonly sockets: Socket[] }> {
  const sockets: Socket[] = [];
  for (let done = 0; done < count; done += 50)
    sockets.push(...(await Promise.all(Array.from({ length: Math.min(50, count - done) }, () => raw(said)))));
  return { sockets, [Symbol.dispose]: () => sockets.forEach(socket => socket.destroy()) };
}

async function residentMiB(): Promise<number> {
  return (await gateway.metric('process_resident_memory_bytes')) / 2 ** 20;
}

/** Probes and the API are answered, and the existing tunnel still moves bytes. */
async function othersAreUnharmed(): Promise<void> {
  assert.equal((await ask(gateway, '/healthz')).status, 200);
  assert.equal((await ask(gateway, '/readyz')).status, 200);
  assert.equal((await ask(gateway, '/api/v1/status')).status, 200);
  assert.equal(tunnel.end(), undefined);
  const before = served.received().length;
  tunnel.send('ping');
  await served.receives(before + 4);
}

test('a flood of silent connections: the oldest are closed, probes and scrapes are served', async () => {
  using flood = await raws(FLOOD);
  await othersAreUnharmed();
  const open = () => flood.sockets.filter(socket => !socket.destroyed).length;
  // Only a socket that is being read sees its end.
  for (const socket of flood.sockets) socket.resume();
  await until('the surplus to be closed', () => open() <= 256);
});

test('a flood of incomplete requests: probes and scrapes are served', async () => {
  using _ = await raws(FLOOD, 'GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ');
  await othersAreUnharmed();
});

test('a slow request is cut', async () => {
  const slow = await raw('GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n');
  slow.resume();
  const drip = setInterval(() => slow.write('X: y\r\n'), 500);
  await new Promise<void>(resolve => slow.once('close', () => resolve()));
  clearInterval(drip);
  await othersAreUnharmed();
});

test('clients that never read their responses hold bounded memory', async () => {
  const { body } = await ask(gateway, '/api/v1/clusters');
  assert.ok(body.length > 1_000_000, `${body.length}`);
  const before = await residentMiB();
  // Each requests much more than the kernel buffers, repeatedly.
  const request = 'GET /api/v1/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n';
  using deaf = await raws(200, request);
  const asked = (): number => ((deaf.sockets.length * body.length) / 2 ** 20) * rounds;
  let rounds = 1;
  const probe = async () => assert.equal((await ask(gateway, '/healthz')).status, 200);
  for (; asked() < 1500; rounds++) {
    for (const socket of deaf.sockets) socket.write(request);
    await probe();
  }
  // Everything is answered, refused or cut; then the API answers again.
  await until('room again', async () => {
    await probe();
    for (const socket of deaf.sockets) socket.destroy();
    return (await ask(gateway, '/api/v1/status')).status === 200;
  });
  const grown = (await residentMiB()) - before;
  assert.ok(grown < 400, `grew by ${grown} MiB, asked for ${asked()} MiB`);
  await othersAreUnharmed();
});

test('a huge head: 431', async () => {
  const big = await raw(`GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Big: ${'x'.repeat(100_000)}\r\n\r\n`);
  const [answer] = await once(big.resume(), 'data');
  assert.match(String(answer), /^HTTP\/1\.1 431 /);
  await othersAreUnharmed();
});

test('a huge body is refused, with or without Content-Length', async () => {
  const { status, json } = await ask(gateway, '/api/v1/connections/0-0-0-0', {
    method: 'DELETE',
    headers: { ...changing, 'Content-Length': '10000000000' },
    body: 'x',
  });
  assert.equal(status, 413);
  assert.match(json.error, /65536 bytes/);
  const endless = await raw(
    'DELETE /api/v1/connections/0-0-0-0 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  endless.resume();
  const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
  const closed = new Promise<void>(resolve => endless.once('close', () => resolve()));
  let sent = 0;
  const send = () => {
    for (; !endless.destroyed && endless.writableLength < 1_000_000; sent += 0x10000) endless.write(chunk);
  };
  endless.on('drain', send);
  send();
  await closed;
  await othersAreUnharmed();
});

test('expensive requests are answered one at a time, and the surplus is refused', async () => {
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => ask(gateway, '/api/v1/connections?limit=10000')),
  );
  const served = answers.filter(({ status }) => status === 200).length;
  assert.ok(served >= 64, `${served}`);
  assert.equal(answers.filter(({ status }) => status === 503).length, answers.length - served);
  await othersAreUnharmed();
});
