// Limits of the gateway and of a cluster, counted over two workers: who is one too many hears so, nobody else is
// touched, and places come back.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
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

let backend: Backend;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ name: 'backend' }));
});

after(() => stack.disposeAsync());

function start(limits: string): Promise<Causeway> {
  return startCauseway({
    config: `
listen: [{ on: "127.0.0.1:0", balancers: [${BALANCER}/32] }]
workers: 2
limits: { ${limits} }
clusters:
  - { name: open, api: { hosts: [open.test], backends: ["${backend.text}"] } }
  - { name: few, limits: { connections: 3 }, api: { hosts: [few.test], backends: ["${backend.text}"] } }
  - { name: fair, limits: { perSource: 2 }, api: { hosts: [fair.test], backends: ["${backend.text}"] } }
  - { name: slow, limits: { newPerSecond: 3 }, api: { hosts: [slow.test], backends: ["${backend.text}"] } }
`,
  });
}

/** Says that, and holds the connection once it is served. */
async function hold(gateway: Causeway, says: Uint8Array, options?: ClientOptions): Promise<Peer> {
  const client = await connectClient(gateway.port, options);
  client.send(says);
  await client.hears('backend\n');
  return client;
}

async function leave(gateway: Causeway, client: Peer): Promise<void> {
  client.finish();
  assert.equal((await lineOf(gateway, client)).reason, 'done');
  client[Symbol.dispose]();
}

/** Refused with alert 80. */
async function refused(gateway: Causeway, says: Uint8Array, options?: ClientOptions): Promise<void> {
  using client = await connectClient(gateway.port, options);
  client.send(says);
  assert.equal(await client.untilEnd(), 'FIN');
  assert.deepEqual(client.received(), alert(80));
  assert.equal((await lineOf(gateway, client)).reason, 'over-limit');
}

/** Closed without a word, before it has said one. */
async function closedAtOnce(gateway: Causeway, options?: ClientOptions): Promise<void> {
  using client = await connectClient(gateway.port, options);
  await client.untilEnd();
  assert.equal(client.received().length, 0);
  const { reason, protocol, cluster } = await lineOf(gateway, client);
  assert.deepEqual([reason, protocol, cluster], ['over-limit', null, null]);
}

async function open(gateway: Causeway, count: number): Promise<void> {
  await until(`${count} open connections`, async () => {
    const { counts } = (await gateway.status()) as { counts: { connections: number } };
    return counts.connections === count;
  });
}

describe('limits of the gateway', { concurrency: true }, () => {
  test('connections: the next one is closed at once, and a place comes back', async () => {
    await using gateway = await start('connections: 4');
    const held: Peer[] = [];
    for (let i = 0; i < 4; i++) held.push(await hold(gateway, hello('open.test')));
    for (let i = 0; i < 3; i++) await closedAtOnce(gateway);
    await leave(gateway, held[0]);
    held[0] = await hold(gateway, hello('open.test'));
    await closedAtOnce(gateway);
    for (const client of held) await leave(gateway, client);
    await open(gateway, 0);
  });

  test('connections: no more in a burst, and no place is lost', async () => {
    await using gateway = await start('connections: 4');
    const burst = Array.from({ length: 24 }, async () => {
      const client = await connectClient(gateway.port);
      client.send(hello('open.test'));
      await Promise.race([client.hears('backend\n'), client.untilEnd()]).catch(() => {});
      return client;
    });
    const clients = await Promise.all(burst);
    const served = clients.filter(client => client.received().includes('backend\n'));
    assert.ok(served.length <= 4, `${served.length} were served`);
    for (const client of clients) client[Symbol.dispose]();
    await open(gateway, 0);
    const held = await Promise.all(Array.from({ length: 4 }, () => hold(gateway, hello('open.test'))));
    for (const client of held) client[Symbol.dispose]();
  });

  test('pending: counts those that are not routed yet', async () => {
    await using gateway = await start('pending: 3');
    using first = await connectClient(gateway.port);
    using second = await connectClient(gateway.port);
    using third = await connectClient(gateway.port);
    await open(gateway, 3);
    await closedAtOnce(gateway);
    first.send(hello('open.test'));
    await first.hears('backend\n');
    using fourth = await connectClient(gateway.port);
    await open(gateway, 4);
    await closedAtOnce(gateway);
    for (const client of [second, third, fourth]) {
      client.send(hello('open.test'));
      await client.hears('backend\n');
    }
    await leave(gateway, await hold(gateway, hello('open.test')));
  });

  test('perSource: the next one from there gets alert 80, and others are served', async () => {
    await using gateway = await start('perSource: 2');
    const [here, there] = [{ from: '127.0.0.2' }, { from: '127.0.0.3' }];
    const first = await hold(gateway, hello('open.test'), here);
    using _second = await hold(gateway, hello('open.test'), here);
    for (let i = 0; i < 3; i++) await refused(gateway, hello('open.test'), here);
    using _other = await hold(gateway, hello('open.test'), there);
    await leave(gateway, first);
    using _again = await hold(gateway, hello('open.test'), here);
    await refused(gateway, hello('open.test'), here);
  });

  test('perSource: a flood from there is closed at once', async () => {
    await using gateway = await start('perSource: 2');
    const here = { from: '127.0.0.2' };
    const silent = await Promise.all(Array.from({ length: 4 }, () => connectClient(gateway.port, here)));
    await open(gateway, 4);
    await closedAtOnce(gateway, here);
    for (const client of silent) client[Symbol.dispose]();
    await open(gateway, 0);
    await leave(gateway, await hold(gateway, hello('open.test'), here));
  });

  test('perSource: counts the true client behind a balancer', async () => {
    await using gateway = await start('perSource: 2');
    const [near, far] = ['10.0.0.1', '10.0.0.2'].map(source =>
      bytes(proxyV2({ source }), hello('open.test')),
    );
    using _first = await hold(gateway, near, { from: BALANCER });
    using _second = await hold(gateway, near, { from: BALANCER });
    await refused(gateway, near, { from: BALANCER });
    using _third = await hold(gateway, far, { from: BALANCER });
    using _fourth = await hold(gateway, far, { from: BALANCER });
    await refused(gateway, far, { from: BALANCER });
  });
});

describe('limits of a cluster', { concurrency: true }, () => {
  let gateway: Causeway;
  before(async () => {
    gateway = stack.use(await start('perSource: off'));
  });

  test('connections: the next one gets alert 80, other clusters are served, and a place comes back', async () => {
    const held: Peer[] = [];
    for (let i = 0; i < 3; i++) held.push(await hold(gateway, hello('few.test')));
    for (let i = 0; i < 10; i++) await refused(gateway, hello('few.test'));
    await leave(gateway, await hold(gateway, hello('open.test')));
    await leave(gateway, held[0]);
    held[0] = await hold(gateway, hello('few.test'));
    await refused(gateway, hello('few.test'));
    for (const client of held) await leave(gateway, client);
  });

  test('connections: a reset gives the place back as well', async () => {
    // Its own gateway: the places of the shared one are in use by the test above.
    await using own = await start('perSource: off');
    for (let i = 0; i < 5; i++) {
      const held = await Promise.all(Array.from({ length: 3 }, () => hold(own, hello('few.test'))));
      for (const client of held) client.reset();
      for (const client of held) assert.equal((await lineOf(own, client)).reason, 'client-reset');
    }
  });

  test('perSource: the next one from there gets alert 80, and others are served', async () => {
    const [here, there] = [{ from: '127.0.0.2' }, { from: '127.0.0.3' }];
    const first = await hold(gateway, hello('fair.test'), here);
    using _second = await hold(gateway, hello('fair.test'), here);
    for (let i = 0; i < 3; i++) await refused(gateway, hello('fair.test'), here);
    using _other = await hold(gateway, hello('fair.test'), there);
    using _elsewhere = await hold(gateway, hello('open.test'), here);
    await leave(gateway, first);
    using _again = await hold(gateway, hello('fair.test'), here);
    await refused(gateway, hello('fair.test'), here);
  });

  test('newPerSecond: a burst as large as the rate, then the rate', async () => {
    const rate = 3;
    const start = performance.now();
    const answers = await Promise.all(
      Array.from({ length: 12 }, async () => {
        using client = await connectClient(gateway.port);
        client.send(hello('slow.test'));
        return client.hears(1);
      }),
    );
    const seconds = (performance.now() - start) / 1000;
    const served = answers.filter(answer => answer[0] === 'b'.charCodeAt(0)).length;
    assert.ok(
      served >= rate && served <= rate + Math.ceil(seconds * rate),
      `${served} served in ${seconds} s`,
    );
    for (const answer of answers) assert.ok(answer.toString() === 'backend\n' || answer.equals(alert(80)));

    await until('a token', async () => {
      using client = await connectClient(gateway.port);
      client.send(hello('slow.test'));
      return (await client.hears(1)).toString() === 'backend\n';
    });
  });
});
