// Feature tests are in test/features: routes, connect, who-is-the-client, close-reasons.

import assert from 'node:assert/strict';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import {
  alpnExtension,
  extension,
  helloMessage,
  inRecords,
  messageOf,
  serverNameExtension,
} from '../../wire/hello.samples.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { buildProxyV1, buildProxyV2 } from '../../wire/proxy-protocol.ts';
import { type Alert, tlsAlert } from '../../wire/tls-alert.ts';
import type { CloseReason } from '../close-reason.ts';
import { protocols } from '../shared/rows.ts';
import {
  helloFor,
  type ScriptedPath,
  type ScriptedPathOptions,
  scriptedTest,
} from './scripted-path.samples.ts';

const BALANCER = '198.51.100.1';
const AGENT = '198.51.100.2';
/** A client behind the balancer, and an agent behind it. */
const BEHIND = '203.0.113.9';
const AGENT_BEHIND = '203.0.113.2';

const API = '192.0.2.1:6443';
const GRPC = '192.0.2.2:6443';
const OTHER = '192.0.2.3:6443';

const served: ScriptedPathOptions = {
  clusters: [
    sampleCluster('a', {
      id: 'id-a',
      routes: [
        sampleRoute({ hosts: ['a.lab'], connect: ['a.svc'], backends: [API] }),
        sampleRoute({ kind: 'grpc', hosts: ['a.lab'], alpn: ['grpc'], backends: [GRPC] }),
      ],
    }),
    sampleCluster('b', { id: 'id-b', routes: [sampleRoute({ hosts: ['b.lab'], backends: [OTHER] })] }),
  ],
  listener: { balancers: [`${BALANCER}/32`], agents: [`${AGENT}/32`, `${AGENT_BEHIND}/32`] },
};

const hello = helloFor('a.lab');
const destination = { address: ip('192.0.2.254'), port: 443 };

function ip(text: string): Uint8Array {
  return parseIp(text) ?? assert.fail(text);
}

function bytes(...parts: (Uint8Array | string)[]): Buffer {
  return Buffer.concat(parts.map(part => Buffer.from(part as Uint8Array)));
}

function balancerHeader(source = BEHIND, version: 1 | 2 = 2): Uint8Array {
  const from = { address: ip(source), port: 1234 };
  return version === 1 ? buildProxyV1(from, destination) : buildProxyV2({ source: from, destination });
}

function agentHeader(...ids: string[]): Uint8Array {
  return buildProxyV2({ tlvs: ids.map(id => ({ type: 0x20, value: Buffer.from(id) })) });
}

function helloWith(...extensions: Uint8Array[]): Buffer {
  return Buffer.from(inRecords(helloMessage({ extensions })));
}

/** The client from that address; clients behind the balancer are known too, so that their counts are checked. */
function client(it: ScriptedPath, first: Uint8Array | string, from?: string) {
  it.source(BEHIND);
  it.source(AGENT_BEHIND);
  return it.client(first, from);
}

// Served: what is sent, by whom, to which backend, and how many bytes of it are for the gateway only.

const accepted: readonly (readonly [string, Buffer, string, string, number])[] = [
  ['TLS', hello, BEHIND, API, 0],
  ['TLS with the application bytes behind it', bytes(hello, 'early'), BEHIND, API, 0],
  [
    'TLS in many records',
    bytes(
      inRecords(
        messageOf(hello),
        Array.from({ length: 99 }, () => 3),
      ),
    ),
    BEHIND,
    API,
    0,
  ],
  [
    'TLS with a large hello',
    helloWith(serverNameExtension('a.lab'), extension(21, new Uint8Array(30_000))),
    BEHIND,
    API,
    0,
  ],
  [
    'TLS with an ALPN of its own',
    helloWith(serverNameExtension('a.lab'), alpnExtension('h2', 'grpc')),
    BEHIND,
    GRPC,
    0,
  ],
  ['TLS from a balancer without a header', hello, BALANCER, API, 0],
  [
    'a v1 header of a balancer',
    bytes(balancerHeader(BEHIND, 1), hello),
    BALANCER,
    API,
    balancerHeader(BEHIND, 1).length,
  ],
  ['a v2 header of a balancer', bytes(balancerHeader(), hello), BALANCER, API, balancerHeader().length],
  ['a LOCAL header of a balancer', bytes(buildProxyV2({}), hello), BALANCER, API, 16],
  ["an agent's id", bytes(agentHeader('id-b'), helloWith()), AGENT, OTHER, agentHeader('id-b').length],
  [
    "an agent's id with the host of another cluster",
    bytes(agentHeader('id-b'), hello),
    AGENT,
    OTHER,
    agentHeader('id-b').length,
  ],
  [
    "an agent's id behind a balancer's header",
    bytes(balancerHeader(AGENT_BEHIND), agentHeader('id-a'), helloWith()),
    BALANCER,
    API,
    balancerHeader().length + agentHeader('id-a').length,
  ],
  ["an agent's header without an id", bytes(agentHeader(), hello), AGENT, API, 16],
  ['CONNECT', bytes('CONNECT b.lab:443 HTTP/1.1\r\nHost: b.lab\r\n\r\n', 'inner'), AGENT, OTHER, 43],
  ['CONNECT with nothing behind it', bytes('CONNECT a.svc:443 HTTP/1.1\r\n\r\n'), AGENT, API, 30],
  ['CONNECT by id', bytes('CONNECT id-b:443 HTTP/1.1\r\n\r\n', 'inner'), AGENT, OTHER, 29],
];

for (const [what, sent, from, to, ours] of accepted) {
  const check = (it: ScriptedPath, answer: string) => {
    assert.deepEqual(
      it.io.dialled.map(({ name, received }) => [name, received]),
      [[to, sent.subarray(ours)]],
    );
    assert.equal(answer, what.startsWith('CONNECT') ? 'HTTP/1.1 200 Connection established\r\n\r\n' : '');
    assert.deepEqual([it.open.pending, it.open.clusters], [0, 1]);
  };

  scriptedTest(`identify() serves ${what}`, served, it => check(it, client(it, sent, from).text));

  scriptedTest(`identify() serves ${what}, byte by byte`, served, it => {
    const slow = client(it, '', from);
    // What is beyond the first bytes needs no splitting.
    for (let at = 0; at < sent.length; at += at < 2000 ? 1 : 997) {
      slow.sends(sent.subarray(at, at + (at < 2000 ? 1 : 997)));
      it.io.settle();
    }
    check(it, slow.text);
  });
}

// Refused: what is sent, by whom, the reason, and the answer: an alert, an HTTP status, or nothing.

const refused: readonly (readonly [string, Buffer, string, CloseReason, Alert | number | undefined])[] = [
  [
    'a malformed hello',
    bytes(Uint8Array.of(22, 3, 1, 0, 4, 1, 0, 0, 0)),
    BEHIND,
    'bad-hello',
    'decode_error',
  ],
  [
    'another TLS handshake message',
    bytes(Uint8Array.of(22, 3, 1, 0, 4, 2, 0, 0, 9)),
    BEHIND,
    'bad-hello',
    'decode_error',
  ],
  [
    'a hello beyond all bounds',
    bytes(Uint8Array.of(22, 3, 1, 64, 0, 1, 2, 0, 0)),
    BEHIND,
    'bad-hello',
    'decode_error',
  ],
  ['a hello without SNI', helloWith(), BEHIND, 'no-sni', 'unrecognized_name'],
  ['an address as SNI', helloFor('192.0.2.1'), BEHIND, 'no-sni', 'unrecognized_name'],
  ['an unknown host', helloFor('c.lab'), BEHIND, 'unknown-host', 'unrecognized_name'],
  ['bytes of no protocol', bytes('\0\0\0\0'), BEHIND, 'not-recognized', undefined],
  ['SSH', bytes('SSH-2.0-OpenSSH_9.2\r\n'), BEHIND, 'not-recognized', undefined],
  [
    'HTTP/2 where no thread serves it',
    bytes('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    BEHIND,
    'not-recognized',
    undefined,
  ],
  ['HTTP for an unknown host', bytes('GET / HTTP/1.1\r\nHost: c.lab\r\n\r\n'), BEHIND, 'unknown-host', 421],
  ['HTTP for a host of TLS', bytes('GET / HTTP/1.1\r\nHost: a.lab\r\n\r\n'), BEHIND, 'unknown-host', 421],
  ['HTTP without Host', bytes('GET / HTTP/1.1\r\n\r\n'), BEHIND, 'bad-request', 400],
  ['a malformed HTTP head', bytes('GET / HTTP/1.1\r\nHost\r\n\r\n'), BEHIND, 'bad-request', 400],
  [
    'CONNECT of a client that is no agent',
    bytes('CONNECT a.svc:443 HTTP/1.1\r\n\r\n'),
    BEHIND,
    'untrusted-agent',
    403,
  ],
  ['CONNECT to an unknown name', bytes('CONNECT c.svc:443 HTTP/1.1\r\n\r\n'), AGENT, 'unknown-host', 404],
  ['CONNECT to a malformed port', bytes('CONNECT a.svc:x HTTP/1.1\r\n\r\n'), AGENT, 'bad-request', 400],
  ['a malformed CONNECT', bytes('CONNECT a.svc:443\r\n\r\n'), AGENT, 'bad-request', 400],
  ['a PROXY header of a stranger', bytes(balancerHeader(), hello), BEHIND, 'untrusted-agent', undefined],
  [
    'a second header behind a balancer whose client is no agent',
    bytes(balancerHeader(), agentHeader('id-a')),
    BALANCER,
    'untrusted-agent',
    undefined,
  ],
  ['a malformed v1 header', bytes('PROXY TCP9 x\r\n'), BALANCER, 'bad-proxy-header', undefined],
  [
    'two headers of an agent',
    bytes(agentHeader('id-a'), agentHeader('id-a')),
    AGENT,
    'bad-proxy-header',
    undefined,
  ],
  ['two ids', bytes(agentHeader('id-a', 'id-b'), hello), AGENT, 'bad-proxy-header', undefined],
  ['an unknown id', bytes(agentHeader('id-c'), hello), AGENT, 'unknown-cluster', 'access_denied'],
  [
    'a malformed hello behind an unknown id',
    bytes(agentHeader('id-c'), Uint8Array.of(22, 3, 1, 0, 4, 1, 0, 0, 0)),
    AGENT,
    'unknown-cluster',
    'access_denied',
  ],
  ['HTTP behind an id', bytes(agentHeader('id-a'), 'GET / HTTP/1.1\r\n'), AGENT, 'not-recognized', undefined],
  [
    'CONNECT to the same cluster behind an id',
    bytes(agentHeader('id-a'), 'CONNECT id-a:443 HTTP/1.1\r\n\r\n'),
    AGENT,
    'not-recognized',
    undefined,
  ],
  [
    'CONNECT to another cluster behind an id',
    bytes(agentHeader('id-a'), 'CONNECT id-b:443 HTTP/1.1\r\n\r\n'),
    AGENT,
    'bad-proxy-header',
    undefined,
  ],
];

for (const [what, sent, from, reason, answer] of refused) {
  const check = (it: ScriptedPath, received: Buffer) => {
    assert.deepEqual([it.reasons, it.io.dialled.length], [[reason], 0]);
    if (typeof answer !== 'number')
      return assert.deepEqual(received, Buffer.from(answer === undefined ? [] : tlsAlert(answer)));
    const text = received.toString('latin1');
    assert.ok(text.startsWith(`HTTP/1.1 ${answer} `) && text.includes(`\r\n\r\n${reason}: `), text);
  };

  scriptedTest(`identify() refuses ${what}`, served, it => check(it, client(it, sent, from).received));

  scriptedTest(`identify() refuses ${what}, byte by byte`, served, it => {
    const slow = client(it, '', from);
    for (const byte of sent) {
      slow.sends(Uint8Array.of(byte));
      it.io.settle();
    }
    check(it, slow.received);
  });
}

// Time.

for (const [what, sent, from, answer] of [
  ['nothing', bytes(), BEHIND, ''],
  ['half a hello', hello.subarray(0, 40), BEHIND, ''],
  ['a header alone', bytes(balancerHeader()), BALANCER, ''],
  ['half an HTTP head', bytes('GET / HTTP/1.1\r\n'), BEHIND, 'HTTP/1.1 408 '],
  ['half a CONNECT', bytes('CONNECT a.svc:443 HTTP/1.1\r\n'), AGENT, 'HTTP/1.1 408 '],
] as const) {
  scriptedTest(`identifyTimer() ends a client that sent ${what} after \`hello\``, served, it => {
    const slow = client(it, sent, from);
    it.io.passes(4980);
    assert.deepEqual([slow.end, it.reasons], [undefined, []]);
    it.io.passes(40);
    assert.deepEqual([slow.end, it.reasons, slow.text.slice(0, 13)], ['fin', ['hello-timeout'], answer]);
  });
}

scriptedTest('identifyTimer() is not put off by a trickle of bytes', served, it => {
  const slow = client(it, '');
  for (let at = 0; at < 60 && slow.end === undefined; at++) {
    assert.ok(at < 51, 'it has more time');
    slow.sends(hello.subarray(at, at + 1));
    it.io.passes(100);
  }
  assert.deepEqual(it.reasons, ['hello-timeout']);
});

scriptedTest('identifyTimer() blames an unknown id, not the time', served, it => {
  client(it, bytes(agentHeader('id-c'), hello.subarray(0, 9)), AGENT);
  it.io.passes(5100);
  assert.deepEqual(it.reasons, ['unknown-cluster']);
});

// Clients that leave.

for (const [what, sent, from, reason] of [
  ['nothing', bytes(), BEHIND, 'no-data'],
  ["only a balancer's header", bytes(balancerHeader()), BALANCER, 'no-data'],
  ["only an agent's header", bytes(agentHeader('id-a')), AGENT, 'client-gone'],
  ['half a hello', hello.subarray(0, 40), BEHIND, 'client-gone'],
  [
    'an unknown id and half a hello',
    bytes(agentHeader('id-c'), hello.subarray(0, 40)),
    AGENT,
    'unknown-cluster',
  ],
] as const) {
  for (const how of ['fin', 'resets'] as const)
    for (const when of ['at once', 'later'])
      scriptedTest(`identify() ends a client that sent ${what} (${how}, ${when})`, served, it => {
        const leaving = it.connects(from).sends(sent);
        it.source(BEHIND);
        if (when === 'later') it.io.settle();
        leaving[how]();
        it.io.settle();
        // node:net tells only that a connection is gone if that happened before the accept.
        const isUnseen = it.io.reports === 'changes' && how === 'resets' && when === 'at once';
        assert.deepEqual([it.reasons, it.io.open], [[isUnseen ? 'no-data' : reason], []]);
      });
}

// The record.

scriptedTest('identify() records host, protocol and client', served, it => {
  const gone = client(it, bytes(balancerHeader(), helloFor('c.lab')), BALANCER);
  const [{ host, protocol, client: from, peer, bytesIn, bytesOut }] = it.records;
  assert.deepEqual([host, protocols[protocol]], ['c.lab', 'tls']);
  assert.deepEqual([Buffer.from(from.address), from.port], [Buffer.from(ip(BEHIND)), 1234]);
  assert.deepEqual(Buffer.from(peer.address), Buffer.from(ip(BALANCER)));
  assert.deepEqual([bytesIn, bytesOut], [gone.sent.length, gone.received.length]);
});

scriptedTest('identify() shows no host that is not legal', served, it => {
  client(it, helloFor('not legal\n'));
  assert.deepEqual([it.records[0].host, it.records[0].why], ['', 'no-sni']);
});

scriptedTest(
  'identify() serves unclaimed hosts by the route `*`, but not within an id',
  {
    ...served,
    clusters: [...(served.clusters ?? []), sampleCluster('z', { routes: [sampleRoute({ hosts: ['*'] })] })],
  },
  it => {
    for (const first of [helloFor('c.lab'), helloWith()]) {
      client(it, first);
      assert.deepEqual(it.backend().received, first);
    }
    client(it, bytes(agentHeader('id-c'), helloFor('c.lab')), AGENT);
    assert.deepEqual(it.reasons, ['unknown-cluster']);
  },
);

scriptedTest(
  'identify() sees only the kinds of route in `only`',
  { ...served, listener: { ...served.listener, only: ['grpc'] } },
  it => {
    client(it, hello);
    client(it, helloWith(serverNameExtension('a.lab'), alpnExtension('grpc')));
    assert.deepEqual([it.reasons, it.io.dialled.map(({ name }) => name)], [['unknown-host'], [GRPC]]);
  },
);

scriptedTest(
  'identify() counts clients behind a balancer one by one, and the balancer not at all',
  { ...served, settings: { pendingPerSource: 1 } },
  it => {
    const other = '203.0.113.10';
    it.source(other);
    const waiting = [1, 2, 3].map(() => client(it, '', BALANCER));
    for (const [index, source] of [BEHIND, BEHIND, other].entries())
      waiting[index].sends(balancerHeader(source));
    it.io.settle();
    assert.deepEqual(
      waiting.map(({ end }) => end),
      [undefined, 'fin', undefined],
    );
    assert.deepEqual(it.reasons, ['over-limit']);
  },
);
