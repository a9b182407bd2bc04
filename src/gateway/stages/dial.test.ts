// Feature tests are in test/features/dial.test.ts.

import assert from 'node:assert/strict';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { parseProxyHeader } from '../../wire/proxy-protocol.ts';
import { tlsAlert } from '../../wire/tls-alert.ts';
import { EXHAUSTED, REFUSED, UNREACHABLE } from '../io/reactor.ts';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import { errorOf } from './dial-failure.ts';
import {
  helloFor,
  oneBackend,
  type ScriptedPath,
  type ScriptedPathOptions,
  scriptedTest,
} from './scripted-path.samples.ts';

const [FIRST, SECOND, THIRD] = ['192.0.2.1:6443', '192.0.2.2:6443', '192.0.2.3:6443'];
const refused = Buffer.from(tlsAlert('internal_error'));

function serving(...backends: string[]) {
  return [sampleCluster('a', { routes: [sampleRoute({ hosts: ['a.lab'], backends })] })];
}

function dialled({ io }: ScriptedPath): string[] {
  return io.dialled.map(peer => peer.name);
}

for (const failure of [REFUSED, { atOnce: UNREACHABLE }]) {
  scriptedTest(
    `dial() tries each backend once when all but the last fail with ${JSON.stringify(failure)}`,
    { clusters: serving(FIRST, SECOND, THIRD) },
    it => {
      let attempts = 0;
      it.io.answer = () => (++attempts < 3 ? failure : 'accept');
      const client = it.client(helloFor('a.lab'));
      assert.equal(attempts, 3);
      assert.deepEqual(it.backend().received, client.sent);
      assert.equal(it.open.backends, 1);
    },
  );
}

scriptedTest('dial() refuses the client after 1 + `retries` attempts', { settings: { retries: 3 } }, it => {
  it.io.answer = () => REFUSED;
  const client = it.client(helloFor('a.lab'));
  // A single backend is tried again after 250 ms, 500 ms and 1 s.
  for (const [ms, attempts] of [
    [200, 1],
    [100, 2],
    [500, 3],
    [1000, 4],
  ]) {
    it.io.passes(ms);
    assert.deepEqual(
      [dialled(it).length, client.text],
      [attempts, attempts < 4 ? '' : refused.toString('latin1')],
    );
  }
  const [record] = it.records;
  assert.deepEqual([record.why, errorOf(record.why, record.detail)], ['connect-failed', 'refused']);
});

scriptedTest('dial() gives up when three times `connect` has passed', { settings: { retries: 100 } }, it => {
  it.io.answer = () => 'silence';
  const client = it.client(helloFor('a.lab'));
  it.io.passes(8900);
  assert.deepEqual(it.reasons, []);
  it.io.passes(200);
  assert.deepEqual([it.reasons, client.received], [['connect-timeout'], refused]);
  assert.ok(it.io.dialled.every(peer => peer.end === 'reset'));
});

scriptedTest("dial() without descriptors is our own shortage, not the backend's", {}, it => {
  it.io.answer = () => ({ atOnce: EXHAUSTED });
  it.client(helloFor('a.lab'));
  it.io.passes(3000);
  assert.deepEqual(it.reasons, ['over-limit']);
});

scriptedTest('dial() closes the connection to the backend when the client leaves', {}, it => {
  it.io.answer = () => 'silence';
  it.client(helloFor('a.lab')).fin();
  it.io.settle();
  assert.deepEqual([it.reasons, it.io.open], [['client-gone'], []]);
});

scriptedTest('dial() keeps early bytes of the client, and leaves the rest in the kernel', {}, it => {
  it.io.answer = () => 'silence';
  const client = it.client(helloFor('a.lab'));
  for (let i = 0; i < 20; i++) {
    client.sends(Buffer.alloc(10_000, i));
    it.io.settle();
  }
  it.backend().accepts();
  it.io.settle();
  assert.ok(it.backend().received.equals(client.sent));
});

scriptedTest('dial() passes on what the backend says before the client', {}, it => {
  it.io.answer = () => 'silence';
  const client = it.client(helloFor('a.lab'));
  it.backend().accepts();
  it.backend().sends('welcome');
  it.io.settle();
  assert.equal(client.text, 'welcome');
});

scriptedTest(
  'dial() puts a PROXY header with the client in front',
  {
    clusters: [sampleCluster('a', { routes: [sampleRoute({ hosts: ['a.lab'], proxyProtocol: 'v2' })] })],
  },
  it => {
    const client = it.client(helloFor('a.lab'), '198.51.100.9');
    const header = parseProxyHeader(it.backend().received);
    assert.ok(header.kind === 'found');
    assert.deepEqual([...(header.value.source?.address ?? [])], [198, 51, 100, 9]);
    assert.deepEqual(it.backend().received.subarray(header.value.end), client.sent);
  },
);

scriptedTest(
  'dial() writes nothing to the backend of an agent before the client sends',
  { listener: { direct: 'a' } },
  it => {
    const client = it.connects();
    it.io.settle();
    it.backend().sends('welcome');
    client.sends('hello');
    it.io.settle();
    assert.deepEqual([client.text, it.backend().text], ['welcome', 'hello']);
  },
);

// An agent's dial: the backend is a gateway, which answers a CONNECT.

const agent: ScriptedPathOptions = {
  clusters: [
    sampleCluster('a', { routes: [sampleRoute({ uplink: { kind: 'connect', clusterId: 'id-a' } })] }),
  ],
  listener: { direct: 'a' },
};
const request = 'CONNECT id-a:6443 HTTP/1.1\r\n';

for (const isSlow of [false, true])
  scriptedTest(
    `greetingEvent() begins the tunnel after the gateway's 200${isSlow ? ', byte by byte' : ''}`,
    agent,
    it => {
      const client = it.client(helloFor('a.lab'));
      const { text } = it.backend();
      assert.ok(text.startsWith(request) && text.endsWith('\r\n\r\n'), text);
      const answer = 'HTTP/1.1 200 Connection established\r\n\r\nwelcome';
      for (const piece of isSlow ? answer : [answer]) {
        it.backend().sends(piece);
        it.io.settle();
      }
      assert.equal(client.text, 'welcome');
      assert.deepEqual(it.backend().received.subarray(text.length), client.sent);
    },
  );

scriptedTest('greetingEvent() refuses the client when the gateway forbids it', agent, it => {
  const client = it.client(helloFor('a.lab'));
  it.backend().sends('HTTP/1.1 403 Forbidden\r\n\r\nno');
  it.io.settle();
  assert.deepEqual([client.received, it.reasons, it.io.dialled.length], [refused, ['connect-failed'], 1]);
  assert.deepEqual([it.backend().end, it.io.open.length], ['fin', 1], 'only the refused client is open');
});

for (const [what, act] of [
  ['has no room', (gateway: ScriptedPeer) => gateway.sends('HTTP/1.1 503 Service Unavailable\r\n\r\n')],
  ['closes', (gateway: ScriptedPeer) => gateway.closes()],
  ['resets', (gateway: ScriptedPeer) => gateway.resets()],
  ['answers with something else', (gateway: ScriptedPeer) => gateway.sends('SSH-2.0-OpenSSH_9.2\r\n')],
] as const) {
  scriptedTest(`greetingEvent() tries again when the gateway ${what}`, agent, it => {
    const client = it.client(helloFor('a.lab'));
    act(it.backend());
    it.io.passes(400);
    assert.deepEqual([it.io.dialled.length, client.text, it.io.open.length], [2, '', 2]);
    it.backend().sends('HTTP/1.1 200 OK\r\n\r\n');
    it.io.settle();
    assert.ok(it.backend().received.subarray(-client.sent.length).equals(client.sent));
  });
}

scriptedTest('greetingEvent() gives up on gateways that never answer', agent, it => {
  const client = it.client(helloFor('a.lab'));
  it.io.passes(9100);
  assert.deepEqual([it.reasons, client.received], [['connect-timeout'], refused]);
  assert.ok(it.io.dialled.every(({ end }) => end === 'fin'));
});

// A table that changes while a dial waits for its next attempt.

scriptedTest('dialTimer() refuses the client when no backend is left', {}, it => {
  it.io.answer = () => REFUSED;
  const client = it.client(helloFor('a.lab'));
  it.serves(serving());
  it.io.passes(300);
  assert.deepEqual([it.reasons, client.received], [['no-backend'], refused]);
});

scriptedTest(
  'dialTimer() dials another backend when its own is gone',
  { clusters: serving(FIRST, SECOND) },
  it => {
    it.io.answer = () => REFUSED;
    const client = it.client(helloFor('a.lab'));
    assert.equal(dialled(it).length, 2);
    it.io.answer = () => 'accept';
    it.serves(serving(THIRD));
    it.io.passes(1000);
    assert.equal(dialled(it).at(-1), THIRD);
    assert.deepEqual(it.backend().received, client.sent);
    assert.deepEqual(it.open.backends, 1);
    client.fin();
    it.backend().fin();
    it.io.settle();
    assert.equal(it.records[0].backendSlot, it.path.table.clusters.get('a')?.api?.backends[0].slot);
  },
);

scriptedTest(
  'dialEvent() dials another backend when its own fails and is gone',
  { clusters: serving(FIRST, SECOND) },
  it => {
    it.io.answer = () => 'silence';
    const client = it.client(helloFor('a.lab'));
    it.io.answer = () => 'accept';
    const before = it.backend();
    it.serves(serving(THIRD));
    before.refuses();
    it.io.passes(1000);
    assert.equal(dialled(it).at(-1), THIRD);
    assert.deepEqual(it.backend().received, client.sent);
  },
);

scriptedTest('dial() refuses a client of a route without backends', { clusters: serving() }, it => {
  const client = it.client(helloFor('a.lab'));
  assert.deepEqual([it.reasons, client.received], [['no-backend'], refused]);
});

scriptedTest('dial() continues when its cluster is put again unchanged', {}, it => {
  it.io.answer = () => 'silence';
  const client = it.client(helloFor('a.lab'));
  it.serves([{ ...oneBackend, limits: { connections: 5 } }]);
  it.backend().accepts();
  it.io.settle();
  assert.deepEqual(it.backend().received, client.sent);
});
