// All stages together: clients, backends, time and the operator act at random, and events arrive in random order and in
// pieces of random sizes. Whatever happens, bytes arrive in order, each connection has one reason, and nothing is left.
//
// A failure prints the seed and path: CAUSEWAY_SEED=<seed> repeats it, CAUSEWAY_RUNS=<number> tries for longer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../wire/hello.samples.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { buildProxyV2 } from '../../wire/proxy-protocol.ts';
import { alerts, tlsAlert } from '../../wire/tls-alert.ts';
import { EXHAUSTED, REFUSED, TIMED_OUT, UNREACHABLE } from '../io/reactor.ts';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import type { ConnectAnswer } from '../io/scripted-reactor.samples.ts';
import { ScriptedPath } from './scripted-path.samples.ts';

/** Longer than all time-outs together. */
const FOREVER_MS = 600_000;
/** Clusters that come back get new slots, and only so many are checked. */
const MAX_TABLES = 8;
/** Few, so that limits and the shortage of descriptors are met often. */
const CAPACITY = 18;

const BALANCER = '198.51.100.1';
const AGENT = '198.51.100.2';
const ESTABLISHED = Buffer.from('HTTP/1.1 200 Connection established\r\n\r\n');
const sources = ['198.51.100.7', '198.51.100.8', '203.0.113.1'];
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

const answers: readonly ConnectAnswer[] = [
  'accept',
  'accept',
  'silence',
  REFUSED,
  TIMED_OUT,
  { atOnce: UNREACHABLE },
  { atOnce: EXHAUSTED },
];

/** A client with all bytes that it is going to send. */
interface Client {
  readonly peer: ScriptedPeer;
  readonly stream: Buffer;
  /** Of those, the first are for the gateway only. */
  readonly header: number;
  /** What the gateway sends in front of the backend's bytes. */
  readonly answer: Buffer;
}

/** A client of ours or of an agent, which does not look at its bytes; behind a balancer; or an agent with a CONNECT. */
type Kind = 'plain' | 'direct' | 'balanced' | 'connect';

/** What a script acts on. */
interface World {
  readonly it: ScriptedPath;
  /** By kind of client. */
  readonly listeners: Readonly<Record<Kind, number>>;
  readonly clients: Client[];
  /** The other side of each peer's connection through the gateway, or the last one that was tried. */
  readonly others: Map<ScriptedPeer, ScriptedPeer>;
  /** Peers that did not read for a while. */
  readonly stalled: Set<ScriptedPeer>;
  /** The next random size or choice. */
  readonly next: () => number;
  tables: number;
}

type Action = (world: World) => void;

/** An action that a failure shows as the values it was made of. */
function actionOf<Values>(
  name: string,
  values: fc.Arbitrary<Values>,
  act: (world: World, values: Values) => void,
): fc.Arbitrary<Action> {
  return values.map(chosen =>
    Object.assign((world: World) => act(world, chosen), {
      [fc.toStringMethod]: () => `${name} ${fc.stringify(chosen)}`,
    }),
  );
}

const nat = fc.nat({ max: 1000 });
/** Mostly a few bytes, sometimes more than a peer's window. */
const size = fc.oneof(fc.nat({ max: 50 }), fc.nat({ max: 3000 }), fc.constant(70_000));

const connects = actionOf(
  'connects',
  fc.record({
    kind: fc.constantFrom<Kind>('plain', 'plain', 'balanced', 'direct', 'connect'),
    from: nat,
    host: nat,
    first: fc.constantFrom(0, 20, 300, 300),
  }),
  ({ it, clients, listeners }, { kind, from, host, first }) => {
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

const clientSends = actionOf('client sends', fc.tuple(nat, size), ({ clients }, [which, count]) => {
  const client = clients[which % clients.length];
  client?.peer.sends(client.stream.subarray(client.peer.sent.length, client.peer.sent.length + count));
});

/** The whole hello, so that most connections get further than that. */
const clientSaysHello = actionOf('client says hello', nat, ({ clients }, which) => {
  const client = clients[which % clients.length];
  client?.peer.sends(client.stream.subarray(client.peer.sent.length, 300));
});

const backendSends = actionOf('backend sends', fc.tuple(nat, size), ({ it: { io } }, [which, count]) => {
  const index = which % io.dialled.length;
  const peer = io.dialled[index];
  const sent = peer?.sent.length;
  peer?.sends(patternFrom(`S${index}:`).subarray(sent, sent + count));
});

const peerActs = actionOf(
  'peer acts',
  fc.record({
    which: nat,
    isClient: fc.boolean(),
    count: size,
    what: fc.constantFrom(
      'fin',
      'resets',
      'closes',
      'stalls',
      'reads',
      'resumes',
      'resumes',
      'accepts',
      'refuses',
    ),
  }),
  ({ it, clients, stalled }, { which, isClient, count, what }) => {
    const peers = isClient ? clients.map(({ peer }) => peer) : it.io.dialled;
    const peer = peers[which % peers.length];
    if (what === 'stalls') stalled.add(peer);
    if (what === 'stalls' || what === 'reads') peer?.[what](count);
    else if (!isClient || (what !== 'accepts' && what !== 'refuses')) peer?.[what]();
  },
);

const delivers = actionOf('delivers', fc.integer({ min: 1, max: 8 }), ({ it, next }, steps) => {
  for (let step = 0; step < steps && it.io.step(next()); step++);
});

const comesToRest = actionOf('comes to rest', fc.constant(null), world => {
  deliverAll(world);
  world.it.assertAtRest();
});

const timePasses = actionOf(
  'time passes',
  fc.constantFrom(1, 20, 300, 3000, 10_000, 30_000, 100_000),
  ({ it }, ms) => it.io.passes(ms),
);

const tableChanges = actionOf('table changes', nat, (world, which) => {
  if (world.tables++ < MAX_TABLES) world.it.serves(tables[which % tables.length]);
});

const backendsChange = actionOf('backends change', nat, ({ it: { io } }, which) => {
  io.answer = () => answers[which % answers.length];
});

const othersAct = actionOf(
  'others act',
  fc.constantFrom('drains', 'cuts', 'exhausted', 'exhausted', 'relieved', 'relieved', 'relieved'),
  ({ it }, what) => {
    if (what === 'drains') it.drains();
    else if (what === 'cuts') it.cuts('drained');
    else it.io.isExhausted = what === 'exhausted';
  },
);

const action = fc.oneof(
  { arbitrary: connects, weight: 5 },
  { arbitrary: clientSaysHello, weight: 8 },
  { arbitrary: clientSends, weight: 6 },
  { arbitrary: backendSends, weight: 6 },
  { arbitrary: peerActs, weight: 8 },
  { arbitrary: delivers, weight: 10 },
  { arbitrary: comesToRest, weight: 3 },
  { arbitrary: timePasses, weight: 2 },
  { arbitrary: tableChanges, weight: 1 },
  { arbitrary: backendsChange, weight: 2 },
  { arbitrary: othersAct, weight: 1 },
);

/** How a script ends: everyone closes, everyone resets, or nobody does anything more. */
const finale = fc.constantFrom('fin', 'fin', 'reset', 'silence');

const script = fc.record({
  actions: fc.array(action, { minLength: 5, maxLength: 120, size: 'max' }),
  finale,
  /** Random numbers for sizes and choices, used again and again. */
  numbers: fc.array(fc.nat({ max: 400 }), { minLength: 1, maxLength: 40 }),
  isSplit: fc.boolean(),
});

for (const reports of ['state', 'changes'] as const)
  test(`stages: in any order, every byte arrives in order, and nothing is left (${reports})`, () => {
    const seed = process.env['CAUSEWAY_SEED'];
    fc.assert(
      fc.property(script, ({ actions, finale, numbers, isSplit }) => {
        const world = newWorld(reports, numbers, isSplit);
        for (const act of actions) act(world);
        finish(world, finale);
        world.it.assertOver();
        assertStreams(world);
      }),
      {
        numRuns: Number(process.env['CAUSEWAY_RUNS'] ?? 500),
        ...(seed !== undefined && { seed: Number(seed) }),
      },
    );
  });

function newWorld(reports: 'state' | 'changes', numbers: readonly number[], isSplit: boolean): World {
  const it = new ScriptedPath({
    reports,
    capacity: CAPACITY,
    clusters: tables[0],
    settings: { connections: 8, pending: 6, pendingPerSource: 4, perSource: 5 },
  });
  const listeners = {
    plain: it.listener,
    direct: it.listens({ direct: 'a' }),
    balanced: it.listens({ balancers: [`${BALANCER}/32`] }),
    connect: it.listens({ agents: [`${AGENT}/32`] }),
  };
  let turn = 0;
  const next = () => numbers[turn++ % numbers.length];
  // Now and then everything, so that many bytes do not take forever.
  const pieces = () => {
    let turn = 0;
    return () => (turn++ % 4 === 3 ? Infinity : next());
  };
  if (isSplit) {
    it.io.mostRead = pieces();
    it.io.mostWritten = pieces();
  }
  return { it, listeners, clients: [], others: pairPeers(it), stalled: new Set(), next, tables: 0 };
}

function deliverAll({ it, next }: World): void {
  for (let steps = 0; it.io.step(next()); steps++)
    assert.ok(steps < 100_000, 'the stages never come to rest');
}

function finish(world: World, finale: 'fin' | 'reset' | 'silence'): void {
  const { it, clients } = world;
  it.io.isExhausted = false;
  if (finale === 'reset') return it.endAll();
  if (finale === 'silence') return it.io.passes(FOREVER_MS);
  it.io.answer = () => 'accept';
  const all = () => [...clients.map(({ peer }) => peer), ...it.io.dialled];
  for (const peer of it.io.dialled) peer.accepts();
  for (const peer of all()) peer.resumes();
  deliverAll(world);
  it.assertAtRest();
  // Backends that are dialled later close later.
  for (let round = 0; round < 10; round++) {
    for (const peer of all()) peer.fin();
    deliverAll(world);
    it.assertAtRest();
    it.io.passes(1000);
  }
  // The long deadlines of ended tunnels are not due yet.
  if (it.io.open.length === 0 && it.path.closing.size === 0) assert.equal(it.io.alarmAt, Infinity);
  it.io.passes(FOREVER_MS);
}

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
function assertStreams({ it, clients, others, stalled }: World): void {
  // What the kernel has taken still reaches those who have not read.
  for (const peer of [...clients.map(({ peer }) => peer), ...it.io.dialled]) peer.resumes();
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
    const client = clients.find(({ peer }) => peer.name.endsWith(`:${from.port}`)) ?? assert.fail();
    const { peer, header, answer } = client;
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

function startsWith(all: Uint8Array, first: Uint8Array): boolean {
  return Buffer.compare(all.subarray(0, first.length), first) === 0;
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

const patterns = new Map<string, Buffer>();

/** Bytes that start with that name, without two places nearby that look alike. */
function patternFrom(name: string): Buffer {
  let bytes = patterns.get(name);
  if (bytes === undefined) {
    bytes = Buffer.concat([
      Buffer.from(name),
      Buffer.alloc(
        1_000_000,
        Uint8Array.from({ length: 251 }, (_, i) => i),
      ),
    ]);
    patterns.set(name, bytes);
  }
  return bytes;
}
