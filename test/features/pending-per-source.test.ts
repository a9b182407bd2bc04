// `limits.pendingPerSource`: silent connections of one address do not shut others out; balancers are not
// counted, clients behind them are; and a place is released however a connection is routed or ends.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { connect as tlsConnect } from 'node:tls';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import {
  Backend,
  bytes,
  type ClientOptions,
  connectClient,
  hello,
  lineOf,
  type Peer,
  proxyV2,
  servedBy,
  until,
  visit,
} from './given.ts';
import { HttpClient } from './http-given.ts';

const BALANCER = '127.0.0.10';
/** The default: a tenth of `pending`. */
const SHARE = 3;
/** Long enough for any machine. */
const PATIENT = 'hello: 5m';

const stack = new AsyncDisposableStack();
let backend: Backend;
let gateway: Causeway;

async function start({ timeouts = PATIENT, limits = 'pending: 30', more = '' } = {}): Promise<Causeway> {
  return startCauseway({
    config: `
listen: [{ on: "127.0.0.1:0", balancers: [${BALANCER}/32], agents: [127.0.0.0/8] }]
workers: 2
timeouts: { ${timeouts} }
limits: { ${limits} }
${more}
clusters:
  - { name: a, id: a-1, api: { hosts: [a.test], backends: ["${backend.text}"] }, apps: { hosts: [web.test], http: redirect } }
`,
  });
}

before(async () => {
  backend = stack.use(await Backend.start({ name: 'backend' }));
  gateway = stack.use(await start());
});

after(() => stack.disposeAsync());

/** Silent connections that are still open after they and all earlier ones were handled. */
async function hold(at: Causeway, count: number, options: ClientOptions, says?: Uint8Array): Promise<Peer[]> {
  const held = await Promise.all(Array.from({ length: count }, () => connectClient(at.port, options)));
  if (says !== undefined) for (const client of held) client.send(says);
  return held;
}

/** Closed silently. */
async function overLimit(at: Causeway, client: Peer): Promise<void> {
  await client.untilEnd();
  assert.equal(client.received().length, 0);
  assert.equal((await lineOf(at, client)).reason, 'over-limit');
}

async function open(at: Causeway, count: number): Promise<void> {
  await until(`${count} open connections`, async () => {
    const { counts } = (await at.status()) as { counts: { connections: number } };
    return counts.connections === count;
  });
}

/** Asserts that exactly this many places are free. */
async function isFull(at: Causeway, from: string): Promise<void> {
  const held = await hold(at, SHARE, { from });
  await open(at, SHARE);
  for (const client of held) assert.equal(client.end(), undefined);
  using surplus = await connectClient(at.port, { from });
  await overLimit(at, surplus);
  for (const client of held) client[Symbol.dispose]();
  await open(at, 0);
}

test('an address at its limit of silent connections: its next one is closed, and others are accepted', async () => {
  const here = { from: '127.0.0.2' };
  const held = await hold(gateway, SHARE, here);
  await open(gateway, SHARE);
  for (let i = 0; i < 5; i++) {
    using surplus = await connectClient(gateway.port, here);
    await overLimit(gateway, surplus);
  }
  assert.equal(await servedBy(gateway.port, hello('a.test'), { from: '127.0.0.3' }), 'backend');
  // Routing one releases its place.
  held[0].send(hello('a.test'));
  await held[0].receives('backend\n');
  held.push(...(await hold(gateway, 1, here)));
  await open(gateway, SHARE + 1);
  using surplus = await connectClient(gateway.port, here);
  await overLimit(gateway, surplus);
  for (const client of held) client[Symbol.dispose]();
  await open(gateway, 0);
});

test('a flood of silent connections from one address does not exceed it, and others are served', async () => {
  const flood = await hold(gateway, 200, { from: '127.0.0.4' });
  await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      servedBy(gateway.port, hello('a.test'), { from: `127.0.1.${i + 1}` }),
    ),
  );
  await until(
    'the surplus to be closed',
    () => flood.filter(client => client.end() === undefined).length <= SHARE,
  );
  await open(gateway, SHARE);
  for (const client of flood) client[Symbol.dispose]();
  await open(gateway, 0);
});

test('a balancer is not counted; clients behind it are', async () => {
  const from = { from: BALANCER };
  const silent = await hold(gateway, 3 * SHARE, from);
  const local = await hold(gateway, 3 * SHARE, from, proxyV2({}));
  const near = await hold(gateway, SHARE, from, proxyV2({ source: '10.0.0.1' }));
  const far = await hold(gateway, SHARE, from, proxyV2({ source: '10.0.0.2' }));
  await open(gateway, 8 * SHARE);
  await until('the headers to be read', async () => {
    const list = (await (await fetch(`${gateway.admin}/api/v1/connections`)).json()) as { client: string }[];
    return list.filter(({ client }) => client.startsWith('10.0.0.')).length === 2 * SHARE;
  });
  using surplus = await connectClient(gateway.port, from);
  surplus.send(proxyV2({ source: '10.0.0.1' }));
  await overLimit(gateway, surplus);
  for (const client of [...silent, ...local, ...near, ...far]) client[Symbol.dispose]();
  await open(gateway, 0);
});

describe('a place is released', () => {
  const from = '127.0.0.5';
  const ends: readonly (readonly [how: string, go: (at: Causeway) => Promise<unknown>])[] = [
    ['when it is routed', at => servedBy(at.port, hello('a.test'), { from })],
    ['when it is refused', at => visit(at.port, hello('nobody.test'), { from })],
    ['when it is not recognized', at => visit(at.port, '\0\x01', { from })],
    ['when its PROXY header is malformed', at => visit(at.port, 'PROXY TCP4 x\r\n', { from })],
    ['when an id is not known', at => visit(at.port, bytes(proxyV2({ id: 'x' }), hello('a.test')), { from })],
    ['when CONNECT is refused', at => visit(at.port, 'CONNECT nobody:1 HTTP/1.1\r\n\r\n', { from })],
    [
      'when it speaks HTTP',
      async at => {
        using client = await HttpClient.connect(at.port, { from });
        assert.equal((await client.get('web.test')).status, 308);
      },
    ],
    [
      'when the client leaves, with FIN or a reset',
      async at => {
        for (const leave of ['finish', 'reset'] as const) {
          using client = await connectClient(at.port, { from });
          client[leave]();
          await open(at, 0);
        }
      },
    ],
  ];
  for (const [how, go] of ends) {
    test(how, async () => {
      for (let i = 0; i < 2 * SHARE; i++) {
        await go(gateway);
        await open(gateway, 0);
      }
      await isFull(gateway, from);
    });
  }

  test('when its hello time-out expires', async () => {
    await using quick = await start({ timeouts: 'hello: 100ms' });
    for (let i = 0; i < 2 * SHARE; i++) assert.equal((await visit(quick.port, '', { from })).end, 'FIN');
    await open(quick, 0);
    assert.equal(await servedBy(quick.port, hello('a.test'), { from }), 'backend');
  });
});

test('off: one address may take all places', async () => {
  await using all = await start({ limits: 'pending: 30, pendingPerSource: off' });
  const held = await hold(all, 30, { from: '127.0.0.6' });
  await open(all, 30);
  for (const client of held) client[Symbol.dispose]();
});

test('silent connections inside an agent’s tunnel count for their source', {
  skip: missingPrograms('openssl'),
}, async () => {
  await using dir = await tempDir();
  await writeFile(dir.file('secret'), 'a secret for tests, of at least 32 bytes\n');
  const { certFile, keyFile } = await certificateFor('t.test');
  const ca = await readFile((await authority()).certFile);
  await using tunnels = await start({
    more: `identity: { secretFile: ${dir.file('secret')} }
tunnel: { hosts: [t.test], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }`,
  });
  const enter = (localAddress: string) => {
    const place = { host: '127.0.0.1', port: tunnels.port, servername: 't.test', localAddress };
    return tlsConnect({ ...place, ca, ALPNProtocols: ['causeway/1'] }).on('error', () => {});
  };
  const held = Array.from({ length: SHARE }, () => enter('127.0.0.7'));
  // A tunnel is two connections.
  await open(tunnels, 2 * SHARE);
  const surplus = enter('127.0.0.7').resume();
  await tunnels.line(line => line.reason === 'over-limit' && String(line.client).startsWith('127.0.0.7:'));
  held.push(surplus, enter('127.0.0.8'));
  await open(tunnels, 2 * SHARE + 2);
  assert.equal(await servedBy(tunnels.port, hello('a.test'), { from: '127.0.0.9' }), 'backend');
  for (const socket of held) socket.destroy();
  await open(tunnels, 0);
});
