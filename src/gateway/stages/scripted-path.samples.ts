// For tests: the data path of one worker on a scripted reactor, with a table of clusters and one listener, as worker.ts
// builds it. Tests play clients and backends, let time pass, and look at what each side saw, at the records and at the
// counts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster } from '../../cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { helloMessage, inRecords, serverNameExtension } from '../../wire/hello.samples.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { type CloseReason, closeReasons } from '../close-reason.ts';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import { type ScriptedOptions, ScriptedReactor } from '../io/scripted-reactor.samples.ts';
import { NonceTable, nonceTableBytes } from '../shared/nonce-table.ts';
import {
  type ConnectionRecord,
  newRecordRing,
  RecordReader,
  RecordWriter,
  type RequestRecord,
} from '../shared/record-ring.ts';
import { EXCHANGING, LISTENER, REQUESTING, Rows, TUNNEL } from '../shared/rows.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  BACKEND_FIELDS,
  BucketPages,
  BYTES_IN_AT,
  BYTES_OUT_AT,
  CLUSTER_ACTIVE,
  CLUSTER_FIELDS,
  KEPT_AT,
  REASONS_AT,
  RequestCounters,
  RouteCounters,
  SharedSlots,
  TOTAL_CONNECTIONS,
  TOTAL_FIELDS,
  TOTAL_PENDING,
} from '../shared/shared-memory.ts';
import { GATEWAY_SCOPE, PENDING_SCOPE, SourceCounts, sourceCountsBytes } from '../shared/source-counts.ts';
import { compileListener, type ListenerEntry } from '../table/listener-table.ts';
import { TableAuthor } from '../table/table-author.ts';
import { closeListener } from './accept.ts';
import type { Settings, Shared } from './data-path.ts';
import { Dispatcher } from './dispatch.ts';
import { cutAll } from './end.ts';
import type { ExchangeState } from './exchange-state.ts';
import { drainRequests } from './request.ts';
import { revoke } from './revoke.ts';

/** Slots whose counters are checked: more than any test's table has. */
const slots = Array.from({ length: 96 }, (_, slot) => slot);

/** Longer than all time-outs together. */
const FOREVER_MS = 600_000;

/** Each time-out has its own length, so that a test shows which one expired. */
const scriptedSettings: Settings = {
  helloMs: 5000,
  connectMs: 3000,
  idleMs: 60_000,
  halfClosedMs: 20_000,
  keepaliveMs: undefined,
  stalledMs: 10_000,
  retries: 3,
  connections: 100,
  clientFiles: 4096,
  pending: 100,
  pendingPerSource: 20,
  perSource: 50,
  log: 'all',
};

/** Serves a.lab at 192.0.2.1. */
export const oneBackend = sampleCluster('a', { routes: [sampleRoute({ hosts: ['a.lab'] })] });

/** A ClientHello that asks for that host. */
export function helloFor(host: string): Buffer {
  return Buffer.from(inRecords(helloMessage({ extensions: [serverNameExtension(host)] })));
}

export interface ScriptedPathOptions extends ScriptedOptions {
  readonly clusters?: readonly Cluster[];
  readonly settings?: Partial<Settings>;
  readonly listener?: Partial<ListenerEntry>;
}

/** Counts of things that are open; all are 0 when nothing is. */
export interface OpenCounts {
  readonly connections: number;
  readonly pending: number;
  readonly routes: number;
  readonly clusters: number;
  readonly backends: number;
  /** Per source, for the gateway, for pending connections and for clusters. */
  readonly sources: number;
  /** Bytes of memory for what a side does not take. */
  readonly kept: number;
  readonly lingering: number;
  readonly dialOrders: number;
}

const nothingOpen: OpenCounts = {
  connections: 0,
  pending: 0,
  routes: 0,
  clusters: 0,
  backends: 0,
  sources: 0,
  kept: 0,
  lingering: 0,
  dialOrders: 0,
};

/**
 * Runs a test on a reactor that reports as epoll does and on one that reports as node:net does. Afterwards every peer
 * resets, and nothing of any connection may be left.
 */
export function scriptedTest(
  name: string,
  options: ScriptedPathOptions,
  body: (it: ScriptedPath) => void,
): void {
  for (const reports of ['state', 'changes'] as const)
    test(`${name} (${reports})`, () => {
      const it = new ScriptedPath({ ...options, reports });
      body(it);
      it.endAll();
      it.assertOver();
    });
}

export class ScriptedPath {
  readonly io: ScriptedReactor;
  readonly path: Dispatcher;
  readonly listener: number;
  /** Exceptions of our own code. */
  readonly faults: unknown[] = [];
  readonly #shared: Shared;
  readonly #author = new TableAuthor();
  readonly #reader: RecordReader;
  readonly #records: ConnectionRecord[] = [];
  readonly #requests: RequestRecord[] = [];
  readonly #sources = new Set<string>();
  readonly #clients: ScriptedPeer[] = [];
  readonly #listeners: number[] = [];
  #port = 40_000;

  constructor({ clusters = [oneBackend], settings, listener, ...options }: ScriptedPathOptions = {}) {
    this.io = new ScriptedReactor(options);
    const ring = newRecordRing();
    this.#reader = new RecordReader(ring);
    this.#shared = newShared(this.io.capacity, ring);
    const nothing = () => {};
    const all = { ...scriptedSettings, ...settings };
    this.path = new Dispatcher(this.io, this.#shared, all, {
      message: nothing,
      failed: nothing,
      uplinkRefused: nothing,
      fault: error => this.faults.push(error),
    });
    this.io.targetOf = handle => this.path.rows.peer[handle];
    this.io.stalled(all.stalledMs ?? 0);
    this.io.run(this.path);
    this.listener = this.listens(listener);
    this.serves(clusters);
  }

  /** Applies a new table, as a worker does, and ends the connections that it no longer permits. */
  serves(clusters: readonly Cluster[]): void {
    const { removed, put } = this.#author.change(clusters, backend => [backend.host]);
    this.path.table.apply(removed, put);
    revoke(this.path, removed.length > 0, new Set(put.map(cluster => cluster.slot)));
    // As after every message.
    this.io.wakeAt(this.path.wheel.nextAt());
  }

  /** Opens a listener, and returns its handle. */
  listens(entry: Partial<ListenerEntry> = {}): number {
    const { rows, listeners } = this.path;
    const index = listeners.length;
    let handle = -1;
    this.io.listen({ address: new Uint8Array(16), port: 443 + index }, opened => {
      handle = opened;
    });
    listeners[index] = compileListener({ on: ':443', balancers: [], agents: [], idTlv: [0x20], ...entry });
    rows.clear(handle);
    rows.state[handle] = LISTENER;
    rows.listener[handle] = index;
    this.#listeners.push(handle);
    return handle;
  }

  /** Stops accepting, and serves no further requests, as at the start of a drain. */
  drains(): void {
    for (const listener of this.#listeners.splice(0)) closeListener(this.path, listener);
    drainRequests(this.path);
    this.io.wakeAt(this.path.wheel.nextAt());
  }

  cuts(reason: 'drained' | 'shutdown'): void {
    cutAll(this.path, reason);
    this.io.wakeAt(this.path.wheel.nextAt());
  }

  /** A client connects; nothing is delivered yet. */
  connects(from = '198.51.100.7', listener = this.listener): ScriptedPeer {
    this.#sources.add(from);
    const address = parseIp(from) ?? assert.fail(from);
    const client = this.io.connects(listener, address, this.#port++);
    this.#clients.push(client);
    return client;
  }

  /** A client connects and sends these bytes, and everything that follows from it has happened. */
  client(bytes: Uint8Array | string, from?: string): ScriptedPeer {
    const client = this.connects(from).sends(bytes);
    this.io.settle();
    return client;
  }

  /** A client and its backend, with a tunnel between them; the backend has read the hello. */
  tunnel(host = 'a.lab'): { readonly client: ScriptedPeer; readonly backend: ScriptedPeer } {
    const client = this.client(helloFor(host));
    return { client, backend: this.backend() };
  }

  /** The backend's end of the latest dial. */
  backend(): ScriptedPeer {
    return this.io.dialled.at(-1) ?? assert.fail('nothing was dialled');
  }

  /** An address whose connections are counted, besides those that connect here. */
  source(address: string): void {
    this.#sources.add(address);
  }

  get records(): readonly (ConnectionRecord & { readonly why: CloseReason })[] {
    this.#reader.take(
      record => this.#records.push(record),
      request => this.#requests.push(request),
    );
    return this.#records.map(record => ({ ...record, why: closeReasons[record.reason] }));
  }

  /** HTTP requests that have ended. */
  get requests(): readonly RequestRecord[] {
    return this.records && this.#requests;
  }

  /** The reasons of all connections that have ended, as counted, in alphabetical order. */
  get reasons(): readonly CloseReason[] {
    const ended: CloseReason[] = [];
    // The HTTP slot counts requests.
    for (const slot of slots)
      for (const [index, reason] of closeReasons.entries())
        for (let left = this.#shared.counters.get(slot, REASONS_AT + index); left > 0; left--)
          ended.push(reason);
    return ended.toSorted();
  }

  get open(): OpenCounts {
    const { totals, counters, clusters, backends, sources } = this.#shared;
    const sum = (each: (slot: number) => number) =>
      slots.reduce((all, slot) => all + Math.abs(each(slot)), 0);
    const ofSource = (address: Uint8Array) =>
      sources.count(GATEWAY_SCOPE, address, 0) +
      sources.count(PENDING_SCOPE, address, 0) +
      sum(slot => (slot === 0 ? 0 : sources.count(slot, address, 0)));
    return {
      connections: totals[TOTAL_CONNECTIONS],
      pending: totals[TOTAL_PENDING],
      routes: sum(slot => counters.get(slot, ACTIVE_AT)),
      clusters: sum(slot => clusters.get(slot, CLUSTER_ACTIVE)),
      backends: sum(slot => backends.get(slot, BACKEND_ACTIVE)),
      sources: [...this.#sources].reduce((all, text) => all + ofSource(parseIp(text) ?? assert.fail()), 0),
      kept: sum(slot => counters.get(slot, KEPT_AT)),
      lingering: this.path.lingering,
      dialOrders: this.path.dialOrders.size,
    };
  }

  /** Every peer resets, and all time-outs expire. */
  endAll(): void {
    for (const peer of [...this.#clients, ...this.io.dialled]) peer.resets();
    this.io.isExhausted = false;
    this.io.passes(FOREVER_MS);
  }

  /** When nothing is left to deliver: nothing holds bytes or FIN back from a side that reads. */
  assertAtRest(): void {
    const { rows, exchanges } = this.path;
    for (const handle of this.io.open) {
      const exchange = exchanges[handle];
      if (rows.state[handle] === TUNNEL) this.#assertPassed(handle);
      else if (exchange !== undefined) this.#assertServed(handle, exchange);
    }
  }

  #assertPassed(handle: number): void {
    const { rows } = this.path;
    const source = this.io.peerAt(handle) ?? assert.fail();
    const target = this.io.peerAt(rows.peer[handle]) ?? assert.fail();
    if (!target.isReading || target.end === 'reset') return;
    assert.deepEqual([source.unread, rows.kept[rows.peer[handle]]], [0, undefined], 'bytes are held back');
    if (source.hasSentFin) assert.equal(target.end, 'fin', 'FIN is held back');
    else assert.notEqual(source.end, 'reset', 'a reset is held back');
  }

  #assertServed(handle: number, exchange: ExchangeState): void {
    const { rows } = this.path;
    const client = this.io.peerAt(handle) ?? assert.fail();
    if (client.isReading) assert.equal(rows.kept[handle], undefined, 'a response is held back');
    if (rows.state[handle] === REQUESTING) {
      assert.equal(client.unread, 0, 'a request is not read');
      assert.equal(client.hasSentFin, false, 'an idle client has left');
    }
    const backend = this.io.peerAt(rows.peer[handle]);
    if (rows.state[handle] !== EXCHANGING || backend === undefined) return;
    if (client.isReading) assert.equal(backend.unread, 0, 'a response is not read');
    if (!backend.isReading || backend.end === 'reset' || exchange.isWhole || exchange.isUnwanted) return;
    assert.equal(client.unread, 0, 'the body of a request is not read');
    assert.equal(client.hasSentFin, false, 'a request stays half');
  }

  /** Nothing is left of any connection: no handle, count, deadline or buffer; and nothing went wrong. */
  assertOver(): void {
    assert.deepEqual(this.io.violations, []);
    assert.deepEqual(this.faults, []);
    assert.deepEqual(this.open, nothingOpen);
    assert.deepEqual(this.io.open, [], 'open handles');
    assert.equal(this.io.alarmAt, Infinity, 'a deadline is left');
    assert.equal(this.path.closing.size, 0, 'a listener is still closing');
    assert.equal(this.reasons.length, this.io.accepted, 'one reason per connection');
    const logged = this.reasons.filter(reason => reason !== 'no-data');
    assert.deepEqual(this.records.map(({ why }) => why).toSorted(), logged, 'one record per reason');
    const ports = new Set(this.records.map(({ peer }) => peer.port));
    assert.equal(ports.size, this.records.length, 'one record per connection');
    this.#assertCounted();
  }

  /** What routes have counted is what connections and requests have logged. */
  #assertCounted(): void {
    const { counters, requests } = this.#shared;
    const counted = slots.flatMap(slot =>
      [...requests.of(slot)].map(([status, count]) => ({ status, count })),
    );
    const logged = new Map<number, number>();
    for (const { status } of this.requests) logged.set(status, (logged.get(status) ?? 0) + 1);
    for (const [status, count] of logged)
      assert.equal(
        counted.filter(one => one.status === status).reduce((sum, one) => sum + one.count, 0),
        count,
        `requests with status ${status}`,
      );
    assert.equal(
      counted.reduce((sum, { count }) => sum + count, 0),
      this.requests.length,
    );
    if (this.reasons.includes('no-data')) return;
    const bytes = (at: number) => slots.reduce((sum, slot) => sum + counters.get(slot, at), 0);
    const sum = (of: 'bytesIn' | 'bytesOut') => this.records.reduce((all, record) => all + record[of], 0);
    assert.deepEqual([bytes(BYTES_IN_AT), bytes(BYTES_OUT_AT)], [sum('bytesIn'), sum('bytesOut')], 'bytes');
  }
}

function newShared(capacity: number, ring: SharedArrayBuffer): Shared {
  const counters = new RouteCounters();
  const clusters = new SharedSlots(CLUSTER_FIELDS);
  const backends = new SharedSlots(BACKEND_FIELDS);
  const buckets = new BucketPages();
  const requests = new RequestCounters();
  requests.addPage(RequestCounters.newPage());
  counters.addPage(RouteCounters.newPage());
  clusters.addPage(SharedSlots.newPage(CLUSTER_FIELDS));
  backends.addPage(SharedSlots.newPage(BACKEND_FIELDS));
  buckets.addPage(BucketPages.newPage());
  return {
    rows: new Rows(Rows.memory(capacity)),
    requests,
    totals: new Int32Array(new SharedArrayBuffer(TOTAL_FIELDS * Int32Array.BYTES_PER_ELEMENT)),
    counters,
    clusters,
    backends,
    buckets,
    sources: new SourceCounts(new SharedArrayBuffer(sourceCountsBytes(100)), 1),
    nonces: new NonceTable(new SharedArrayBuffer(nonceTableBytes(100)), 1),
    records: new RecordWriter(ring, () => {}),
  };
}
