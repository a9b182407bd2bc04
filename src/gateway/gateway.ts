// The control side of the gateway: starts the workers, sends them the table, reads their counters and records.
// Nothing here is on the path of a connection. `apply` is all or nothing: a listener that cannot be opened
// refuses the whole change, and what was served before goes on.

import { randomInt } from 'node:crypto';
import { closeSync, writeSync } from 'node:fs';
import * as net from 'node:net';
import { Worker } from 'node:worker_threads';
import type { Backend, Cluster } from '../cluster/cluster.ts';
import { formatIpPort, parseIp } from '../wire/ip-address.ts';
import type { Settings } from './data-path.ts';
import { errnoWord } from './io/net-reactor.ts';
import type { EngineName } from './io/open-reactor.ts';
import { errorWord, IN_USE, type SocketAddress } from './io/reactor.ts';
import type { ListenerEntry } from './listener-table.ts';
import type { NameResolver } from './name-resolver.ts';
import { type ConnectionRecord, newRecordRing, RecordReader } from './record-ring.ts';
import { Rows } from './rows.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  BACKEND_FIELDS,
  BucketPages,
  CLUSTER_ACTIVE,
  CLUSTER_FIELDS,
  RouteCounters,
  SharedSlots,
  TOTAL_CONNECTIONS,
  TOTAL_FIELDS,
} from './shared-memory.ts';
import { sourceCountsBytes } from './source-counts.ts';
import { type FreedSlots, type RouteSlot, TableAuthor } from './table-author.ts';
import type { FromWorker, Pages, ToWorker, WorkerStart } from './worker-messages.ts';

/** How long records may wait for more to come, so that a burst is written in one go. */
const RECORDS_MS = 20;
/** How long a change waits for names that are new; they are dialled as soon as they are known. */
const NAMES_MS = 500;
/** While draining, how often it is looked whether connections are left. */
const DRAIN_LOOK_MS = 50;
/** Port 0: how often another free port is tried when somebody else takes it first. */
const FREE_PORT_TRIES = 5;

export interface Listener extends ListenerEntry {
  /** IP literal, `localhost`, or '' for all addresses of both families. */
  readonly host: string;
  readonly port: number;
}

export interface GatewayConfig {
  readonly listeners: readonly Listener[];
  readonly clusters: readonly Cluster[];
  readonly settings: Settings;
}

export interface GatewayOptions {
  readonly engine: EngineName;
  readonly arch: string;
  readonly workers: number;
  /** Whether several threads can listen on one port on this platform. */
  readonly share: boolean;
  /** Handles a worker may have open: bounded by the open-file limit. */
  readonly capacity: number;
  readonly resolver: NameResolver;
  readonly onRecord: (record: NamedRecord) => void;
  readonly onDropped: (count: number) => void;
  readonly onWorkerDeath: (worker: number, cause: Error) => void;
}

/** A connection's record with the names its slots stand for. */
export interface NamedRecord extends ConnectionRecord {
  readonly on: string;
  readonly route: RouteSlot | undefined;
  readonly backend: string | undefined;
}

export interface OpenListener {
  readonly on: string;
  /** The real address, `host:port`. */
  readonly address: string;
}

/** Somebody else listens there, or the address cannot be listened on. */
export class ListenError extends Error {
  readonly code = 'ERR_LISTEN';
  readonly on: string;

  constructor(on: string, word: number) {
    const hint = word === IN_USE ? ' by another process; stop it or choose another port' : '';
    super(`Cannot listen on '${on}': ${errorWord(word)}${hint}`);
    this.name = 'ListenError';
    this.on = on;
  }
}

interface Opened {
  readonly index: number;
  readonly listener: Listener;
  readonly address: string;
}

interface Thread {
  readonly worker: Worker;
  /** Descriptors of an epoll reactor, closed when its thread has ended. */
  fds: readonly number[];
  wakeFd: number | undefined;
  readonly counters: RouteCounters;
  readonly records: RecordReader;
}

export class Gateway implements AsyncDisposable {
  readonly #options: GatewayOptions;
  readonly #author = new TableAuthor();
  readonly #threads: Thread[] = [];
  readonly #totals = new SharedArrayBuffer(TOTAL_FIELDS * Int32Array.BYTES_PER_ELEMENT);
  readonly #totalsView = new Int32Array(this.#totals);
  readonly #clusters = new SharedSlots(CLUSTER_FIELDS);
  readonly #backends = new SharedSlots(BACKEND_FIELDS);
  readonly #pages = { routes: 0, clusters: 0, backends: 0 };
  /** Names of listeners by index; closed ones stay for the records of their connections. */
  readonly #listenerNames: string[] = [];
  #open: Opened[] = [];
  #generation = 0;
  #retiring: FreedSlots[] = [];
  #applying: Promise<unknown> = Promise.resolve();
  #recordsTimer: NodeJS.Timeout | undefined;
  #stopped = false;
  readonly #waiting = new Map<string, (message: FromWorker) => void>();

  private constructor(options: GatewayOptions) {
    this.#options = options;
  }

  /** Starts the workers and opens the listeners; the first table is served when it returns. */
  static async start(options: GatewayOptions, config: GatewayConfig): Promise<Gateway> {
    const gateway = new Gateway(options);
    try {
      await gateway.#startWorkers(config.settings);
      await gateway.apply(config);
      return gateway;
    } catch (error) {
      await gateway.stop();
      throw error;
    }
  }

  get generation(): number {
    return this.#generation;
  }

  get listeners(): readonly OpenListener[] {
    return this.#open.map(({ listener, address }) => ({ on: listener.on, address }));
  }

  get connections(): number {
    return Atomics.load(this.#totalsView, TOTAL_CONNECTIONS);
  }

  /** One after the other: a change waits for the one before it. */
  apply(config: GatewayConfig): Promise<void> {
    const turn = this.#applying.then(() => this.#apply(config));
    this.#applying = turn.catch(() => {});
    return turn;
  }

  /** Every route that is served, with what the workers counted for it. Slot 0 stands for "no route". */
  *routes(): Generator<{
    readonly slot: number;
    readonly route: RouteSlot | undefined;
    get(offset: number): number;
  }> {
    for (let slot = 0; slot < this.#author.routeSlots; slot++) {
      const route = this.#author.routeAt(slot);
      if (slot !== 0 && route === undefined) continue;
      yield { slot, route, get: offset => this.#sum(slot, offset) };
    }
  }

  /** Nothing more is accepted; resolves when all connections have ended, or cuts them after `limitMs`. */
  async drain(limitMs: number): Promise<void> {
    await this.#applying;
    this.#post({ kind: 'drain' });
    const until = performance.now() + limitMs;
    while (this.connections > 0 && !this.#stopped) {
      if (performance.now() >= until) {
        this.#post({ kind: 'cut', reason: 'drained' });
        await this.#untilIdle(1000);
        return;
      }
      await sleep(DRAIN_LOOK_MS);
    }
  }

  /** Ends what is open now, and the workers. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#post({ kind: 'cut', reason: 'shutdown' });
    await this.#untilIdle(1000);
    this.#stopped = true;
    this.#post({ kind: 'stop' });
    clearTimeout(this.#recordsTimer);
    this.takeRecords();
    this.#options.resolver.stop();
    await Promise.all(this.#threads.map(endThread));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Hands out the records that the workers wrote so far. */
  takeRecords(): void {
    let dropped = 0;
    for (const thread of this.#threads) {
      dropped += thread.records.take(record => {
        this.#options.onRecord({
          ...record,
          on: this.#listenerNames[record.listener] ?? '',
          route: this.#author.routeAt(record.slot),
          backend: this.#author.backendAt(record.backendSlot)?.text,
        });
      });
    }
    if (dropped > 0) this.#options.onDropped(dropped);
  }

  async #untilIdle(limitMs: number): Promise<void> {
    const until = performance.now() + limitMs;
    while (this.connections > 0 && performance.now() < until) await sleep(10);
  }

  async #startWorkers(settings: Settings): Promise<void> {
    const { engine, arch, capacity, share, workers } = this.#options;
    const started = this.#answers('started', 0);
    const sources = new SharedArrayBuffer(sourceCountsBytes(2 * settings.connections));
    const seed = randomInt(2 ** 32);
    for (let number = 0; number < workers; number++) {
      const records = newRecordRing();
      const start: WorkerStart = {
        engine,
        arch,
        capacity,
        share: share && workers > 1,
        settings,
        rows: Rows.memory(capacity),
        totals: this.#totals,
        sources,
        seed,
        records,
      };
      const worker = new Worker(workerEntry(), { workerData: start, name: `causeway-${number}` });
      worker.on('message', (message: FromWorker) => this.#message(number, message));
      worker.on('error', error => this.#options.onWorkerDeath(number, error as Error));
      this.#threads.push({
        worker,
        fds: [],
        wakeFd: undefined,
        counters: new RouteCounters(),
        records: new RecordReader(records),
      });
    }
    await started;
  }

  async #apply(config: GatewayConfig): Promise<void> {
    const opened = await this.#openNew(config.listeners);
    await this.#options.resolver.watch(backendNames(config.clusters), NAMES_MS, names =>
      this.#renamed(names),
    );
    const change = this.#author.change(config.clusters, backend => this.#addressesOf(backend));
    const kept = this.#open.flatMap(open => {
      const listener = config.listeners.find(candidate => placeOf(candidate) === placeOf(open.listener));
      return listener === undefined ? [] : [{ ...open, listener }];
    });
    const closed = this.#open.filter(open => !kept.some(still => still.index === open.index));
    this.#open = config.listeners.flatMap(listener => {
      const found = [...kept, ...opened].find(open => placeOf(open.listener) === placeOf(listener));
      return found === undefined ? [] : [{ ...found, listener }];
    });
    for (const open of this.#open) this.#listenerNames[open.index] = open.listener.on;
    const generation = this.#generation + 1;
    const pages = this.#newPages();
    const applied = this.#answers('applied', generation);
    this.#threads.forEach((thread, number) => {
      send(thread, {
        kind: 'table',
        generation,
        pages: pages[number],
        removed: change.removed,
        put: change.put,
        listeners: this.#open.map(open => [open.index, entryOf(open.listener)] as const),
        settings: config.settings,
      });
    });
    if (closed.length > 0) this.#post({ kind: 'close', indexes: closed.map(open => open.index) });
    await applied;
    this.#generation = generation;
    this.#retiring.push(change.freed);
    this.#recycle();
  }

  /** Opens in every worker what is not open yet. On failure closes what it opened and throws. */
  async #openNew(listeners: readonly Listener[]): Promise<Opened[]> {
    const isOpen = new Set(this.#open.map(open => placeOf(open.listener)));
    const opened: Opened[] = [];
    try {
      for (const listener of listeners) {
        if (!isOpen.has(placeOf(listener))) opened.push(await this.#openOne(listener));
      }
      return opened;
    } catch (error) {
      this.#post({ kind: 'close', indexes: opened.map(open => open.index) });
      throw error;
    }
  }

  async #openOne(listener: Listener): Promise<Opened> {
    for (let tries = 1; ; tries++) {
      const index = this.#listenerNames.length;
      this.#listenerNames.push(listener.on);
      const port = await probe(listener);
      const address = listenAddress(listener, port);
      const answers = this.#answers('opened', index);
      this.#post({ kind: 'open', index, address });
      const results = await answers;
      const failed = results.find(message => message.kind === 'opened' && message.result < 0);
      if (failed?.kind !== 'opened') {
        return { index, listener, address: formatIpPort(address.address, 0, port) };
      }
      this.#post({ kind: 'close', indexes: [index] });
      if (listener.port !== 0 || failed.result !== IN_USE || tries === FREE_PORT_TRIES) {
        throw new ListenError(listener.on, failed.result);
      }
    }
  }

  /** What every worker answers to the message that goes out next. */
  #answers(kind: 'started' | 'opened' | 'applied', key: number): Promise<FromWorker[]> {
    return Promise.all(
      Array.from(
        { length: this.#options.workers },
        (_, number) =>
          new Promise<FromWorker>(resolve => {
            this.#waiting.set(`${number} ${kind} ${key}`, resolve);
          }),
      ),
    );
  }

  #message(number: number, message: FromWorker): void {
    switch (message.kind) {
      case 'started': {
        const thread = this.#threads[number];
        thread.wakeFd = message.wakeFd;
        thread.fds = [message.wakeFd, message.epollFd].filter(fd => fd !== undefined);
        this.#answer(`${number} started 0`, message);
        break;
      }
      case 'opened':
        this.#answer(`${number} opened ${message.index}`, message);
        break;
      case 'applied':
        this.#answer(`${number} applied ${message.generation}`, message);
        break;
      case 'records':
        this.#recordsTimer ??= setTimeout(() => {
          this.#recordsTimer = undefined;
          this.takeRecords();
        }, RECORDS_MS);
        break;
      case 'dial-failed': {
        const backend = this.#author.backendAt(message.slot);
        if (backend !== undefined) this.#options.resolver.hurry(backend.host);
        break;
      }
      default:
    }
  }

  #answer(key: string, message: FromWorker): void {
    this.#waiting.get(key)?.(message);
    this.#waiting.delete(key);
  }

  #post(message: ToWorker): void {
    for (const thread of this.#threads) send(thread, message);
  }

  #addressesOf(backend: Backend): readonly string[] {
    return net.isIP(backend.host) === 0 ? this.#options.resolver.addresses(backend.host) : [backend.host];
  }

  #renamed(names: readonly string[]): void {
    const backends = names.flatMap(name =>
      this.#author.backendSlots(name).map(slot => [slot, this.#options.resolver.addresses(name)] as const),
    );
    if (backends.length > 0) this.#post({ kind: 'addresses', backends });
  }

  /** Memory for slots that the author gave out beyond the pages there are; counters per worker, the rest common. */
  #newPages(): Pages[] {
    const wanted = this.#author.pages;
    const clusters: SharedArrayBuffer[] = [];
    const buckets: SharedArrayBuffer[] = [];
    const backends: SharedArrayBuffer[] = [];
    for (; this.#pages.clusters < wanted.clusters; this.#pages.clusters++) {
      clusters.push(SharedSlots.newPage(CLUSTER_FIELDS));
      buckets.push(BucketPages.newPage());
    }
    for (; this.#pages.backends < wanted.backends; this.#pages.backends++) {
      backends.push(SharedSlots.newPage(BACKEND_FIELDS));
    }
    for (const page of clusters) this.#clusters.addPage(page);
    for (const page of backends) this.#backends.addPage(page);
    const missing = wanted.routes - this.#pages.routes;
    this.#pages.routes = wanted.routes;
    return this.#threads.map(thread => {
      const counters = Array.from({ length: missing }, () => RouteCounters.newPage());
      for (const page of counters) thread.counters.addPage(page);
      return { counters, clusters, buckets, backends };
    });
  }

  /** Slots whose last connection is gone may be given out again. */
  #recycle(): void {
    const retiring = this.#retiring;
    const idle = (slots: readonly number[], active: (slot: number) => number): [number[], number[]] => [
      slots.filter(slot => active(slot) === 0),
      slots.filter(slot => active(slot) !== 0),
    ];
    const all = <Key extends keyof FreedSlots>(key: Key) => retiring.flatMap(freed => freed[key]);
    const [routes, busyRoutes] = idle(all('routes'), slot => this.#sum(slot, ACTIVE_AT));
    const [clusters, busyClusters] = idle(all('clusters'), slot => this.#clusters.get(slot, CLUSTER_ACTIVE));
    const [backends, busyBackends] = idle(all('backends'), slot => this.#backends.get(slot, BACKEND_ACTIVE));
    // Their last records are read while the names are still known.
    this.takeRecords();
    for (const slot of routes) for (const thread of this.#threads) thread.counters.clear(slot);
    this.#author.recycle({ routes, clusters, backends });
    this.#retiring = [{ routes: busyRoutes, clusters: busyClusters, backends: busyBackends }];
  }

  #sum(slot: number, offset: number): number {
    let sum = 0;
    for (const thread of this.#threads) sum += thread.counters.get(slot, offset);
    return sum;
  }
}

const wakeUp = new Uint8Array(new BigUint64Array([1n]).buffer);

function send(thread: Thread, message: ToWorker): void {
  thread.worker.postMessage(message);
  if (thread.wakeFd !== undefined) writeSync(thread.wakeFd, wakeUp);
}

/** After `stop`: a thread in epoll_wait() comes back by that, and only then can be ended. */
async function endThread(thread: Thread): Promise<void> {
  thread.wakeFd = undefined;
  await thread.worker.terminate();
  for (const fd of thread.fds) closeSync(fd);
}

function placeOf(listener: Listener): string {
  // Each port 0 is a listener of its own, told apart by what the file calls it.
  return `${listener.host} ${listener.port} ${listener.port === 0 ? listener.on : ''}`;
}

function entryOf(listener: Listener): ListenerEntry {
  const { on, balancers, agents, idTlv, only } = listener;
  return { on, balancers, agents, idTlv, ...(only !== undefined && { only }) };
}

function backendNames(clusters: readonly Cluster[]): Set<string> {
  const names = new Set<string>();
  for (const cluster of clusters) {
    for (const route of cluster.routes) {
      for (const backend of route.pool.backends) if (net.isIP(backend.host) === 0) names.add(backend.host);
    }
  }
  return names;
}

/** This file is TypeScript in a checkout and JavaScript in a package; so is the worker beside it. */
function workerEntry(): URL {
  return new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url);
}

const LOOPBACK = '127.0.0.1';

function listenAddress(listener: Listener, port: number): SocketAddress {
  const dualStack = listener.host === '';
  const text = dualStack ? '::' : listener.host === 'localhost' ? LOOPBACK : listener.host;
  return { address: parseIp(text) ?? new Uint8Array(16), port, dualStack };
}

/**
 * Workers share their listeners by SO_REUSEPORT, which would also let another process of this user in unnoticed.
 * So a listener without it comes first: it finds whoever is there, and the real port where any will do.
 */
async function probe(listener: Listener): Promise<number> {
  const host = listener.host === '' ? '::' : listener.host === 'localhost' ? LOOPBACK : listener.host;
  const server = net.createServer();
  const listening = (place: net.ListenOptions) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(place, () => {
        server.off('error', reject);
        resolve();
      });
    });
  try {
    try {
      await listening({ host, port: listener.port, ipv6Only: listener.host !== '' });
    } catch (error) {
      if (listener.host !== '' || (error as NodeJS.ErrnoException).code !== 'EAFNOSUPPORT') throw error;
      await listening({ host: '0.0.0.0', port: listener.port });
    }
  } catch (error) {
    throw new ListenError(listener.on, errnoWord(error as NodeJS.ErrnoException));
  }
  const { port } = server.address() as net.AddressInfo;
  await new Promise(resolve => server.close(resolve));
  return port;
}

function sleep(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms));
}
