// Limits of the gateway and of a cluster, counted over two workers: a connection over the limit is refused, no other is
// affected, and places are released.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import {
  alert,
  Backend,
  bytes,
  type ClientOptions,
  connectClient,
  hello,
  lineOf,
  type Peer,
  proxyV2,
  until,
} from './given.ts';

const BALANCER = '127.0.0.10';

let connectionsLimited: Causeway;
let pendingLimited: Causeway;
let sourceLimited: Causeway;
let unlimited: Causeway;
const stack = new AsyncDisposableStack();

before(async () => {
  const backends = `backends: ["${stack.use(await Backend.start({ name: 'backend' })).text}"]`;
  const start = async (limits: string) =>
    stack.use(
      await startCauseway({
        config: `
listen: [{ on: "127.0.0.1:0", balancers: [${BALANCER}/32] }]
workers: 2
limits: { ${limits} }
clusters:
  - { name: open, api: { hosts: [open.test], ${backends} } }
  - { name: few, limits: { connections: 3 }, api: { hosts: [few.test], ${backends} } }
  - { name: rude, limits: { connections: 3 }, api: { hosts: [rude.test], ${backends} } }
  - { name: fair, limits: { perSource: 2 }, api: { hosts: [fair.test], ${backends} } }
  - { name: slow, limits: { newPerSecond: 3 }, api: { hosts: [slow.test], ${backends} } }
`,
      }),
    );
  [connectionsLimited, pendingLimited, sourceLimited, unlimited] = await Promise.all(
    ['connections: 4', 'pending: 3, pendingPerSource: off', 'perSource: 2', ''].map(start),
  );
});

after(() => stack.disposeAsync());

/** Sends that, and holds the connection once it is served. */
async function hold(gateway: Causeway, says: Uint8Array, options?: ClientOptions): Promise<Peer> {
  const client = await connectClient(gateway.port, options);
  client.send(says);
  await client.receives('backend\n');
  return client;
}

/** Resolves when its place is free: HAProxy logs the end of a connection a moment before. */
async function leave(gateway: Causeway, client: Peer): Promise<void> {
  const before = await openConnections(gateway);
  client.finish();
  assert.equal((await lineOf(gateway, client)).reason, 'done');
  client[Symbol.dispose]();
  await until('its place to be free', async () => (await openConnections(gateway)) < before);
}

async function openConnections(gateway: Causeway): Promise<number> {
  const { counts } = (await gateway.status()) as { counts: { connections: number } };
  return counts.connections;
}

/** Refused with alert 80. */
async function refused(gateway: Causeway, says: Uint8Array, options?: ClientOptions): Promise<void> {
  using client = await connectClient(gateway.port, options);
  client.send(says);
  assert.equal(await client.untilEnd(), 'FIN');
  assert.deepEqual(client.received(), alert(80));
  assert.equal((await lineOf(gateway, client)).reason, 'over-limit');
}

/** Closed silently, before it has sent a byte. */
async function closedAtOnce(gateway: Causeway, options?: ClientOptions): Promise<void> {
  using client = await connectClient(gateway.port, options);
  await client.untilEnd();
  assert.equal(client.received().length, 0);
  const { reason, protocol, cluster } = await lineOf(gateway, client);
  assert.deepEqual([reason, protocol, cluster], ['over-limit', null, null]);
}

async function open(gateway: Causeway, count: number): Promise<void> {
  await until(`${count} open connections`, async () => (await openConnections(gateway)) === count);
}

describe('limits of the gateway', () => {
  test('connections: the next one is closed at once, and a place is released', async () => {
    const gateway = connectionsLimited;
    const held: Peer[] = [];
    for (let i = 0; i < 4; i++) held.push(await hold(gateway, hello('open.test')));
    for (let i = 0; i < 3; i++) await closedAtOnce(gateway);
    await leave(gateway, held[0]);
    held[0] = await hold(gateway, hello('open.test'));
    await closedAtOnce(gateway);
    for (const client of held) await leave(gateway, client);
    await open(gateway, 0);
  });

  test('connections: a burst does not exceed the limit, and leaks no place', async () => {
    const gateway = connectionsLimited;
    const burst = Array.from({ length: 24 }, async () => {
      const client = await connectClient(gateway.port);
      client.send(hello('open.test'));
      await client.receivesOrEnds(1);
      return client;
    });
    const clients = await Promise.all(burst);
    const served = clients.filter(client => client.received().length > 0);
    assert.ok(served.length <= 4, `${served.length} were served`);
    for (const client of clients) client[Symbol.dispose]();
    await open(gateway, 0);
    for (const client of await several(4, () => hold(gateway, hello('open.test'))))
      await leave(gateway, client);
  });

  if (supports('pendingLimits'))
    test('pending: counts connections that are not routed yet', async () => {
      const gateway = pendingLimited;
      const silent = await several(3, () => connectClient(gateway.port));
      await open(gateway, 3);
      await closedAtOnce(gateway);
      silent[0].send(hello('open.test'));
      await silent[0].receives('backend\n');
      silent.push(await connectClient(gateway.port));
      await open(gateway, 4);
      await closedAtOnce(gateway);
      for (const client of silent.slice(1)) {
        client.send(hello('open.test'));
        await client.receives('backend\n');
      }
      for (const client of silent) await leave(gateway, client);
    });

  test('perSource: the next one from that source gets alert 80, and others are served', async () => {
    const [here, there] = [{ from: '127.0.0.2' }, { from: '127.0.0.3' }];
    await twoPerSource(sourceLimited, 'open.test', here, there);
  });

  test('perSource: a flood from that source is closed at once', async () => {
    const gateway = sourceLimited;
    const here = { from: '127.0.0.4' };
    const silent = await several(4, () => connectClient(gateway.port, here));
    await open(gateway, 4);
    await closedAtOnce(gateway, here);
    for (const client of silent) client[Symbol.dispose]();
    await open(gateway, 0);
    await leave(gateway, await hold(gateway, hello('open.test'), here));
  });

  test('perSource: counts the client behind a balancer', async () => {
    const gateway = sourceLimited;
    const from = { from: BALANCER };
    const near = bytes(proxyV2({ source: '10.0.0.1' }), hello('open.test'));
    const far = bytes(proxyV2({ source: '10.0.0.2' }), hello('open.test'));
    const held = await several(2, () => hold(gateway, near, from));
    await refused(gateway, near, from);
    held.push(...(await several(2, () => hold(gateway, far, from))));
    await refused(gateway, far, from);
    for (const client of held) await leave(gateway, client);
  });
});

describe('limits of a cluster', { concurrency: true }, () => {
  test('connections: the next one gets alert 80, other clusters are served, and a place is released', async () => {
    const held = await several(3, () => hold(unlimited, hello('few.test')));
    for (let i = 0; i < 10; i++) await refused(unlimited, hello('few.test'));
    await leave(unlimited, await hold(unlimited, hello('open.test')));
    await leave(unlimited, held[0]);
    held[0] = await hold(unlimited, hello('few.test'));
    await refused(unlimited, hello('few.test'));
    for (const client of held) await leave(unlimited, client);
  });

  test('connections: a reset releases the place too', async () => {
    for (let i = 0; i < 5; i++) {
      const held = await several(3, () => hold(unlimited, hello('rude.test')));
      for (const client of held) client.reset();
      for (const client of held) assert.equal((await lineOf(unlimited, client)).reason, 'client-reset');
    }
  });

  test('perSource: the next one from that source gets alert 80, and others are served', async () => {
    const [here, there] = [{ from: '127.0.0.2' }, { from: '127.0.0.3' }];
    await twoPerSource(unlimited, 'fair.test', here, there);
    using _elsewhere = await hold(unlimited, hello('open.test'), here);
  });

  test('newPerSecond: a burst of the size of the rate, then the rate', async () => {
    const rate = 3;
    const ask = async () => {
      using client = await connectClient(unlimited.port);
      client.send(hello('slow.test'));
      return (await client.receives(7)).subarray(0, 7);
    };
    const start = performance.now();
    const answers = await several(12, ask);
    const seconds = (performance.now() - start) / 1000;
    const served = answers.filter(answer => answer.toString() === 'backend').length;
    assert.ok(
      served >= rate && served <= rate + Math.ceil(seconds * rate),
      `${served} served in ${seconds} s`,
    );
    assert.equal(answers.filter(answer => answer.equals(alert(80))).length, answers.length - served);
    await until('a token', async () => (await ask()).toString() === 'backend');
  });
});

/** Two connections from each source. */
async function twoPerSource(
  gateway: Causeway,
  host: string,
  here: ClientOptions,
  there: ClientOptions,
): Promise<void> {
  const held = await several(2, () => hold(gateway, hello(host), here));
  for (let i = 0; i < 3; i++) await refused(gateway, hello(host), here);
  held.push(await hold(gateway, hello(host), there));
  await leave(gateway, held[0]);
  held[0] = await hold(gateway, hello(host), here);
  await refused(gateway, hello(host), here);
  for (const client of held) await leave(gateway, client);
}

function several<T>(count: number, each: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, each));
}
