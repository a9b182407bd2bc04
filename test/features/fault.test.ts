// One fault, one connection: an exception of our own code, anywhere on the path of a connection, resets that connection
// with the reason `fault` and logs the stack. The thread lives, other connections continue, and no count leaks.

import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { after, describe, test } from 'node:test';
import { type Causeway, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { FAULTY_BACKEND, FAULTY_PEER, faulty } from './fault-marks.ts';
import { Backend, connectClient, hello, lineOf, Peer, proxyV2, until } from './given.ts';
import { assertAlive } from './http-given.ts';

const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());

const backend = stack.use(await Backend.start({ silent: true }));

/** One connection per cluster: if a fault leaked its count, the next connection would be refused. */
const limits = 'limits: { connections: 1, perSource: 1 }';
const cluster = (name: string, more = '', limit = limits) =>
  `  - { name: ${name}, id: id-${name}, ${limit}, api: { hosts: [${name}.test, fault-${name}.test], backends: ["${backend.text}"]${more} } }`;

const config = (narrow = '127.0.0.0/8') => `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32, 127.0.0.66/32] }]
workers: 1
timeouts: { connect: 5s, halfClosed: 60s, drain: 100ms }
limits: { connections: 40, perSource: 20 }
clusters:
${cluster('plain')}
${cluster('read')}
${cluster('route')}
${cluster('admit', '', 'limits: { connections: 1, newPerSecond: 100 }')}
${cluster('localaddress', ', proxyProtocol: v2')}
${cluster('record')}
  - { name: narrow, ${limits}, allow: [${narrow}], api: { hosts: [narrow.test], backends: ["${backend.text}"] } }
  - { name: neighbour, api: { hosts: [neighbour.test], backends: ["${backend.text}"] } }
  - { name: connect, ${limits}, api: { hosts: [connect.test], backends: ["${FAULTY_BACKEND}:1"] } }
`;

const start = () => startCauseway({ config: config(), env: faulty });
const gateway = stack.use(await start());

/** Opened first, and used after each fault. */
const neighbour = await tunnel('neighbour.test');
// Including the connections to the admin listener that fetch() keeps.
await Promise.all([gateway.status(), gateway.metric('causeway_clusters')]);
const files = await openFiles(gateway);

/** A connection to that host, and the backend's side of it. */
async function tunnel(host: string, by: Causeway = gateway): Promise<{ client: Peer; served: Peer }> {
  const index = backend.connections.length;
  const client = await connectClient(by.port);
  client.send(hello(host));
  const served = await backend.accepted(index);
  await served.receives(hello(host));
  return { client, served };
}

async function openFiles({ program }: Causeway): Promise<number> {
  return (await readdir(`/proc/${program.pid}/fd`)).length;
}

function faultLines(by: Causeway): LogLine[] {
  return by.lines().filter(({ msg }) => msg === 'fault');
}

interface Expected {
  /** In the fault's log line, if known by then. */
  readonly client?: string | null;
  /** `fault`, unless it had already ended and only the refusal failed. */
  readonly reason?: string;
  /** The connection's own log line failed, or its peer is not known yet. */
  readonly isUnlogged?: boolean;
}

/** Asserts that the fault that `strike` causes is contained. `strike` returns the client. */
async function assertContained(strike: () => Promise<Peer>, expected: Expected = {}): Promise<void> {
  const { reason = 'fault', isUnlogged = false } = expected;
  const before = { lines: faultLines(gateway).length, count: await counted(reason) };
  using client = await strike();
  if (client.end() !== 'RST') assert.equal(await client.untilEnd(), 'RST');
  await until('a line for the fault', () => faultLines(gateway).length > before.lines);
  if (!isUnlogged) assert.equal((await lineOf(gateway, client)).reason, reason);
  const [line, ...more] = faultLines(gateway).slice(before.lines);
  assert.deepEqual(more, []);
  const { level, thread, client: named, suppressed, err } = line;
  assert.deepEqual([level, thread, suppressed], ['error', 'worker-0', 0]);
  assert.equal(named ?? null, expected.client === undefined ? client.address : expected.client);
  const { stack: trace } = err as { stack: string };
  assert.match(trace, /^Error: injected: .*\n\s+at .*fault-injection\.ts/s);
  assert.match(trace, /src\/gateway\//);
  assert.equal(await counted(reason), before.count + 1);
  await nothingLeft();
}

function counted(reason: string): Promise<number> {
  return gateway.metric('causeway_connections_total', { reason });
}

/** Asserts that the thread lives, the neighbour continues, and every count is released. */
async function nothingLeft(): Promise<void> {
  assertAlive(gateway);
  const { client, served } = neighbour;
  const said = served.received().length;
  client.send('ping');
  await served.receives(said + 4);
  const heard = client.received().length;
  served.send('pong');
  await client.receives(heard + 4);
  await until('the neighbour alone to be open', async () => {
    const { counts } = (await gateway.status()) as { counts: { connections: number } };
    return counts.connections === 1 && (await gateway.metric('causeway_connections_active')) === 1;
  });
  await until('its descriptors to be closed', async () => (await openFiles(gateway)) <= files);
}

/** A strike whose first bytes cause the fault. */
function saying(...said: readonly (string | Uint8Array)[]): () => Promise<Peer> {
  return async () => {
    const client = await connectClient(gateway.port);
    client.send(...said);
    return client;
  };
}

describe('a fault', () => {
  for (let round = 0; round < 2; round++) {
    test('at the accept', () =>
      // It may be reset before its `connect` event.
      assertContained(
        async () => new Peer(connect({ port: gateway.port, host: '127.0.0.1', localAddress: FAULTY_PEER })),
        { client: null, isUnlogged: true },
      ));
    test('in identify', () => assertContained(saying(hello('fault-read.test'))));
    test('in identify, after a PROXY header', () =>
      assertContained(saying(proxyV2({ source: '192.0.2.1', id: 'id-plain' }), hello('fault-read.test'))));
    test('in route', () => assertContained(saying(hello('fault-route.test'))));
    test('in admit', () => assertContained(saying(hello('admit.test'))));
    test('in dial, before the backend is connected', () => assertContained(saying(hello('connect.test'))));
    test('in dial, once it is connected', () => assertContained(saying(hello('fault-localaddress.test'))));
    test('in a CONNECT', () => assertContained(saying('CONNECT connect:443 HTTP/1.1\r\n\r\n')));
    test('in the refusal, which keeps its reason', () =>
      assertContained(saying(hello('fault-write.test')), { reason: 'unknown-host', client: null }));

    test('in the tunnel, at bytes of the client', () =>
      assertContained(async () => {
        const { client, served } = await tunnel('plain.test');
        client.send('before', '@@read@@');
        assert.equal(await served.untilEnd(), 'RST');
        return client;
      }));

    test('in the tunnel, at bytes of the backend', () =>
      assertContained(async () => {
        const { client, served } = await tunnel('plain.test');
        served.send('@@read@@');
        assert.equal(await served.untilEnd(), 'RST');
        return client;
      }));

    test('in the tunnel, at a write', () =>
      assertContained(async () => {
        const { client } = await tunnel('plain.test');
        client.send('@@written@@');
        return client;
      }));

    test('in the tunnel, at FIN', () =>
      assertContained(async () => {
        const { client, served } = await tunnel('plain.test');
        served.send('@@shutdown@@');
        await client.receives('@@shutdown@@');
        client.finish();
        return client;
      }));

    test('in a timer', () =>
      assertContained(async () => {
        const { client, served } = await tunnel('plain.test');
        // The timer of a tunnel fires a second after it began.
        served.send('@@keepalive@@');
        await client.receives('@@keepalive@@');
        return client;
      }));

    test('and another while it ends by the first', () =>
      assertContained(
        async () => {
          const { client } = await tunnel('fault-record.test');
          client.send('@@read@@');
          return client;
        },
        { isUnlogged: true },
      ));
  }
});

test('a fault while a connection ends leaves nothing behind, and the reason stays', async () => {
  const before = { lines: faultLines(gateway).length, done: await counted('done') };
  const { client, served } = await tunnel('fault-record.test');
  client.finish();
  served.finish();
  await client.untilEnd();
  await until('a line for the fault', () => faultLines(gateway).length > before.lines);
  assert.equal(await counted('done'), before.done + 1);
  client.socket.destroy();
  await nothingLeft();
});

test('a fault while the admin API or an edit ends a connection', async () => {
  for (const [host, end] of [
    ['plain.test', byPerson],
    ['narrow.test', byEdit],
  ] as const) {
    const before = { lines: faultLines(gateway).length, revoked: await counted('revoked') };
    const { client } = await tunnel(host);
    client.send('@@reset@@');
    await until('the mark', () => backend.connections.some(peer => peer.received().includes('@@reset@@')));
    await end();
    await until('a line for the fault', () => faultLines(gateway).length > before.lines);
    assert.equal(await counted('revoked'), before.revoked + 1);
    client.socket.destroy();
    await nothingLeft();
  }
});

async function byPerson(): Promise<void> {
  const list = (await (await fetch(`${gateway.admin}/api/v1/connections?cluster=plain`)).json()) as {
    id: string;
  }[];
  assert.equal(list.length, 1);
  const { status } = await fetch(`${gateway.admin}/api/v1/connections/${list[0].id}`, {
    method: 'DELETE',
    headers: { 'Content-Type': 'application/json' },
  });
  assert.equal(status, 204);
}

async function byEdit(): Promise<void> {
  await gateway.write(config('10.0.0.0/8'));
  await gateway.line(({ msg }) => msg === 'applied');
}

test('repeated faults do not flood the log, and each is counted', async () => {
  const before = { lines: faultLines(gateway).length, count: await counted('fault') };
  const strikes = 400;
  for (let strike = 0; strike < strikes; strike++) {
    using client = await connectClient(gateway.port);
    client.send(hello('fault-route.test'));
    assert.equal(await client.untilEnd(), 'RST');
  }
  await until('all to be counted', async () => (await counted('fault')) === before.count + strikes);
  const lines = faultLines(gateway).length - before.lines;
  assert.ok(lines > 0 && lines < strikes / 4, `${lines} lines`);
  await nothingLeft();
});

test('a fault while the drain ends open connections does not prevent the exit', async () => {
  await using other = await start();
  const { client } = await tunnel('plain.test', other);
  const beside = await tunnel('neighbour.test', other);
  client.send('@@close@@');
  await until('the mark', () => backend.connections.some(peer => peer.received().includes('@@close@@')));
  other.program.signal('SIGTERM');
  assert.equal(await beside.client.untilEnd(), 'FIN');
  assert.equal((await other.program.ended).code, 0);
  assert.equal(faultLines(other).length, 1);
  client.socket.destroy();
});
