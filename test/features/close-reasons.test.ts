// Every close reason that can be reached: what the client sees, alert bytes and FIN or RST included, the one log
// line, and that the metrics count each connection exactly once.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { type CloseReason, closeReasons } from '../../src/gateway/close-reason.ts';
import { helloMessage, inRecords } from '../../src/wire/hello.samples.ts';
import { freePort } from '../../testbed/free-port.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { faulty } from './fault-marks.ts';
import {
  alert,
  Backend,
  bytes,
  type ClientOptions,
  connectClient,
  type End,
  hello,
  lineOf,
  type Peer,
  proxyV2,
  startBlackHole,
  until,
} from './given.ts';

const seen = new Set<CloseReason>();

/** 127.0.0.1 is an agent, this is not. */
const STRANGER = '127.0.0.9';

/** A dial lasts until the client leaves. */
const PATIENT = 'connect: 1m';

let backend: Backend;
let silent: Backend;
let gateway: Causeway;
/** The same, for what must not run out of time meanwhile, however slow the machine is. */
let patient: Causeway;
let config: (narrow: string, timeouts?: string) => string;
let made = 0;
const stack = new AsyncDisposableStack();

before(async () => {
  backend = stack.use(await Backend.start({ name: 'backend' }));
  silent = stack.use(await Backend.start({ silent: true }));
  const hole = stack.use(await startBlackHole());
  const closed = await freePort();
  const secret = stack.use(await tempDir()).file('secret');
  await writeFile(secret, 'a secret for tests, of at least 32 bytes');
  config = (narrow, timeouts = 'hello: 500ms, connect: 200ms, idle: 1s, halfClosed: 300ms') => `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1/32] }]
timeouts: { ${timeouts} }
identity: { secretFile: ${secret} }
clusters:
  - { name: signed, id: id-3, identity: required, api: { backends: ["${backend.text}"] } }
  - { name: plain, id: id-1, api: { hosts: [plain.test], backends: ["${backend.text}"] } }
  - { name: silent, api: { hosts: [silent.test], backends: ["${silent.text}"] } }
  - { name: narrow, allow: [${narrow}], api: { hosts: [narrow.test], backends: ["${silent.text}"] } }
  - { name: denied, allow: [10.0.0.0/8], api: { hosts: [denied.test], backends: ["${backend.text}"] } }
  - { name: full, limits: { connections: 1 }, api: { hosts: [full.test], backends: ["${silent.text}"] } }
  - { name: empty, api: { hosts: [empty.test], backends: [] } }
  - { name: refusing, api: { hosts: [refusing.test], backends: ["127.0.0.1:${closed}"] } }
  - { name: swallowing, api: { hosts: [swallowing.test], backends: ["127.0.0.1:${hole.port}"] } }
`;
  gateway = stack.use(await startCauseway({ config: config('127.0.0.0/8') }));
  patient = stack.use(await startCauseway({ config: config('127.0.0.0/8', PATIENT) }));
});

after(() => stack.disposeAsync());

async function client(options?: ClientOptions): Promise<Peer> {
  made++;
  return connectClient(gateway.port, options);
}

/** The connection ended for that reason, and its one line says so. */
async function endedAs(reason: CloseReason, peer: Peer, by = gateway) {
  const line = await lineOf(by, peer);
  assert.equal(line.reason, reason);
  seen.add(reason);
  return line;
}

const nothing = Buffer.alloc(0);

function connectTo(name: string): string {
  return `CONNECT ${name}:443 HTTP/1.1\r\n\r\n`;
}

interface Refusal {
  readonly reason: CloseReason;
  readonly when: string;
  readonly says: string | Uint8Array;
  /** All bytes it hears, or the status of an HTTP answer. FIN follows. */
  readonly hears: Buffer | number;
  readonly from?: string;
}

const refusals: readonly Refusal[] = [
  { reason: 'not-recognized', when: 'it speaks nothing known', says: '\0\x01\x02', hears: nothing },
  {
    reason: 'hello-timeout',
    when: 'its hello stops',
    says: hello('plain.test').subarray(0, 20),
    hears: nothing,
  },
  { reason: 'hello-timeout', when: 'it says nothing', says: '', hears: nothing },
  { reason: 'hello-timeout', when: 'its HTTP head stops', says: 'GET / HTTP/1.1\r\nHost', hears: 408 },
  { reason: 'hello-timeout', when: 'its CONNECT stops', says: 'CONNECT plain HTTP/1.1\r\n', hears: 408 },
  { reason: 'bad-hello', when: 'its hello is broken', says: brokenHello(), hears: alert(50) },
  { reason: 'no-sni', when: 'it names no host', says: hello(''), hears: alert(112) },
  { reason: 'unknown-host', when: 'nobody has the host', says: hello('nobody.test'), hears: alert(112) },
  { reason: 'unknown-host', when: 'nobody has the name', says: connectTo('nobody.test'), hears: 404 },
  { reason: 'bad-proxy-header', when: 'it is malformed', says: 'PROXY TCP4 nonsense\r\n', hears: nothing },
  {
    reason: 'untrusted-agent',
    when: 'a stranger sends a header',
    says: proxyV2({ id: 'id-1' }),
    from: STRANGER,
    hears: nothing,
  },
  {
    reason: 'untrusted-agent',
    when: 'a stranger sends CONNECT',
    says: connectTo('plain'),
    from: STRANGER,
    hears: 403,
  },
  {
    reason: 'unknown-cluster',
    when: 'nobody has the id',
    says: bytes(proxyV2({ id: 'id-2' }), hello('plain.test')),
    hears: alert(49),
  },
  {
    reason: 'unknown-cluster',
    when: 'no hello follows the id',
    says: bytes(proxyV2({ id: 'id-2' }), 'GET / '),
    hears: nothing,
  },
  {
    reason: 'bad-signature',
    when: 'the id is not signed',
    says: bytes(proxyV2({ id: 'id-3' }), hello('plain.test')),
    hears: alert(49),
  },
  {
    reason: 'bad-signature',
    when: 'no hello follows the id',
    says: bytes(proxyV2({ id: 'id-3' }), 'GET / '),
    hears: nothing,
  },
  { reason: 'bad-signature', when: 'the name is not signed', says: connectTo('signed'), hears: 403 },
  { reason: 'not-allowed', when: 'it is not in the list', says: hello('denied.test'), hears: alert(49) },
  { reason: 'not-allowed', when: 'it is not in the list', says: connectTo('denied'), hears: 403 },
  { reason: 'no-backend', when: 'the pool is empty', says: hello('empty.test'), hears: alert(80) },
  { reason: 'no-backend', when: 'the pool is empty', says: connectTo('empty'), hears: 503 },
  { reason: 'connect-failed', when: 'the backend refuses', says: hello('refusing.test'), hears: alert(80) },
  { reason: 'connect-failed', when: 'the backend refuses', says: connectTo('refusing'), hears: 502 },
  {
    reason: 'connect-timeout',
    when: 'the backend does not answer',
    says: hello('swallowing.test'),
    hears: alert(80),
  },
  {
    reason: 'connect-timeout',
    when: 'the backend does not answer',
    says: connectTo('swallowing'),
    hears: 504,
  },
  {
    reason: 'bad-request',
    when: 'its CONNECT is malformed',
    says: 'CONNECT a b HTTP/1.1\r\n\r\n',
    hears: 400,
  },
  { reason: 'bad-request', when: 'its HTTP head is malformed', says: 'GET / HTTP/1.1\n\n', hears: 400 },
];

describe('a refused connection', { concurrency: true }, () => {
  for (const { reason, when, says, hears, from } of refusals) {
    const reported =
      typeof hears === 'number' ? `HTTP ${hears}` : hears.length === 0 ? 'nothing' : `alert ${hears[6]}`;
    test(`${reason} when ${when}: ${reported}, then FIN`, async () => {
      using peer = await client(from === undefined ? {} : { from });
      if (says.length > 0) peer.send(says);
      assert.equal(await peer.untilEnd(), 'FIN');
      if (typeof hears === 'number') assertStatus(peer.received(), hears, reason);
      else assert.deepEqual(peer.received(), hears);
      const line = await endedAs(reason, peer);
      assert.equal(line.in, says.length);
      assert.equal(line.out, peer.received().length);
    });
  }
});

describe('an ended connection', { concurrency: true }, () => {
  test('done: FIN, when both sides finished', async () => {
    using peer = await client();
    peer.send(hello('plain.test'));
    await peer.hears('backend\n');
    peer.finish();
    assert.equal(await peer.untilEnd(), 'FIN');
    await endedAs('done', peer);
  });

  test('client-reset: the reset reaches the backend', async () => {
    using peer = await client();
    const [, served] = await tunnel(peer, 'silent.test', 'to be reset');
    peer.reset();
    assert.equal(await served.untilEnd(), 'RST');
    await endedAs('client-reset', peer);
  });

  test('backend-reset: the reset reaches the client', async () => {
    using peer = await client();
    const [, served] = await tunnel(peer, 'silent.test', 'to reset');
    served.reset();
    assert.equal(await peer.untilEnd(), 'RST');
    await endedAs('backend-reset', peer);
  });

  test('idle-timeout: FIN to both', async () => {
    using peer = await client();
    const [, served] = await tunnel(peer, 'silent.test', 'to idle');
    assert.deepEqual(await Promise.all([peer.untilEnd(), served.untilEnd()]), ['FIN', 'FIN']);
    await endedAs('idle-timeout', peer);
  });

  test('half-closed-timeout: FIN to the side that waits', async () => {
    using peer = await client();
    await tunnel(peer, 'silent.test', 'to half-close');
    peer.finish();
    assert.equal(await peer.untilEnd(), 'FIN');
    await endedAs('half-closed-timeout', peer);
  });

  test('client-gone: the client leaves while the backend is dialled', async () => {
    using peer = await connectClient(patient.port);
    peer.send(hello('swallowing.test'));
    await until('the connection to be routed', () =>
      patient.metric('causeway_connections_active', { cluster: 'swallowing' }),
    );
    peer.finish();
    await endedAs('client-gone', peer, patient);
    assert.deepEqual(peer.received(), nothing);
  });

  test('over-limit: alert 80, CONNECT 503, then FIN', async () => {
    using first = await connectClient(patient.port);
    await tunnel(first, 'full.test', 'the only one');
    for (const [says, hears] of [
      [hello('full.test'), alert(80)],
      [connectTo('full'), 503],
    ] as const) {
      using peer = await connectClient(patient.port);
      peer.send(says);
      assert.equal(await peer.untilEnd(), 'FIN');
      if (typeof hears === 'number') assertStatus(peer.received(), hears, 'over-limit');
      else assert.deepEqual(peer.received(), hears);
      await endedAs('over-limit', peer, patient);
    }
    first.reset();
    await endedAs('client-reset', first, patient);
  });

  test('no-data: the client leaves without a byte, counted and not logged', async () => {
    using peer = await client();
    peer.finish();
    assert.equal(await peer.untilEnd(), 'FIN');
    await until('no-data', () => gateway.metric('causeway_connections_total', { reason: 'no-data' }));
    seen.add('no-data');
    assert.ok(!gateway.connections().some(line => line.reason === 'no-data' || line.peer === peer.address));
  });
});

test('revoked: RST to both, when the client is no longer allowed', async () => {
  using peer = await connectClient(patient.port);
  const [, served] = await tunnel(peer, 'narrow.test', 'to be revoked');
  await patient.write(config('10.0.0.0/8', PATIENT));
  assert.deepEqual(await Promise.all([peer.untilEnd(), served.untilEnd()]), ['RST', 'RST'] satisfies End[]);
  await endedAs('revoked', peer, patient);
});

test('fault: RST to both, when our own code throws', async () => {
  await using broken = await startCauseway({ config: config('127.0.0.0/8', PATIENT), env: faulty });
  using peer = await connectClient(broken.port);
  const [, served] = await tunnel(peer, 'silent.test', 'to fail');
  peer.send('@@read@@');
  assert.deepEqual(await Promise.all([peer.untilEnd(), served.untilEnd()]), ['RST', 'RST'] satisfies End[]);
  await endedAs('fault', peer, broken);
});

test('every connection is counted with exactly one reason', async () => {
  assert.equal(await gateway.metric('causeway_connections_total'), made);
  assert.equal(await gateway.metric('causeway_connections_active'), 0);
  for (const reason of seen) {
    const logged = gateway.connections().filter(line => line.reason === reason).length;
    const counted = await gateway.metric('causeway_connections_total', { reason });
    assert.equal(counted, reason === 'no-data' ? 1 : logged, reason);
  }
  const { counts } = (await gateway.status()) as { counts: { connections: number } };
  assert.equal(counts.connections, 0);
});

describe('at the end of the process', { concurrency: true }, () => {
  for (const [reason, signals] of [
    ['drained', 1],
    ['shutdown', 2],
  ] as const) {
    test(`${reason}: FIN to both after ${signals === 1 ? 'the drain time' : 'the second signal'}`, async () => {
      await using backend = await Backend.start({ name: 'backend', silent: true });
      await using gateway = await startCauseway({
        config: `
listen: ["127.0.0.1:0"]
timeouts: { drain: ${signals === 1 ? '100ms' : '10m'} }
clusters: [{ name: plain, api: { hosts: [plain.test], backends: ["${backend.text}"] } }]
`,
      });
      using peer = await connectClient(gateway.port);
      peer.send(hello('plain.test'));
      const served = await backend.accepted();
      await served.hears(hello('plain.test'));
      gateway.program.signal('SIGTERM');
      await gateway.line(line => line.msg === 'draining');
      if (signals === 2) gateway.program.signal('SIGTERM');
      assert.deepEqual(await Promise.all([peer.untilEnd(), served.untilEnd()]), ['FIN', 'FIN']);
      assert.equal((await gateway.program.ended).code, 0);
      const line = await lineOf(gateway, peer);
      assert.equal(line.reason, reason);
      seen.add(reason);
    });
  }
});

test('all reasons were seen', () => {
  assert.deepEqual(
    closeReasons.filter(reason => !seen.has(reason)),
    [],
  );
});

/** Served by the silent backend, which finds its connection by what the client says first. */
async function tunnel(peer: Peer, host: string, word: string): Promise<[Peer, Peer]> {
  peer.send(hello(host), word);
  const served = await until(`${word} at the backend`, () =>
    silent.connections.find(connection => connection.received().includes(word)),
  );
  return [peer, served];
}

function assertStatus(received: Buffer, status: number, reason: CloseReason): void {
  const [head, body] = received.toString('latin1').split('\r\n\r\n');
  assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `));
  assert.match(head, /^connection: close$/im);
  assert.match(head, new RegExp(`^content-length: ${body.length}$`, 'im'));
  assert.ok(body.startsWith(`${reason}: `), body);
}

/** The length of the handshake message's extensions is more than there is. */
function brokenHello(): Uint8Array {
  const message = helloMessage({ extensions: [] });
  message[message.length - 1] = 9;
  return inRecords(message);
}
