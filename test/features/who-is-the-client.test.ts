// The client's address and cluster: PROXY headers of balancers and agents, on one port with TLS. Loopback
// addresses stand for the parties, 10.x.x.x for clients that only appear in headers.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { supports } from './engine.ts';
import { alert, Backend, bytes, connectClient, hello, lineOf, proxyV2, servedBy } from './given.ts';

const BALANCER = '127.0.0.10';
const AGENT = '127.0.0.20';
/** In both lists. */
const BOTH = '127.0.0.30';
const STRANGER = '127.0.0.40';
/** Cases that another engine answers differently. */
const unlike = [
  ...(supports('alpnOfId') ? [] : ['an id, SNI and ALPN of that cluster']),
  ...(supports('connect') ? [] : ['an id, CONNECT to another']),
];
/** In `agents`. Never connects itself: it only appears in a balancer's header. */
const FAR_AGENT = '10.1.0.5';
/** The only client that the guarded cluster allows. */
const FRIEND = '10.9.9.9';

/** What a refused client receives; nothing if its protocol is unknown. */
const heard: Record<string, Buffer> = {
  'no-sni': alert(112),
  'not-allowed': alert(49),
  'unknown-cluster': alert(49),
};

interface Place {
  readonly port: number;
  readonly to: string;
}

let gateway: Causeway;
let usual: Place;
let alsoUniqueId: Place;
let dualStack: Place;
const stack = new AsyncDisposableStack();

before(async () => {
  const backend = async (name: string) => stack.use(await Backend.start({ name })).text;
  const parties = `balancers: [${BALANCER}/32, ${BOTH}/32], agents: [${AGENT}/32, ${BOTH}/32, 10.1.0.0/16]`;
  gateway = stack.use(
    await startCauseway({
      config: `
listen:
  - { on: "127.0.0.1:0", ${parties} }
  - { on: "127.0.0.2:0", ${parties}, idTlv: [0x20, 0x05] }
  - { on: ":0", ${parties} }
clusters:
  - name: one
    id: id-1
    api: { hosts: [api.one.test], backends: ["${await backend('one/api')}"] }
    konnectivity: { hosts: [konnectivity.one.test], backends: ["${await backend('one/konnectivity')}"] }
    routes:
      special: { hosts: [api.one.test], alpn: [my-proto], backends: ["${await backend('one/special')}"] }
  - { name: two, id: id-2, api: { hosts: [api.two.test], backends: ["${await backend('two/api')}"] } }
  - name: guarded
    id: id-3
    allow: [10.9.9.0/24]
    api: { hosts: [guarded.test], backends: ["${await backend('guarded/api')}"] }
`,
    }),
  );
  const [first, second, third] = gateway.ports;
  usual = { port: first, to: '127.0.0.1' };
  alsoUniqueId = { port: second, to: '127.0.0.2' };
  dualStack = { port: third, to: '127.0.0.1' };
});

after(() => stack.disposeAsync());

/** `then` is the serving backend's name or the close reason; `line` the fields of the log line. */
type Case = readonly [
  given: string,
  says: readonly (string | Uint8Array)[],
  then: string,
  line?: Record<string, unknown>,
];

const oneApi = hello('api.one.test');
const twoApi = hello('api.two.test');
const guarded = hello('guarded.test');
const noSni = hello('');
const friend = { client: `${FRIEND}:40000`, origin: null, clusterId: null };
const friendAsOrigin = { origin: `${FRIEND}:40000` };

cases('a balancer', BALANCER, () => usual, [
  ['PROXY v1', [v1(FRIEND), guarded], 'guarded/api', friend],
  ['PROXY v2', [v2(FRIEND), guarded], 'guarded/api', friend],
  ['PROXY v1, IPv6', [v1('2001:db8::7'), oneApi], 'one/api', { client: '[2001:db8::7]:40000' }],
  ['PROXY v2, IPv6', [v2('2001:db8::7'), oneApi], 'one/api', { client: '[2001:db8::7]:40000' }],
  ['IPv4 in IPv6 form', [v1(`::ffff:${FRIEND}`), guarded], 'guarded/api', friend],
  ['one who is not allowed', [v2('10.9.8.1'), guarded], 'not-allowed', { client: '10.9.8.1:40000' }],
  ['LOCAL: the peer itself', [proxyV2({}), oneApi], 'one/api'],
  ['UNKNOWN: the peer itself', ['PROXY UNKNOWN\r\n', oneApi], 'one/api'],
  ['no header: the peer itself', [oneApi], 'one/api'],
  ['an id, which is ignored', [proxyV2({ source: FRIEND, id: 'id-2' }), guarded], 'guarded/api', friend],
  ['the right CRC32C', [proxyV2({ source: FRIEND, crc32c: true }), guarded], 'guarded/api', friend],
  ['a wrong CRC32C', [wrongSum(proxyV2({ source: FRIEND, crc32c: true })), guarded], 'bad-proxy-header'],
  ["one who is no agent, and an agent's header", [v2(FRIEND), id('id-3'), noSni], 'untrusted-agent'],
]);

cases('an agent', AGENT, () => usual, [
  ['an id, no SNI', [id('id-2'), noSni], 'two/api', { clusterId: 'id-2', host: null }],
  ['an id, SNI of that cluster', [id('id-1'), hello('konnectivity.one.test')], 'one/konnectivity'],
  ['an id, SNI of another cluster', [id('id-1'), twoApi], 'one/api', { host: 'api.two.test' }],
  ['an id, SNI of nobody', [id('id-1'), hello('kubernetes.default.svc')], 'one/api'],
  ['an id, SNI and ALPN of that cluster', [id('id-1'), hello('api.one.test', 'my-proto')], 'one/special'],
  ['an id that is there twice', [proxyV2({ id: ['id-2', 'id-2'] }), noSni], 'two/api'],
  ['an unknown id', [id('id-9'), oneApi], 'unknown-cluster', { clusterId: 'id-9', cluster: null }],
  ['two ids that differ', [proxyV2({ id: ['id-1', 'id-2'] }), noSni], 'bad-proxy-header'],
  ['no id: SNI decides', [v2(FRIEND), oneApi], 'one/api', { ...friendAsOrigin, clusterId: null }],
  ['no id, no SNI', [v2(FRIEND), noSni], 'no-sni'],
  ['PROXY v1', [v1(FRIEND), oneApi], 'one/api', friendAsOrigin],
  [
    'an origin that allow has',
    [proxyV2({ source: FRIEND, id: 'id-3' }), noSni],
    'not-allowed',
    friendAsOrigin,
  ],
  ['an origin that is a balancer', [v2(BALANCER), v2(FRIEND), guarded], 'bad-proxy-header'],
  ['a wrong CRC32C', [wrongSum(proxyV2({ id: 'id-1', crc32c: true })), noSni], 'bad-proxy-header'],
  ['a further header', [id('id-1'), id('id-1'), noSni], 'bad-proxy-header'],
  ['an id, HTTP', [id('id-1'), 'GET / HTTP/1.1\r\nHost: api.one.test\r\n\r\n'], 'not-recognized'],
  ['an id, rubbish', [id('id-1'), '\0\0\0'], 'not-recognized'],
  ['an id, CONNECT to that cluster', [id('id-1'), 'CONNECT id-1:443 HTTP/1.1\r\n\r\n'], 'not-recognized'],
  ['an id, CONNECT to another', [id('id-1'), 'CONNECT id-2:443 HTTP/1.1\r\n\r\n'], 'bad-proxy-header'],
  ['UNIQUE_ID, where idTlv does not have it', [uniqueId('id-2'), oneApi], 'one/api', { clusterId: null }],
]);

cases('an agent, where idTlv has UNIQUE_ID as well', AGENT, () => alsoUniqueId, [
  ['UNIQUE_ID', [uniqueId('id-2'), noSni], 'two/api', { clusterId: 'id-2' }],
  ['0x20', [id('id-2'), noSni], 'two/api', { clusterId: 'id-2' }],
  ['both, with the same id', [uniqueId('id-2', 'id-2'), noSni], 'two/api'],
  ['both, with ids that differ', [uniqueId('id-2', 'id-1'), noSni], 'bad-proxy-header'],
]);

cases('a balancer of an agent', BALANCER, () => usual, [
  [
    'two headers',
    [v2(FAR_AGENT), proxyV2({ source: FRIEND, id: 'id-2' }), noSni],
    'two/api',
    { client: `${FAR_AGENT}:40000`, ...friendAsOrigin, clusterId: 'id-2' },
  ],
  ['two headers and one more', [v2(FAR_AGENT), id('id-2'), id('id-2'), noSni], 'bad-proxy-header'],
]);

cases('a peer in both lists', BOTH, () => usual, [
  ["one header, the balancer's", [proxyV2({ source: FRIEND, id: 'id-1' }), guarded], 'guarded/api', friend],
  ['two headers, the first of no agent', [v2(FRIEND), id('id-3'), noSni], 'untrusted-agent'],
  ['LOCAL, then an id of its own', [proxyV2({}), id('id-2'), noSni], 'two/api', { clusterId: 'id-2' }],
]);

cases('a stranger', STRANGER, () => usual, [
  ['no header', [oneApi], 'one/api'],
  ['PROXY v1', [v1(FRIEND), guarded], 'untrusted-agent', { origin: null }],
  ['PROXY v2', [v2(FRIEND), guarded], 'untrusted-agent', { origin: null }],
  ['LOCAL', [proxyV2({}), oneApi], 'untrusted-agent'],
]);

cases('an IPv4 agent on a dual-stack listener', AGENT, () => dualStack, [
  ['an id', [id('id-2'), noSni], 'two/api'],
]);

cases('an IPv4 stranger on a dual-stack listener', STRANGER, () => dualStack, [
  ['an id', [id('id-2'), noSni], 'untrusted-agent'],
]);

function cases(who: string, from: string, on: () => Place, all: readonly Case[]): void {
  describe(who, { concurrency: true }, () => {
    for (const [given, says, then, line = {}] of all) {
      if (unlike.includes(given)) continue;
      test(`${given} → ${then}`, async () => {
        const { port, to } = on();
        using client = await connectClient(port, { from, to });
        client.send(...says);
        const served = then.includes('/');
        if (served) {
          await client.receives('\n');
          client.finish();
        }
        assert.equal(await client.untilEnd(), 'FIN');
        assert.deepEqual(client.received(), served ? bytes(`${then}\n`) : (heard[then] ?? Buffer.alloc(0)));
        const [cluster, route] = then.split('/');
        const expected = served
          ? { reason: 'done', cluster, route, client: client.address, peer: client.address, ...line }
          : { reason: then, peer: client.address, ...line };
        const logged = await lineOf(gateway, client);
        assert.deepEqual(pick(logged, Object.keys(expected)), expected);
      });
    }
  });
}

test('the headers do not reach the backend', async () => {
  await using backend = await Backend.start({ name: 'alone' });
  await using own = await startCauseway({
    config: `
listen: [{ on: "127.0.0.1:0", balancers: [127.0.0.1/32], agents: [10.1.0.0/16] }]
clusters: [{ name: alone, id: id-1, api: { backends: ["${backend.text}"] } }]
`,
  });
  assert.equal(await servedBy(own.port, bytes(v2(FAR_AGENT), id('id-1'), noSni, 'early')), 'alone');
  assert.deepEqual((await backend.accepted()).received(), bytes(noSni, 'early'));
});

test('two headers and a hello may arrive in single bytes', async () => {
  using client = await connectClient(usual.port, { from: BALANCER });
  await client.drip(bytes(v2(FAR_AGENT), proxyV2({ source: FRIEND, id: 'id-2', crc32c: true }), noSni));
  await client.receives('two/api\n');
  client.finish();
  assert.equal((await lineOf(gateway, client)).origin, `${FRIEND}:40000`);
});

test('PROXY v1 may arrive in single bytes', async () => {
  using client = await connectClient(usual.port, { from: BALANCER });
  await client.drip(bytes(v1(FRIEND), guarded));
  await client.receives('guarded/api\n');
});

test('an unknown id is refused with an alert once the hello has arrived', async () => {
  using client = await connectClient(usual.port, { from: AGENT });
  client.send(id('id-9'), oneApi.subarray(0, 30));
  // An immediate action of the gateway would have happened before later clients are served.
  for (let i = 0; i < 4; i++) await servedBy(usual.port, oneApi);
  assert.equal(client.end(), undefined);
  client.send(oneApi.subarray(30));
  assert.equal(await client.untilEnd(), 'FIN');
  assert.deepEqual(client.received(), alert(49));
});

describe('ALPN', { concurrency: true }, () => {
  for (const [offered, expected] of [
    [['my-proto'], 'one/special'],
    [['h2', 'my-proto'], 'one/special'],
    [['h2', 'http/1.1'], 'one/api'],
    [['my-proto2'], 'one/api'],
    [[], 'one/api'],
  ] as const) {
    test(`[${offered.join(', ')}] → ${expected}`, async () => {
      assert.equal(await servedBy(usual.port, hello('api.one.test', ...offered)), expected);
    });
  }
});

function v1(source: string): string {
  const [family, destination] = source.includes(':') ? ['TCP6', '2001:db8::1'] : ['TCP4', '172.20.0.1'];
  return `PROXY ${family} ${source} ${destination} 40000 6443\r\n`;
}

function v2(source: string): Uint8Array {
  return proxyV2({ source });
}

function id(text: string): Uint8Array {
  return proxyV2({ id: text });
}

/** An id as HAProxy before 2.9 sends it; `other` is in TLV 0x20. */
function uniqueId(text: string, ...other: readonly string[]): Uint8Array {
  return proxyV2({ id: other, tlvs: [[0x05, text]] });
}

function wrongSum(header: Uint8Array): Uint8Array {
  const wrong = Uint8Array.from(header);
  wrong[wrong.length - 1] ^= 1;
  return wrong;
}

function pick(object: Record<string, unknown>, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(keys.map(key => [key, object[key]]));
}
