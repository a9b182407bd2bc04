// HTTP requests in any order: clients pipeline, upgrade, stall and leave; backends answer early, late, in pieces, or not
// at all. Whatever happens, each response a client gets is the one to its own request, and no backend gets a request of
// another cluster. Scripts are as in any-order.test.ts.

import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import type { Cluster, Route } from '../../cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { DIALING, EXCHANGING, IDENTIFYING, REQUESTING } from '../shared/rows.ts';
import { actionOf, deliverAll, inAnyOrder, nat, size, sources } from './any-order.samples.ts';
import {
  answer,
  assertStreams,
  type HttpWorld,
  type RequestPlan,
  type Response,
  requestsOf,
  responsesTo,
  send,
  serverOf,
  streamOf,
} from './http-world.samples.ts';
import type { ScriptedPath } from './scripted-path.samples.ts';

function web(name: string, backends: readonly string[], options: Partial<Route> = {}): Cluster {
  const route = sampleRoute({ kind: 'apps-http', hosts: [`${name}.lab`], ...options, backends });
  return sampleCluster(name, { routes: [{ ...route, pool: { ...route.pool, balance: 'round-robin' } }] });
}

const a = web('a', ['192.0.2.1:80']);
const b = web('b', ['192.0.2.2:80', '192.0.2.3:80']);
const p = web('p', ['192.0.2.4:80'], { proxyProtocol: 'v1' });
const r = web('r', [], { redirect: true });
const tables = [
  [a, b, p, r],
  [{ ...a, allow: ['198.51.100.0/24'] }, b, p, r],
  [{ ...a, limits: { connections: 2, perSource: 1, newPerSecond: 3 } }, b, p, r],
  [web('a', ['192.0.2.5:80']), b],
  [b],
  [],
];
const hosts = [
  ...Array<string>(7).fill('a.lab'),
  ...Array<string>(3).fill('b.lab'),
  'p.lab',
  'r.lab',
  'unknown.lab',
];
const isServed = new Set([IDENTIFYING, REQUESTING, DIALING, EXCHANGING]);
/** Retries of a dial take two seconds. */
const ROUNDS = 40;
const ROUND_MS = 100;

const plan: fc.Arbitrary<RequestPlan> = fc.record({
  method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'PUT', 'POST'),
  host: fc.constantFrom(...hosts),
  body: fc.constantFrom('none', 'length', 'chunked'),
  size,
  version: fc.constantFrom('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0'),
  keepAlive: fc.constantFrom(true, true, true, false),
});

const connects = actionOf(
  'connects',
  fc.record({
    from: nat,
    plans: fc.array(plan, { minLength: 1, maxLength: 5 }),
    upgrade: fc.boolean(),
    first: fc.constantFrom(0, 20, 300, 3000),
  }),
  ({ it, clients }: HttpWorld, { from, plans, upgrade, first }) => {
    const source = sources[from % sources.length];
    it.source(source);
    const peer = it.connects(source);
    const { stream, requests } = streamOf(clients.length, plans, upgrade);
    clients.push({ peer, stream, source, requests });
    peer.sends(stream.subarray(0, first));
  },
);

/** The rest of its next request, or of what comes behind an upgrade. */
const clientSendsRequest = actionOf('client sends a request', nat, ({ clients }: HttpWorld, which) => {
  const open = clients.filter(({ peer, stream }) => peer.isOpen && peer.sent.length < stream.length);
  const client = open[which % open.length];
  const sent = client?.peer.sent.length;
  const next = client?.requests.find(({ end }) => end > sent);
  client?.peer.sends(client.stream.subarray(sent, next?.end ?? sent + 100));
});

const response: fc.Arbitrary<Response> = fc.record({
  status: fc.constantFrom(200, 200, 200, 404, 500, 204, 304),
  framing: fc.constantFrom('length', 'length', 'length', 'chunked', 'chunked', 'close'),
  size,
  informational: fc.constantFrom(0, 0, 0, 1, 3),
  closes: fc.constantFrom(false, false, false, true),
  switches: fc.boolean(),
  isEarly: fc.constantFrom(false, false, true),
});
const leaves = fc.constantFrom(false, false, false, false, true);

const serverAnswers = actionOf(
  'server answers',
  fc.record({ which: nat, how: response, count: fc.oneof(size, fc.constant(Infinity)), resets: leaves }),
  (world: HttpWorld, { which, how, count, resets }) => {
    const asked = world.it.io.dialled.filter(
      peer => peer.isOpen && requestsOf(peer).length > serverOf(world, peer).answered,
    );
    const peer = asked[which % asked.length];
    if (peer === undefined) return;
    answer(world, peer, how);
    send(world, peer, count);
    if (resets) peer.resets();
  },
);

/** Most of the time with room for a part of the next response. */
const clientReadsSlowly = actionOf(
  'client reads slowly',
  fc.tuple(nat, fc.constantFrom(0, 1, 30, 100, 1000)),
  ({ clients, stalled }: HttpWorld, [which, room]) => {
    const open = clients.filter(({ peer }) => peer.isOpen);
    const client = open[which % open.length];
    if (client === undefined) return;
    if (!client.peer.isReading) return void client.peer.resumes();
    stalled.add(client.peer);
    client.peer.stalls(room);
  },
);

const everythingArrives = actionOf('everything arrives', fc.constant(null), deliverAll);

const serverSends = actionOf('server sends', fc.tuple(nat, size), (world: HttpWorld, [which, count]) => {
  const peer = world.it.io.dialled[which % world.it.io.dialled.length];
  if (peer !== undefined) send(world, peer, count);
});

/** Between two responses: within one, nobody could tell it from a body. */
const serverSaysNonsense = actionOf('server says nonsense', nat, (world: HttpWorld, which) => {
  const peer = world.it.io.dialled[which % world.it.io.dialled.length];
  if (peer === undefined) return;
  const server = serverOf(world, peer);
  if (server.outbox.length > 0 || server.hasSwitched) return;
  peer.sends('nonsense\r\n\r\n');
  server.hasBabbled = true;
});

inAnyOrder('HTTP: in any order, each request gets its own response, and nothing is left', {
  actions: [
    { arbitrary: connects, weight: 10 },
    { arbitrary: clientSendsRequest, weight: 30, isOfPeers: true },
    { arbitrary: serverAnswers, weight: 40, isOfPeers: true },
    { arbitrary: serverSends, weight: 10, isOfPeers: true },
    { arbitrary: everythingArrives, weight: 40 },
    { arbitrary: serverSaysNonsense, weight: 2, isOfPeers: true },
    { arbitrary: clientReadsSlowly, weight: 10, isOfPeers: true },
  ],
  newWorld(common): HttpWorld {
    const { it } = common;
    it.serves(tables[0]);
    targetBodiesOnly(it);
    return { ...common, clients: [], tables, servers: new Map(), answers: new Map() };
  },
  settle: answerAll,
  assertStreams,
});

/**
 * Behind a whole request, a client is read ahead, whether its backend reads or not; and so is one that has failed, for
 * the error.
 */
function targetBodiesOnly({ io, path }: ScriptedPath): void {
  const { targetOf } = io;
  io.targetOf = handle => {
    const exchange = path.exchanges[handle];
    const isAhead =
      exchange !== undefined && !exchange.isSwitched && (exchange.isWhole || exchange.isUnwanted);
    return isAhead || io.peerAt(handle)?.hasSentReset === true ? -1 : targetOf(handle);
  };
}

/** Clients send all that they have begun, servers answer: now everybody who is still there has been answered. */
function answerAll(world: HttpWorld): void {
  const { it, clients } = world;
  for (const { peer, stream, requests } of clients) {
    const begun = requests.find(({ end }) => end > peer.sent.length);
    if (peer.sent.length > 0) peer.sends(stream.subarray(peer.sent.length, begun?.end));
  }
  const plainly = { framing: 'length', size: 10, informational: 0, closes: false } as const;
  for (let round = 0; round < ROUNDS; round++) {
    for (const peer of it.io.dialled) {
      peer.accepts();
      answer(world, peer, { ...plainly, status: 200, switches: false, isEarly: false });
      send(world, peer, Infinity);
    }
    deliverAll(world);
    it.io.passes(ROUND_MS);
  }
  it.assertAtRest();
  for (const handle of it.io.open) {
    const peer = it.io.peerAt(handle) ?? assert.fail();
    const client = clients.find(one => one.peer === peer);
    if (client === undefined || !isServed.has(it.path.rows.state[handle])) continue;
    const sent = client.requests.filter(({ end }) => end <= peer.sent.length);
    assert.ok(responsesTo(client, world).length >= sent.length, 'a request is not answered');
  }
}
