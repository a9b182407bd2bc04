// Every reachable close reason: what the client sees, including alert bytes and FIN or RST, the single log
// line, and that the metrics count each connection exactly once.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { type CloseReason, closeReasons } from '../../src/gateway/close-reason.ts';
import { helloMessage, inRecords } from '../../src/wire/hello.samples.ts';
import { freePort } from '../../testbed/free-port.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { supports } from './engine.ts';
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

/** Not in `agents`, unlike 127.0.0.1. */
const STRANGER = '127.0.0.9';

/** A dial lasts until the client leaves. */
const PATIENT = 'connect: 1m';

let backend: Backend;
let silent: Backend;
let gateway: Causeway;
/** The same with long time-outs, for tests that a slow machine must not time out. */
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
${supports('signatures') ? `identity: { secretFile: ${secret} }` : ''}
clusters:
${supports('signatures') ? `  - { name: signed, id: id-3, identity: required, api: { backends: ["${backend.text}"] } }\n` : ''}  - { name: plain, id: id-1, api: { hosts: [plain.test], backends: ["${backend.text}"] } }
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

/** Asserts that the connection ended for that reason, with one log line. */
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
  readonly sends: string | Uint8Array;
  /** All bytes that it receives, or the status of an HTTP response. FIN follows. */
  readonly receives: Buffer | number;
  readonly from?: string;
}

const refusals: readonly Refusal[] = [
  { reason: 'not-recognized', when: 'it speaks nothing known', sends: '\0\x01\x02', receives: nothing },
  {
    reason: 'hello-timeout',
    when: 'its hello stops',
    sends: hello('plain.test').subarray(0, 20),
    receives: nothing,
  },
  { reason: 'hello-timeout', when: 'it sends nothing', sends: '', receives: nothing },
  { reason: 'hello-timeout', when: 'its HTTP head stops', sends: 'GET / HTTP/1.1\r\nHost', receives: 408 },
  { reason: 'hello-timeout', when: 'its CONNECT stops', sends: 'CONNECT plain HTTP/1.1\r\n', receives: 408 },
  { reason: 'bad-hello', when: 'its hello is broken', sends: brokenHello(), receives: alert(50) },
  { reason: 'no-sni', when: 'it names no host', sends: hello(''), receives: alert(112) },
  { reason: 'unknown-host', when: 'nobody has the host', sends: hello('nobody.test'), receives: alert(112) },
  { reason: 'unknown-host', when: 'nobody has the name', sends: connectTo('nobody.test'), receives: 404 },
  {
    reason: 'bad-proxy-header',
    when: 'it is malformed',
    sends: 'PROXY TCP4 nonsense\r\n',
    receives: nothing,
  },
  {
    reason: 'untrusted-agent',
    when: 'a stranger sends a header',
    sends: proxyV2({ id: 'id-1' }),
    from: STRANGER,
    receives: nothing,
  },
  {
    reason: 'untrusted-agent',
    when: 'a stranger sends CONNECT',
    sends: connectTo('plain'),
    from: STRANGER,
    receives: 403,
  },
  {
    reason: 'unknown-cluster',
    when: 'nobody has the id',
    sends: bytes(proxyV2({ id: 'id-2' }), hello('plain.test')),
    receives: alert(49),
  },
  {
    reason: 'unknown-cluster',
    when: 'no hello follows the id',
    sends: bytes(proxyV2({ id: 'id-2' }), 'GET / '),
    receives: nothing,
  },
  {
    reason: 'bad-signature',
    when: 'the id is not signed',
    sends: bytes(proxyV2({ id: 'id-3' }), hello('plain.test')),
    receives: alert(49),
  },
  {
    reason: 'bad-signature',
    when: 'no hello follows the id',
    sends: bytes(proxyV2({ id: 'id-3' }), 'GET / '),
    receives: nothing,
  },
  { reason: 'bad-signature', when: 'the name is not signed', sends: connectTo('signed'), receives: 403 },
  { reason: 'not-allowed', when: 'it is not in the list', sends: hello('denied.test'), receives: alert(49) },
  { reason: 'not-allowed', when: 'it is not in the list', sends: connectTo('denied'), receives: 403 },
  { reason: 'no-backend', when: 'the pool is empty', sends: hello('empty.test'), receives: alert(80) },
  { reason: 'no-backend', when: 'the pool is empty', sends: connectTo('empty'), receives: 503 },
  {
    reason: 'connect-failed',
    when: 'the backend refuses',
    sends: hello('refusing.test'),
    receives: alert(80),
  },
  { reason: 'connect-failed', when: 'the backend refuses', sends: connectTo('refusing'), receives: 502 },
  {
    reason: 'connect-timeout',
    when: 'the backend does not answer',
    sends: hello('swallowing.test'),
    receives: alert(80),
  },
  {
    reason: 'connect-timeout',
    when: 'the backend does not answer',
    sends: connectTo('swallowing'),
    receives: 504,
  },
  {
    reason: 'bad-request',
    when: 'its CONNECT is malformed',
    sends: 'CONNECT a b HTTP/1.1\r\n\r\n',
    receives: 400,
  },
  { reason: 'bad-request', when: 'its HTTP head is malformed', sends: 'GET / HTTP/1.1\n\n', receives: 400 },
];

function isSupported({ reason, sends }: Refusal): boolean {
  if (reason === 'bad-signature') return supports('signatures');
  if (reason === 'bad-hello') return supports('brokenHello');
  if (reason === 'hello-timeout' && String(sends).startsWith('GET')) return supports('timeoutSentence');
  return supports('connect') || !String(sends).startsWith('CONNECT');
}

function isAlerted(reason: CloseReason): boolean {
  return supports('dialAlerts') || !['connect-failed', 'connect-timeout'].includes(reason);
}

describe('a refused connection', { concurrency: true }, () => {
  for (const { reason, when, sends, receives, from } of refusals.filter(isSupported)) {
    const reported =
      typeof receives === 'number'
        ? `HTTP ${receives}`
        : receives.length === 0
          ? 'nothing'
          : `alert ${receives[6]}`;
    test(`${reason} when ${when}: ${reported}, then FIN`, async () => {
      using peer = await client(from === undefined ? {} : { from });
      if (sends.length > 0) peer.send(sends);
      assert.equal(await peer.untilEnd(), 'FIN');
      if (typeof receives === 'number') assertStatus(peer.received(), receives, reason);
      else assert.deepEqual(peer.received(), isAlerted(reason) ? receives : nothing);
      const line = await endedAs(reason, peer);
      assert.equal(line.in, sends.length);
      assert.equal(line.out, peer.received().length);
    });
  }
});

describe('an ended connection', { concurrency: true }, () => {
  test('done: FIN, when both sides have finished', async () => {
    using peer = await client();
    peer.send(hello('plain.test'));
    await peer.receives('backend\n');
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
    assert.equal(await peer.untilEnd(), supports('resets') ? 'RST' : 'FIN');
    await endedAs('backend-reset', peer);
  });

  test('idle-timeout: FIN to both', async () => {
    using peer = await client();
    const [, served] = await tunnel(peer, 'silent.test', 'to idle');
    const ends = await Promise.all([peer.untilEnd(), served.untilEnd()]);
    assert.deepEqual(ends, ['FIN', supports('resets') ? 'FIN' : 'RST']);
    await endedAs('idle-timeout', peer);
  });

  test('half-closed-timeout: FIN to the side that waits', async () => {
    using peer = await client();
    await tunnel(peer, 'silent.test', 'to half-close');
    peer.finish();
    assert.equal(await peer.untilEnd(), 'FIN');
    await endedAs(supports('halfClosedReason') ? 'half-closed-timeout' : 'idle-timeout', peer);
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
    for (const [sends, receives] of [
      [hello('full.test'), alert(80)] as const,
      ...(supports('connect') ? [[connectTo('full'), 503] as const] : []),
    ]) {
      using peer = await connectClient(patient.port);
      peer.send(sends);
      assert.equal(await peer.untilEnd(), 'FIN');
      if (typeof receives === 'number') assertStatus(peer.received(), receives, 'over-limit');
      else assert.deepEqual(peer.received(), receives);
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

if (supports('revoke'))
  test('revoked: RST to both, when the client is no longer allowed', async () => {
    using peer = await connectClient(patient.port);
    const [, served] = await tunnel(peer, 'narrow.test', 'to be revoked');
    await patient.write(config('10.0.0.0/8', PATIENT));
    assert.deepEqual(await Promise.all([peer.untilEnd(), served.untilEnd()]), ['RST', 'RST'] satisfies End[]);
    await endedAs('revoked', peer, patient);
  });

if (supports('threads'))
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
      await served.receives(hello('plain.test'));
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

/** Whether the engine can end a connection of this file so. */
const isPossible: Partial<Record<CloseReason, boolean>> = {
  'bad-hello': supports('brokenHello'),
  'bad-signature': supports('signatures'),
  'half-closed-timeout': supports('halfClosedReason'),
  revoked: supports('revoke'),
  fault: supports('threads'),
};

test('all reasons were seen', () => {
  assert.deepEqual(
    closeReasons.filter(reason => !seen.has(reason)),
    closeReasons.filter(reason => isPossible[reason] === false),
  );
});

/** A tunnel to the silent backend, whose connection is found by the client's first bytes. */
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

/** The extensions of the handshake message claim more bytes than there are. */
function brokenHello(): Uint8Array {
  const message = helloMessage({ extensions: [] });
  message[message.length - 1] = 9;
  return inRecords(message);
}
