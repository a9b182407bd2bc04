// Connections by SNI, through a balancer and by CONNECT, in any order: whatever happens, bytes arrive in order, each
// connection has one reason, and nothing is left. Over HTTP: any-order-http.test.ts.

import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../wire/hello.samples.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { buildProxyV2 } from '../../wire/proxy-protocol.ts';
import { alerts, tlsAlert } from '../../wire/tls-alert.ts';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import {
  actionOf,
  clientOf,
  inAnyOrder,
  nat,
  patternFrom,
  resumeAll,
  type ScriptedClient,
  size,
  sources,
  startsWith,
  type World,
} from './any-order.samples.ts';
import type { ScriptedPath } from './scripted-path.samples.ts';

const BALANCER = '198.51.100.1';
const AGENT = '198.51.100.2';
const ESTABLISHED = Buffer.from('HTTP/1.1 200 Connection established\r\n\r\n');
const hosts = ['a.lab', 'a.lab', 'a.lab', 'b.lab', 'b.lab', 'unknown.lab'];

const a = sampleCluster('a', {
  routes: [sampleRoute({ hosts: ['a.lab'], backends: ['192.0.2.1:6443', '192.0.2.2:6443'] })],
});
const b = sampleCluster('b', { routes: [sampleRoute({ hosts: ['b.lab'], backends: ['192.0.2.3:6443'] })] });
const tables = [
  [a, b],
  [{ ...a, allow: ['198.51.100.0/24'] }, b],
  [{ ...a, limits: { connections: 2, perSource: 1, newPerSecond: 3 } }, b],
  [sampleCluster('a', { routes: [sampleRoute({ hosts: ['a.lab'], backends: ['192.0.2.4:6443'] })] }), b],
  [b],
  [],
];

interface Client extends ScriptedClient {
  /** The first bytes of its stream, for the gateway only. */
  readonly header: number;
  /** What the gateway sends in front of the backend's bytes. */
  readonly answer: Buffer;
}

/** A client of ours or of an agent, which does not look at its bytes; behind a balancer; or an agent with a CONNECT. */
type Kind = 'plain' | 'direct' | 'balanced' | 'connect';

interface TunnelWorld extends World<Client> {
  /** By kind of client. */
  readonly listeners: Readonly<Record<Kind, number>>;
  /** The other side of each peer's connection through the gateway, or the last one that was tried. */
  readonly others: Map<ScriptedPeer, ScriptedPeer>;
}

const connects = actionOf(
  'connects',
  fc.record({
    kind: fc.constantFrom<Kind>('plain', 'plain', 'balanced', 'direct', 'connect'),
    from: nat,
    host: nat,
    first: fc.constantFrom(0, 20, 300, 300),
  }),
  ({ it, clients, listeners }: TunnelWorld, { kind, from, host, first }) => {
    const source = sources[from % sources.length];
    const name = hosts[host % hosts.length];
    it.source(source);
    const peer = it.connects(
      { plain: source, direct: source, balanced: BALANCER, connect: AGENT }[kind],
      listeners[kind],
    );
    const header = headerOf(kind, source, name);
    const stream = Buffer.concat([header, helloOf(name, clients.length), patternFrom(`C${clients.length}:`)]);
    const answer = kind === 'connect' ? ESTABLISHED : Buffer.alloc(0);
    clients.push({ peer, stream, header: header.length, answer });
    peer.sends(stream.subarray(0, first));
  },
);

/** The whole hello, so that most connections get further than that. */
const clientSaysHello = actionOf('client says hello', nat, ({ clients }: TunnelWorld, which) => {
  const client = clients[which % clients.length];
  client?.peer.sends(client.stream.subarray(client.peer.sent.length, 300));
});

const backendSends = actionOf(
  'backend sends',
  fc.tuple(nat, size),
  ({ it: { io } }: TunnelWorld, [which, count]) => {
    const index = which % io.dialled.length;
    const peer = io.dialled[index];
    const sent = peer?.sent.length;
    peer?.sends(patternFrom(`S${index}:`).subarray(sent, sent + count));
  },
);

inAnyOrder('stages: in any order, every byte arrives in order, and nothing is left', {
  actions: [
    { arbitrary: connects, weight: 5 },
    { arbitrary: clientSaysHello, weight: 8, isOfPeers: true },
    { arbitrary: backendSends, weight: 6, isOfPeers: true },
  ],
  newWorld(common): TunnelWorld {
    const { it } = common;
    it.serves(tables[0]);
    const listeners = {
      plain: it.listener,
      direct: it.listens({ direct: 'a' }),
      balanced: it.listens({ balancers: [`${BALANCER}/32`] }),
      connect: it.listens({ agents: [`${AGENT}/32`] }),
    };
    return { ...common, clients: [], tables, listeners, others: pairPeers(it) };
  },
  assertStreams,
});

/** Notes who is connected with whom whenever the gateway reads or writes. */
function pairPeers({ io }: ScriptedPath): Map<ScriptedPeer, ScriptedPeer> {
  const others = new Map<ScriptedPeer, ScriptedPeer>();
  const { targetOf } = io;
  io.targetOf = handle => {
    const target = targetOf(handle);
    const [one, other] = [io.peerAt(handle), io.peerAt(target)];
    if (one !== undefined && other !== undefined) others.set(one, other).set(other, one);
    return target;
  };
  const write = io.write.bind(io);
  io.write = (handle, ...bytes) => {
    io.targetOf(handle);
    return write(handle, ...bytes);
  };
  return others;
}

/** Each side got the beginning of what the other one sent, or a refusal; all of it if the connection is `done`. */
function assertStreams(world: TunnelWorld): void {
  const { it, clients, others, stalled } = world;
  resumeAll(world);
  for (const backend of it.io.dialled.filter(({ received }) => received.length > 0)) {
    const client = clients.find(({ peer }) => peer === others.get(backend)) ?? assert.fail();
    assert.ok(startsWith(client.peer.sent.subarray(client.header), backend.received), 'bytes to a backend');
  }
  for (const { peer, answer } of clients) {
    if (isRefusal(peer.received)) continue;
    const sent = others.get(peer)?.sent ?? Buffer.alloc(0);
    assert.ok(startsWith(Buffer.concat([answer, sent]), peer.received), 'bytes to a client');
  }
  for (const { peer: from, why, bytesIn, bytesOut } of it.records) {
    const { peer, header, answer } = clientOf(world, from.port);
    assert.ok(bytesIn <= peer.sent.length && bytesOut >= peer.received.length);
    const backend = others.get(peer);
    if (backend === undefined) continue;
    const [toBackend, toClient] = [peer.sent.subarray(header), Buffer.concat([answer, backend.sent])];
    const areAllDelivered = [backend.received.equals(toBackend), peer.received.equals(toClient)];
    // Bytes before a reset arrive too, unless the target did not read in time. A failed write of node:net loses them.
    if (it.io.reports === 'state') {
      if (why === 'client-reset' && !stalled.has(backend) && !backend.hasSentReset)
        assert.deepEqual([areAllDelivered[0], backend.end], [true, 'reset']);
      if (why === 'backend-reset' && !stalled.has(peer) && !peer.hasSentReset)
        assert.deepEqual([areAllDelivered[1], peer.end], [true, 'reset']);
    }
    if (why !== 'done') continue;
    assert.deepEqual([bytesIn, bytesOut], [peer.sent.length, toClient.length]);
    // One that reset later may not have read everything.
    if (!backend.hasSentReset) assert.deepEqual([areAllDelivered[0], backend.end], [true, 'fin']);
    if (!peer.hasSentReset) assert.deepEqual([areAllDelivered[1], peer.end], [true, 'fin']);
  }
}

/** An alert, or another HTTP status than 200. */
function isRefusal(bytes: Buffer): boolean {
  return (
    Object.keys(alerts).some(alert => startsWith(tlsAlert(alert as keyof typeof alerts), bytes)) ||
    /^HTTP\/1\.1 [345]/.test(bytes.toString('latin1', 0, 20))
  );
}

/** A hello that no other client sends. */
function helloOf(host: string, number: number): Uint8Array {
  const sessionId = new Uint8Array(32).fill(number + 1);
  return inRecords(helloMessage({ sessionId, extensions: [serverNameExtension(host)] }));
}

function headerOf(kind: Kind, source: string, host: string): Buffer {
  if (kind === 'connect') return Buffer.from(`CONNECT ${host}:443 HTTP/1.1\r\n\r\n`);
  if (kind !== 'balanced') return Buffer.alloc(0);
  const address = parseIp(source) ?? assert.fail();
  return Buffer.from(
    buildProxyV2({ source: { address, port: 1 }, destination: { address: address.with(15, 99), port: 443 } }),
  );
}
