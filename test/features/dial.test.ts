// Which backend is dialled, in which order and with which deadlines, and the PROXY header that it gets.

import assert from 'node:assert/strict';
import { lookup } from 'node:dns/promises';
import { after, before, describe, test } from 'node:test';
import { freePort } from '../../testbed/free-port.ts';
import { run } from '../../testbed/run.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import {
  Backend,
  bytes,
  connectClient,
  dialAlert,
  hello,
  lineOf,
  type Peer,
  proxyV2,
  servedBy,
  startBlackHole,
  until,
  visit,
} from './given.ts';

/** Deadline of each attempt; all together have three times as long. */
const CONNECT_MS = 500;

/** Some machines have no name with two addresses. */
const bothFamilies = (await lookup('localhost', { all: true })).some(({ family }) => family === 6);

let gateway: Causeway;
/** It retries for longer than any machine takes to start a backend. */
let patient: Causeway;
let a: Backend;
let b: Backend;
let c: Backend;
let raw: Backend;
let comesLater: number;
let config: (sticky: readonly Backend[]) => string;
const stack = new AsyncDisposableStack();

before(async () => {
  [a, b, c] = await Promise.all(['a', 'b', 'c'].map(async name => stack.use(await Backend.start({ name }))));
  raw = stack.use(await Backend.start());
  const v6 = stack.use(await Backend.start({ name: 'v6', on: { host: '::1' } }));
  const hole = stack.use(await startBlackHole());
  const closed = await Promise.all(Array.from({ length: 4 }, async () => `127.0.0.1:${await freePort()}`));
  comesLater = await freePort();
  const abc = pool(a, b, c);
  config = sticky => `
listen:
  - { on: "127.0.0.1:0", balancers: [127.0.0.8/32], agents: [127.0.0.0/8] }
  - { on: "[::1]:0" }
  - { on: ":0" }
timeouts: { connect: ${CONNECT_MS}ms }
retries: 3
workers: 2
clusters:
  - { name: next, api: { hosts: [next.test], balance: round-robin, backends: ["${closed[0]}", "${a.text}"] } }
  - name: last
    api: { hosts: [last.test], balance: round-robin, backends: ["${closed.join('", "')}", "${a.text}"] }
  - { name: hole, api: { hosts: [hole.test], backends: ["127.0.0.1:${hole.port}"] } }
  - { name: gone-closes, api: { hosts: [gone-closes.test], backends: ["127.0.0.1:${hole.port}"] } }
  - { name: gone-resets, api: { hosts: [gone-resets.test], backends: ["127.0.0.1:${hole.port}"] } }
  - name: half-raw
    api: { hosts: [half-raw.test], balance: round-robin, backends: ["127.0.0.1:${hole.port}", "${raw.text}"] }
  - name: half-hole
    api: { hosts: [half-hole.test], balance: round-robin, backends: ["127.0.0.1:${hole.port}", "${a.text}"] }
  - { name: literal-v6, api: { hosts: [literal-v6.test], backends: ["${v6.text}"] } }
  - { name: named, api: { hosts: [named.test], backends: ["localhost:${a.port}"] } }
  - { name: named-v6, api: { hosts: [named-v6.test], backends: ["localhost:${v6.port}"] } }
  - name: half-named
    api: { hosts: [half-named.test], balance: round-robin, backends: ["nowhere.invalid:443", "${a.text}"] }
  - { name: sticky, api: { hosts: [sticky.test], balance: source, backends: ${pool(...sticky)} } }
  - { name: hosts, routes: { web: { hosts: ["*.hosts.test"], balance: host, backends: ${abc} } } }
  - { name: turns, api: { hosts: [turns.test], balance: round-robin, backends: ${abc} } }
  - { name: least, api: { hosts: [least.test], balance: least-connections, backends: ${abc} } }
  - { name: random, api: { hosts: [random.test], balance: random, backends: ${abc} } }
  - { name: v1, api: { hosts: [v1.test], proxyProtocol: v1, backends: ["${raw.text}"] } }
  - { name: v2, api: { hosts: [v2.test], proxyProtocol: v2, backends: ["${raw.text}"] } }
`;
  gateway = stack.use(await startCauseway({ config: config([a, b, c]) }));
  patient = stack.use(
    await startCauseway({
      config: `
listen: ["127.0.0.1:0"]
timeouts: { connect: 10s }
retries: 100
clusters: [{ name: later, api: { hosts: [later.test], backends: ["127.0.0.1:${comesLater}"] } }]
`,
    }),
  );
});

after(() => stack.disposeAsync());

function pool(...backends: readonly Backend[]): string {
  return JSON.stringify(backends.map(backend => backend.text));
}

describe('attempts', { concurrency: true }, () => {
  test('the next backend is tried when one refuses, unseen by the client', async () => {
    for (let turn = 0; turn < 2; turn++) assert.equal(await servedBy(gateway.port, hello('next.test')), 'a');
  });

  test('there are 1 + retries of them', async () => {
    // Round-robin: the first connection starts at the first backend, and its four attempts do not reach the fifth.
    const { received, address, since } = await visit(gateway.port, hello('last.test'));
    assert.deepEqual(received, dialAlert());
    assert.equal((await lineOf(gateway, { address, since })).reason, 'connect-failed');
    assert.equal(await servedBy(gateway.port, hello('last.test')), 'a');
  });

  test('the list is tried again after a back-off of 250 ms', async () => {
    using client = await connectClient(patient.port);
    client.send(hello('later.test'));
    await until('the first attempt', () =>
      patient.metric('causeway_connections_active', { cluster: 'later' }),
    );
    await using _late = await Backend.start({ name: 'late', on: { port: comesLater } });
    await client.receives('late\n');
    client.finish();
    const { dialMs } = (await lineOf(patient, client)) as unknown as { dialMs: number };
    if (supports('dialTimeOfRetries')) assert.ok(dialMs >= 250, `dialled for ${dialMs} ms`);
  });

  test('each has a deadline, then the next backend is tried', async () => {
    using client = await connectClient(gateway.port);
    client.send(hello('half-hole.test'));
    await client.receives('a\n');
    client.finish();
    const { dialMs } = (await lineOf(gateway, client)) as unknown as { dialMs: number };
    if (supports('dialTimeOfRetries')) assert.ok(dialMs >= CONNECT_MS, `dialled for ${dialMs} ms`);
  });

  test('all together have three times that', async () => {
    const { received, address, since } = await visit(gateway.port, hello('hole.test'));
    assert.deepEqual(received, dialAlert());
    const line = (await lineOf(gateway, { address, since })) as unknown as {
      ms: number;
      dialMs: null;
      reason: string;
    };
    assert.equal(line.reason, 'connect-timeout');
    assert.equal(line.dialMs, null);
    assert.ok(line.ms >= 3 * CONNECT_MS, `gave up after ${line.ms} ms`);
  });

  for (const [how, leave] of [
    ['closes', (client: Peer) => client.finish()],
    ['resets', (client: Peer) => client.reset()],
  ] as const) {
    test(`a client that ${how} meanwhile is client-gone`, async () => {
      using client = await connectClient(gateway.port);
      client.send(hello(`gone-${how}.test`));
      const labels = { cluster: `gone-${how}` };
      await until('the attempt', () => gateway.metric('causeway_connections_active', labels));
      leave(client);
      const { reason, cluster, dialMs } = await lineOf(gateway, client);
      assert.deepEqual([reason, cluster, dialMs], ['client-gone', `gone-${how}`, null]);
    });
  }

  test('bytes that the client sends meanwhile arrive in order, even more than the buffer holds', async () => {
    using client = await connectClient(gateway.port);
    const parts = Array.from({ length: 400 }, (_, i) => `part ${i} `.repeat(40));
    client.send(hello('half-raw.test'));
    for (const part of parts) client.send(part);
    const all = bytes(hello('half-raw.test'), ...parts);
    const served = await raw.accepted();
    assert.ok((await served.receives(all.length)).equals(all));
  });
});

describe('addresses', { concurrency: true }, () => {
  test('an IPv6 literal', async () => {
    assert.equal(await servedBy(gateway.port, hello('literal-v6.test')), 'v6');
  });

  test('a name is one backend, labelled as written', async () => {
    using client = await connectClient(gateway.port);
    client.send(hello('named.test'));
    await client.receives('a\n');
    client.finish();
    assert.equal((await lineOf(gateway, client)).backend, `localhost:${a.port}`);
  });

  if (bothFamilies) {
    test('both families of a name are tried', async () => {
      // Nothing listens on that port of one of them.
      assert.equal(await servedBy(gateway.port, hello('named.test')), 'a');
      assert.equal(await servedBy(gateway.port, hello('named-v6.test')), 'v6');
    });
  }

  test('a name that does not resolve is skipped', async () => {
    for (let turn = 0; turn < 2; turn++)
      assert.equal(await servedBy(gateway.port, hello('half-named.test')), 'a');
  });
});

test('round-robin is shared by all workers', async () => {
  const names = await inTurn(9, () => servedBy(gateway.port, hello('turns.test')));
  assert.deepEqual(names, ['a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c']);
});

test('host: one backend per host for all clients, and hosts are spread', async () => {
  const hosts = Array.from({ length: 20 }, (_, i) => `h${i}.hosts.test`);
  const first = await inTurn(20, i => servedBy(gateway.port, hello(hosts[i]), { from: '127.0.1.1' }));
  const again = await inTurn(20, i =>
    servedBy(gateway.port, hello(hosts[i].toUpperCase()), { from: '127.0.2.2' }),
  );
  assert.deepEqual(again, first);
  assert.deepEqual(new Set(first), new Set(['a', 'b', 'c']));
});

test('random uses all of them', async () => {
  const names = await inTurn(60, () => servedBy(gateway.port, hello('random.test')));
  assert.deepEqual(new Set(names), new Set(['a', 'b', 'c']));
});

test('least-connections: connections are spread evenly, and the backend with the fewest is next', async () => {
  await using open = new AsyncDisposableStack();
  const hold = async () => {
    const client = await connectClient(gateway.port);
    open.adopt(client, held => held[Symbol.dispose]());
    client.send(hello('least.test'));
    return { client, name: (await client.receives('\n')).toString().trim() };
  };
  const held = await inTurn(6, hold);
  assert.deepEqual(held.map(({ name }) => name).toSorted(), ['a', 'a', 'b', 'b', 'c', 'c']);
  for (const { client } of held.filter(({ name }) => name === 'b')) {
    client.finish();
    await lineOf(gateway, client);
  }
  assert.deepEqual(
    (await inTurn(2, hold)).map(({ name }) => name),
    ['b', 'b'],
  );
});

test('source: one backend per client, in other processes too; removing one moves only its clients', async () => {
  const clients = Array.from({ length: 24 }, (_, i) => `127.0.3.${i + 1}`);
  const ask = () =>
    inTurn(clients.length, i => servedBy(gateway.port, hello('sticky.test'), { from: clients[i] }));
  const first = await ask();
  assert.deepEqual(new Set(first), new Set(['a', 'b', 'c']));
  assert.deepEqual(await ask(), first);

  const args = ['explain', '-c', gateway.file, 'sticky.test', '--from', clients[0], '--json'];
  const { backend } = JSON.parse((await run(causewayBin, args)).stdout.toString()) as { backend: string };
  if (supports('hashOfExplain')) assert.equal(backend, { a, b, c }[first[0] as 'a'].text);

  await gateway.write(config([c, a]));
  await gateway.line(line => line.msg === 'applied');
  const without = await ask();
  clients.forEach((client, i) => {
    if (first[i] === 'b') assert.notEqual(without[i], 'b', client);
    else assert.equal(without[i], first[i], client);
  });
});

describe('the PROXY header to the backend', () => {
  const signature = '0d0a0d0a000d0a515549540a';
  const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');
  const port = (number: number) => number.toString(16).padStart(4, '0');
  const cases: readonly {
    readonly given: string;
    readonly on?: number;
    readonly to?: string;
    readonly from?: string;
    readonly says?: readonly Uint8Array[];
    /** From the ports of the client and the listener. */
    readonly v1: (client: number, listener: number) => string;
    readonly v2: (client: number, listener: number) => string;
  }[] = [
    {
      given: 'a client over IPv4',
      v1: (client, listener) => `PROXY TCP4 127.0.0.1 127.0.0.1 ${client} ${listener}\r\n`,
      v2: (client, listener) => `21 11 000c 7f000001 7f000001 ${port(client)} ${port(listener)}`,
    },
    {
      given: 'a client over IPv6',
      on: 1,
      to: '::1',
      v1: (client, listener) => `PROXY TCP6 ::1 ::1 ${client} ${listener}\r\n`,
      v2: (client, listener) =>
        `21 21 0024 ${'00'.repeat(15)}01 ${'00'.repeat(15)}01 ${port(client)} ${port(listener)}`,
    },
    {
      given: 'a client over IPv4 on a dual-stack listener',
      on: 2,
      from: '127.0.0.5',
      v1: (client, listener) => `PROXY TCP4 127.0.0.5 127.0.0.1 ${client} ${listener}\r\n`,
      v2: (client, listener) => `21 11 000c 7f000005 7f000001 ${port(client)} ${port(listener)}`,
    },
    {
      given: 'a client behind a balancer',
      from: '127.0.0.8',
      says: [proxyV2({ source: '10.1.2.3' })],
      v1: () => 'PROXY TCP4 10.1.2.3 172.20.0.1 40000 6443\r\n',
      v2: () => `21 11 000c 0a010203 ac140001 ${port(40000)} ${port(6443)}`,
    },
    {
      given: "an agent, not its client's origin",
      from: '127.0.0.5',
      says: [proxyV2({ source: '10.1.2.3' })],
      v1: (client, listener) => `PROXY TCP4 127.0.0.5 127.0.0.1 ${client} ${listener}\r\n`,
      v2: (client, listener) => `21 11 000c 7f000005 7f000001 ${port(client)} ${port(listener)}`,
    },
  ];
  for (const { given, on = 0, to = '127.0.0.1', from = '', says = [], v1, v2 } of cases) {
    for (const version of ['v1', 'v2'] as const) {
      test(`${version} describes ${given}`, async () => {
        const before = raw.connections.length;
        using client = await connectClient(gateway.ports[on], { to, ...(from !== '' && { from }) });
        client.send(...says, hello(`${version}.test`));
        const served = await raw.accepted(before);
        const { localPort = 0, remotePort = 0 } = client.socket;
        const header =
          version === 'v1' ? bytes(v1(localPort, remotePort)) : hex(signature + v2(localPort, remotePort));
        const all = bytes(header, hello(`${version}.test`));
        assert.deepEqual(await served.receives(all.length), all);
      });
    }
  }
});

/** Sequentially. */
async function inTurn<T>(count: number, each: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let index = 0; index < count; index++) results.push(await each(index));
  return results;
}
