// Faults at every moment: a connection runs from accept to its end over a fake reactor, with an exception in the first,
// second, … of all calls that it makes to the reactor, the table, the wheel and shared memory. In every case exactly
// one connection ends, every count is released, each handle is closed once, and the neighbour continues.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../wire/hello.samples.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { closeReasons } from '../close-reason.ts';
import { AGAIN, HUNG_UP, READABLE, type Reactor, WRITABLE } from '../io/reactor.ts';
import { NonceTable, nonceTableBytes } from '../shared/nonce-table.ts';
import { type ConnectionRecord, newRecordRing, RecordReader, RecordWriter } from '../shared/record-ring.ts';
import { LISTENER, Rows } from '../shared/rows.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  BACKEND_FIELDS,
  BucketPages,
  CLUSTER_ACTIVE,
  CLUSTER_FIELDS,
  FIRST_SLOT,
  REASONS_AT,
  RequestCounters,
  RouteCounters,
  SharedSlots,
  TOTAL_CONNECTIONS,
  TOTAL_FIELDS,
  TOTAL_PENDING,
} from '../shared/shared-memory.ts';
import { SourceCounts, sourceCountsBytes } from '../shared/source-counts.ts';
import { compileListener } from '../table/listener-table.ts';
import { TableAuthor } from '../table/table-author.ts';
import type { Settings, Shared } from './data-path.ts';
import { Dispatcher } from './dispatch.ts';
import { cutAll } from './end.ts';

const CAPACITY = 64;
const LISTENING = 3;
const SOURCE = parseIp('192.0.2.7') ?? assert.fail();
const IDLE_MS = 60_000;

const settings: Settings = {
  helloMs: 5000,
  connectMs: 3000,
  idleMs: IDLE_MS,
  halfClosedMs: undefined,
  keepaliveMs: undefined,
  stalledMs: undefined,
  retries: 3,
  connections: 100,
  pending: 100,
  pendingPerSource: undefined,
  clientFiles: 4096,
  perSource: 50,
  log: 'all',
};

/** Calls of the loop itself, on behalf of no connection. */
const exempt = new Set(['io.now', 'io.wakeAt']);

/** Throws in chosen calls. */
class Injection {
  calls = 0;
  isArmed = false;
  /** Numbers of the calls that throw. */
  at: readonly number[] = [];
  readonly names: string[] = [];

  /** The same object, with methods that may throw before they do anything. */
  into<T extends object>(name: string, target: T): T {
    return new Proxy(target, {
      get: (of, key) => {
        const value: unknown = Reflect.get(of, key, of);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]): unknown => {
          this.#count(`${name}.${String(key)}`);
          return (value as (...args: unknown[]) => unknown).apply(of, args);
        };
      },
    });
  }

  /** The same for methods of an object that cannot be replaced by a proxy. */
  intoMethods(name: string, target: object, methods: readonly string[]): void {
    for (const method of methods) {
      const original = (Reflect.get(target, method) as (...args: unknown[]) => unknown).bind(target);
      Object.defineProperty(target, method, {
        value: (...args: unknown[]): unknown => {
          this.#count(`${name}.${method}`);
          return original(...args);
        },
      });
    }
  }

  #count(name: string): void {
    if (!this.isArmed || exempt.has(name)) return;
    const number = this.calls++;
    if (!this.at.includes(number)) return;
    this.names.push(name);
    throw new Error(`injected: ${name}`);
  }
}

/** Open handles, the bytes that can be read from them, and the bytes that were written. */
class FakeReactor {
  readonly capacity = CAPACITY;
  readonly readSize = Infinity;
  time = 1_000_000;
  #next = LISTENING + 1;
  readonly waiting: number[] = [];
  readonly open = new Set<number>();
  readonly readable = new Map<number, Buffer[]>();
  readonly ended = new Set<number>();
  readonly written = new Map<number, number>();
  /** Handles that were closed, and how: none may appear twice. */
  readonly closed: number[] = [];
  soonAsked = false;
  accepted = 0;

  take(): number {
    const handle = this.#next++;
    this.open.add(handle);
    this.readable.set(handle, []);
    return handle;
  }

  now(): number {
    return this.time;
  }

  wakeAt(): void {}

  descriptor(handle: number): number {
    return handle;
  }

  soon(): void {
    this.soonAsked = true;
  }

  accept(): number {
    const handle = this.waiting.shift();
    if (handle === undefined) return AGAIN;
    this.accepted++;
    return handle;
  }

  connect(): number {
    return this.take();
  }

  peerAddress(_: number, into: Uint8Array, at: number): number {
    into.set(SOURCE, at);
    return 40_000;
  }

  localAddress(_: number, into: Uint8Array, at: number): number {
    into.set(SOURCE, at);
    return 443;
  }

  keepAlive(): void {}

  read(handle: number, into: Uint8Array, from: number, to: number): number {
    const chunk = this.readable.get(handle)?.shift();
    if (chunk === undefined) return this.ended.has(handle) ? 0 : AGAIN;
    assert.ok(chunk.length <= to - from);
    into.set(chunk, from);
    return chunk.length;
  }

  write(handle: number, _: Uint8Array, from: number, to: number): number {
    this.written.set(handle, (this.written.get(handle) ?? 0) + to - from);
    return to - from;
  }

  shutdown(): void {}

  reset(handle: number): void {
    this.close(handle);
  }

  close(handle: number): void {
    if (this.open.delete(handle)) this.closed.push(handle);
  }
}

const cluster = sampleCluster('a', {
  limits: { connections: 10, perSource: 10, newPerSecond: 1000 },
  routes: [
    sampleRoute({ hosts: ['a.lab'], backends: ['192.0.2.1:6443', '192.0.2.2:6443'], proxyProtocol: 'v2' }),
  ],
});

function given() {
  const injection = new Injection();
  const io = new FakeReactor();
  const ring = newRecordRing();
  const totals = new Int32Array(new SharedArrayBuffer(TOTAL_FIELDS * 4));
  const counters = new RouteCounters();
  const clusters = new SharedSlots(CLUSTER_FIELDS);
  const backends = new SharedSlots(BACKEND_FIELDS);
  const buckets = new BucketPages();
  counters.addPage(RouteCounters.newPage());
  clusters.addPage(SharedSlots.newPage(CLUSTER_FIELDS));
  backends.addPage(SharedSlots.newPage(BACKEND_FIELDS));
  buckets.addPage(BucketPages.newPage());
  const sources = new SourceCounts(new SharedArrayBuffer(sourceCountsBytes(100)), 1);
  const shared: Shared = {
    rows: new Rows(Rows.memory(CAPACITY)),
    totals,
    counters: injection.into('counters', counters),
    requests: new RequestCounters(),
    clusters: injection.into('clusters', clusters),
    backends: injection.into('backends', backends),
    buckets: injection.into('buckets', buckets),
    sources: injection.into('sources', sources),
    nonces: new NonceTable(new SharedArrayBuffer(nonceTableBytes(100)), 1),
    records: injection.into('records', new RecordWriter(ring, () => {})),
  };
  const faults: unknown[] = [];
  const reactor = injection.into('io', io) as unknown as Reactor;
  const nothing = () => {};
  const path = new Dispatcher(reactor, shared, settings, {
    message: nothing,
    failed: nothing,
    uplinkRefused: nothing,
    fault: error => faults.push(error),
  });
  injection.intoMethods('table', path.table, ['routesByHost', 'route']);
  injection.intoMethods('wheel', path.wheel, ['set', 'clear']);
  injection.intoMethods('holds', path.holds, ['take', 'give']);
  path.table.apply([], new TableAuthor().change([cluster], backend => [backend.host]).put);
  path.listeners[0] = compileListener({ on: ':1', balancers: [], agents: [], idTlv: [] });
  path.rows.state[LISTENING] = LISTENER;
  path.rows.listener[LISTENING] = 0;
  const records: ConnectionRecord[] = [];
  const read = new RecordReader(ring);
  const reasons = () => {
    const counted: Record<string, number> = {};
    for (const slot of [0, FIRST_SLOT])
      for (const [index, reason] of closeReasons.entries()) {
        const count = counters.get(slot, REASONS_AT + index);
        if (count > 0) counted[reason] = (counted[reason] ?? 0) + count;
      }
    return counted;
  };
  /** Every count of something open, of whatever kind; all are 0 when nothing is open. */
  const open = () => [
    totals[TOTAL_CONNECTIONS],
    totals[TOTAL_PENDING],
    sources.count(0, SOURCE, 0),
    sources.count(1, SOURCE, 0),
    clusters.get(1, CLUSTER_ACTIVE),
    counters.get(FIRST_SLOT, ACTIVE_AT),
    backends.get(1, BACKEND_ACTIVE) + backends.get(2, BACKEND_ACTIVE),
  ];
  const takeRecords = () => {
    read.take(record => records.push(record));
    return records;
  };
  return { injection, io, path, faults, reasons, open, takeRecords };
}

type Given = ReturnType<typeof given>;

const hello = Buffer.from(inRecords(helloMessage({ extensions: [serverNameExtension('a.lab')] })));

/** The events of a normal start, in order, as the reactor reports them. Returns the handles of both sides. */
function beginTunnel({ io, path }: Given): { readonly client: number; readonly backend: () => number } {
  const client = io.take();
  io.waiting.push(client);
  path.event(LISTENING, READABLE);
  receive(io, client, hello.subarray(0, 20));
  event({ io, path }, client, READABLE);
  receive(io, client, hello.subarray(20));
  event({ io, path }, client, READABLE);
  const backend = () => path.rows.peer[client];
  event({ io, path }, backend(), WRITABLE);
  return { client, backend };
}

function receive(io: FakeReactor, handle: number, bytes: Uint8Array): void {
  io.readable.get(handle)?.push(Buffer.from(bytes));
}

/** Only for an open handle, as the reactor promises. */
function event({ io, path }: Pick<Given, 'io' | 'path'>, handle: number, events: number): void {
  if (io.open.has(handle)) path.event(handle, events);
}

const endings: Record<string, (it: Given, client: number, backend: () => number) => void> = {
  'FIN from both': (it, client, backend) => {
    it.io.ended.add(client);
    event(it, client, READABLE | HUNG_UP);
    const other = backend();
    it.io.ended.add(other);
    event(it, other, READABLE | HUNG_UP);
  },
  'the idle time-out': it => {
    it.io.time += 2 * IDLE_MS;
    it.path.turn();
    it.io.time += 2 * IDLE_MS;
    it.path.turn();
  },
  'a cut': it => cutAll(it.path, 'drained'),
  'a refusal': (it, client) => {
    // Another client, without SNI: it is refused before the cut.
    const stranger = it.io.take();
    it.io.waiting.push(stranger);
    it.path.event(LISTENING, READABLE);
    receive(it.io, stranger, inRecords(helloMessage({ extensions: [] })));
    event(it, stranger, READABLE);
    it.io.ended.add(stranger);
    event(it, stranger, READABLE | HUNG_UP);
    cutAll(it.path, 'drained');
    assert.ok(!it.io.open.has(client));
  },
};

/** A connection from accept to end, beside a neighbour's; then checks that nothing is left of it. */
function run(it: Given, ending: keyof typeof endings): void {
  const { injection, io, path } = it;
  const neighbour = beginTunnel(it);
  injection.isArmed = true;
  const { client, backend } = beginTunnel(it);
  receive(io, client, Buffer.from('ping'));
  event(it, client, READABLE);
  const other = backend();
  if (other >= 0) {
    receive(io, other, Buffer.from('pong'));
    event(it, other, READABLE);
  }
  endings[ending](it, client, backend);
  // A listener that threw accepts again after a moment, and at the next event in any case.
  io.time += 200;
  path.turn();
  if (it.injection.at.length > 1) path.event(LISTENING, READABLE);
  // A client that a fault at the accept left waiting is accepted now, and leaves.
  const others = new Set([neighbour.client, neighbour.backend()]);
  for (const handle of [...io.open].filter(open => !others.has(open))) {
    io.ended.add(handle);
    event(it, handle, READABLE | HUNG_UP);
  }
  injection.isArmed = false;
  if (io.open.has(neighbour.client)) assertPasses(it, neighbour.client, neighbour.backend());
  cutAll(path, 'drained');
}

function assertPasses(it: Given, client: number, backend: number): void {
  const before = it.io.written.get(backend) ?? 0;
  receive(it.io, client, Buffer.from('neighbour'));
  event(it, client, READABLE);
  assert.equal((it.io.written.get(backend) ?? 0) - before, 'neighbour'.length);
}

function assertNothingLeft(it: Given, faults: number, what: string): void {
  const { io, path, open, reasons, takeRecords } = it;
  assert.deepEqual(open(), [0, 0, 0, 0, 0, 0, 0], what);
  // Lingering connections are not counted, and close after a while.
  io.time += 10_000;
  path.turn();
  assert.deepEqual([...io.open], [], `${what}: handles`);
  assert.equal(new Set(io.closed).size, io.closed.length, `${what}: closed twice`);
  assert.deepEqual(
    [...path.rows.state].filter((state, handle) => state !== 0 && handle !== LISTENING),
    [],
    what,
  );
  assert.deepEqual([path.lingering, path.dialOrders.size], [0, 0], what);
  // One reason per connection and one record per reason; at most one `fault` per injected fault.
  const { fault = 0, 'no-data': silent = 0, ...others } = reasons();
  const counted = Object.values(others).reduce((sum, count) => sum + count, 0) + fault;
  assert.equal(counted + silent, io.accepted, `${what}: ${JSON.stringify(reasons())}`);
  const lost = it.injection.names.filter(name => name === 'records.write').length;
  assert.equal(takeRecords().length, counted - lost, `${what}: records`);
  assert.ok(fault <= faults, what);
  assert.equal(it.faults.length, faults, what);
}

for (const ending of Object.keys(endings)) {
  test(`DataPath: a fault in any call of a connection that ends by ${ending} ends only that connection`, () => {
    const whole = given();
    run(whole, ending);
    assertNothingLeft(whole, 0, 'no fault');
    const { calls } = whole.injection;
    assert.ok(calls > 45, `${calls} calls`);
    for (let at = 0; at < calls; at++) {
      const it = given();
      it.injection.at = [at];
      run(it, ending);
      if (it.injection.names.length === 0) continue;
      assertNothingLeft(it, 1, `${it.injection.names[0]}, call ${at}`);
    }
  });
}

test('DataPath: a second fault, while the first one ends its connection, leaves nothing behind either', () => {
  const first = given();
  run(first, 'a cut');
  for (let at = 0; at < first.injection.calls; at++) {
    for (let second = at + 1; second < at + 30; second++) {
      const it = given();
      it.injection.at = [at, second];
      run(it, 'a cut');
      if (it.injection.names.length < 2) continue;
      const what = `${it.injection.names.join(' and ')}, calls ${at} and ${second}`;
      // The second fault hits another connection if the first one's was already gone.
      assertNothingLeft(it, it.faults.length, what);
      assert.ok(it.faults.length <= 2, what);
    }
  }
});

describe('DataPath: a connection that throws does not keep others from being served', () => {
  /** Tunnels, one of which throws on read. */
  function tunnels(count: number) {
    const it = given();
    const all = Array.from({ length: count }, () => {
      const { client, backend } = beginTunnel(it);
      return { client, backend: backend() };
    });
    return { it, all };
  }

  test('among those resumed in one turn', () => {
    const { it, all } = tunnels(3);
    const { io, path } = it;
    const read = io.read.bind(io);
    io.read = (handle, into, from, to) => {
      if (handle === all[0].client) throw new Error('injected');
      return read(handle, into, from, to);
    };
    for (const { client } of all) {
      receive(io, client, Buffer.from('again'));
      path.resumeLater(client);
    }
    const before = all.map(({ backend }) => io.written.get(backend) ?? 0);
    path.turn();
    const moved = all.map(({ backend }, index) => (io.written.get(backend) ?? 0) - before[index]);
    assert.deepEqual(moved, [0, 5, 5]);
    assert.deepEqual([it.faults.length, it.reasons()], [1, { fault: 1 }]);
    assert.deepEqual(
      all.map(({ client }) => io.open.has(client)),
      [false, true, true],
    );
  });

  test('among those that expire together', () => {
    const { it, all } = tunnels(3);
    const { io, path } = it;
    io.keepAlive = () => {
      if (path.rows.peer[all[1].client] >= 0 && it.faults.length === 0) throw new Error('injected');
    };
    io.time += 2 * IDLE_MS;
    path.turn();
    assert.deepEqual([it.faults.length, it.reasons()], [1, { fault: 1, 'idle-timeout': 2 }]);
    assert.deepEqual(it.open(), [0, 0, 0, 0, 0, 0, 0]);
  });

  test('without counters for its route, it is counted among those without a route', () => {
    const { it, all } = tunnels(2);
    const { io, path } = it;
    path.rows.slot[all[0].client] = 5000;
    receive(io, all[0].client, Buffer.from('bytes'));
    path.event(all[0].client, READABLE);
    assert.deepEqual([it.faults.length, it.reasons()], [1, { fault: 1 }]);
    assert.equal(it.open()[0], 1);
    assert.ok(!io.open.has(all[0].client) && !io.open.has(all[0].backend));
    path.event(all[1].client, READABLE);
    assert.equal(it.faults.length, 1);
  });
});
