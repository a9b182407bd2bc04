// The control side of the gateway: starts the threads, sends them the table, reads their counters and records. Nothing
// here is on the path of a connection. `apply` is all or nothing: if a listener cannot be opened, the whole change is
// refused and the old table stays in service. Threads that die are restarted (revival.ts), and nothing waits for ever:
// every question to a thread ends with an answer, a death or a deadline.
//
// Listeners are in open-listeners.ts, counters in route-counts.ts, records in record-taker.ts.

import { randomInt } from 'node:crypto';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Backend, type Cluster, needsTls, type Uplink } from '../../cluster/cluster.ts';
import type { FaultReport } from '../fault-log.ts';
import { type BackendHealth, type HealthChange, HealthThread } from '../health/health-thread.ts';
import { type EngineName, openResetOnClose } from '../io/open-reactor.ts';
import type { ResetOnClose } from '../io/set-linger.ts';
import { nonceTableBytes } from '../shared/nonce-table.ts';
import type { RequestRecord } from '../shared/record-ring.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  CLUSTER_ACTIVE,
  TOTAL_CONNECTIONS,
  TOTAL_DOWN,
  TOTAL_FIELDS,
  TOTAL_WATCHED,
} from '../shared/shared-memory.ts';
import { SharedPages } from '../shared/shared-pages.ts';
import { SourceCounts, sourceCountsBytes } from '../shared/source-counts.ts';
import type { Settings } from '../stages/data-path.ts';
import type { TlsConfig } from '../streams/tls-config.ts';
import { RetiredSlots } from '../table/retired-slots.ts';
import type { ClusterEntry } from '../table/table.ts';
import { namesIn, TableAuthor } from '../table/table-author.ts';
import type { BackOff, Death } from './death-log.ts';
import type {
  CheckedBackend,
  GatewayConfig,
  GatewayPort,
  NamedRecord,
  NamedRequest,
  OpenConnection,
  RouteCounter,
  RouteFigures,
} from './gateway-port.ts';
import { type InheritedSocket, InheritedSockets } from './inherited-sockets.ts';
import type { NameResolver } from './name-resolver.ts';
import { type OpenRecord, openRecords, parseConnectionId } from './open-connections.ts';
import { type OpenListener, OpenListeners } from './open-listeners.ts';
import { RecordTaker } from './record-taker.ts';
import { Revival } from './revival.ts';
import { type Figures, RouteCounts } from './route-counts.ts';
import { StartError } from './start-error.ts';
import { TableFigures } from './table-figures.ts';
import type { FromWorker, TableMessage, ToWorker } from './worker-messages.ts';
import { type StartOptions, type ThreadKind, WorkerThread } from './worker-thread.ts';

/** How long a change waits for new names to resolve; slower ones are dialled as soon as they resolve. */
const NAMES_MS = 500;
/** While draining, how often we check for open connections. */
const DRAIN_POLL_MS = 50;
/** How long workers may take to cut their connections. */
const CUT_MS = 1000;
/**
 * Nonces of signed ids remembered at one time, each for a minute if the clocks agree: 5,000 new signed connections a
 * second, of which one cluster alone may have 2,200. 9 MiB.
 */
const NONCES = 300_000;
/** How many times a thread is tried before the gateway fails to start. */
const START_TRIES = 3;

export interface GatewayOptions {
  readonly engine: EngineName;
  readonly arch: string;
  readonly workers: number;
  /** Whether several threads can listen on one port on this platform. */
  readonly share: boolean;
  /** Handles that a worker may have open: bounded by the open-file limit. */
  readonly capacity: number;
  /** Nonces remembered at one time. */
  readonly nonces?: number;
  /** Listening sockets that are open already, and that others may have open too. */
  readonly inherited?: InheritedSockets;
  readonly resolver: NameResolver;
  readonly onRecord: (record: NamedRecord) => void;
  /** Called whenever log lines were lost. */
  readonly onDropped: (count: number) => void;
  /** A problem with TLS, for the log. */
  readonly onTlsTrouble?: (what: string, why: string) => void;
  /** An agent's gateway refused it. */
  readonly onUplinkRefused?: (status: number, reported: string) => void;
  readonly onRequest: (record: NamedRequest) => void;
  /** `thread` is its name. It is restarted after a pause. */
  readonly onThreadDeath: (thread: string, cause: Error, death: Death) => void;
  /** Default: see death-log.ts. */
  readonly backOff?: BackOff;
  /** Our own code threw, which ended the connection or check concerned. */
  readonly onFault: (report: FaultReport) => void;
  readonly onHealth: (change: HealthChange) => void;
}

export class Gateway implements GatewayPort, AsyncDisposable {
  readonly #options: GatewayOptions;
  readonly #author = new TableAuthor();
  readonly #workers: readonly WorkerThread[];
  readonly #start: StartOptions;
  readonly #totals: Int32Array;
  readonly #pages = new SharedPages();
  /** One for each worker, if that has no streams of its own. They start with the first table that routes in them. */
  readonly #streams: readonly WorkerThread[];
  readonly #threads: readonly WorkerThread[];
  readonly #listeners: OpenListeners;
  readonly #counts: RouteCounts;
  readonly #records: RecordTaker;
  readonly #retired = new RetiredSlots();
  readonly #health: HealthThread;
  readonly #figures: TableFigures;
  #backendCount = 0;
  #settings: Settings;
  #generation = 0;
  #served = 0;
  #listing: Promise<unknown> = Promise.resolve();
  /** Changes to what the workers serve, one at a time. */
  #queue: Promise<unknown> = Promise.resolve();
  readonly #revival: Revival<ThreadKind | 'health'>;
  #accepting = true;
  #stopped = false;
  #tlsConfig: TlsConfig | undefined;
  #hasStreams = false;
  /** HTTP/2 is spoken to: its first connection starts the threads. */
  #offersStreams = false;
  /** Whether stream threads route. */
  #streamsRoute = false;

  private constructor(options: GatewayOptions, settings: Settings, resetOnClose: ResetOnClose | undefined) {
    this.#options = options;
    this.#settings = settings;
    const totals = new SharedArrayBuffer(TOTAL_FIELDS * Int32Array.BYTES_PER_ELEMENT);
    // Each connection may count for the gateway, for its cluster and, until it is routed, as pending.
    const { connections, pending } = settings;
    const sources = new SharedArrayBuffer(
      sourceCountsBytes(2 * connections + Math.min(connections, pending)),
    );
    const nonces = new SharedArrayBuffer(nonceTableBytes(options.nonces ?? NONCES));
    const seed = randomInt(2 ** 32);
    this.#totals = new Int32Array(totals);
    const { engine, arch, capacity, share, workers } = options;
    this.#start = { engine, arch, capacity, share, settings, totals, sources, nonces, seed };
    const counts = {
      clusters: this.#pages.clusters,
      backends: this.#pages.backends,
      totals: this.#totals,
      sources: new SourceCounts(sources, seed),
    };
    this.#revival = new Revival(options.onThreadDeath, options.backOff);
    const newThread = (kind: ThreadKind, index: number, number: number) => {
      const events = {
        message: (message: FromWorker) => this.#onMessage(message),
        died: (cause: Error) => this.#onDeath(thread, cause),
      };
      const thread: WorkerThread = new WorkerThread(kind, index, number, counts, events, resetOnClose);
      return thread;
    };
    this.#workers = Array.from({ length: workers }, (_, index) => newThread('worker', index, index));
    this.#streams = Array.from({ length: engine === 'net' ? 0 : workers }, (_, index) =>
      newThread('stream', index, workers + index),
    );
    this.#threads = [...this.#workers, ...this.#streams];
    for (const { pages } of this.#workers) this.#pages.add(pages);
    const inherited = options.inherited ?? new InheritedSockets([]);
    this.#listeners = new OpenListeners(this.#workers, share, inherited);
    this.#listeners.share(inherited.waiting.length > 0);
    this.#counts = new RouteCounts(() => this.#serving);
    this.#records = new RecordTaker(
      this.#threads,
      record => options.onRecord({ ...record, ...this.#namesOf(record) }),
      record => options.onRequest(this.#nameRequest(record)),
      options.onDropped,
    );
    this.#health = new HealthThread({
      backends: this.#pages.backends,
      pages: this.#pages.backendPages,
      totals,
      isPending: slot => this.#isPending(slot),
      onChange: options.onHealth,
      onDeath: cause =>
        this.#revival.died({ name: 'health', kind: 'health' }, cause, () => this.#health.revive()),
      onFault: options.onFault,
    });
    this.#figures = new TableFigures(this.#author, this.#counts, this.#pages, this.#health);
  }

  /** Starts the workers and opens the listeners; the first table is served when it resolves. */
  static async start(options: GatewayOptions, config: GatewayConfig): Promise<Gateway> {
    const resetOnClose = options.engine === 'epoll' ? await openResetOnClose() : undefined;
    const gateway = new Gateway(options, config.settings, resetOnClose);
    try {
      await Promise.all(gateway.#workers.map(thread => gateway.#startFirst(thread)));
      await gateway.apply(config);
      return gateway;
    } catch (error) {
      await gateway.stop();
      throw error;
    }
  }

  /** The number of the last change that all threads serve. */
  get generation(): number {
    return this.#served;
  }

  get listeners(): readonly OpenListener[] {
    return this.#listeners.addresses;
  }

  /** The sockets of the listeners, for a process that takes over. */
  get sockets(): readonly InheritedSocket[] {
    return this.#listeners.sockets;
  }

  /**
   * Whether another process has the listeners open too: then closing them leaves what waits there to that process. True
   * at first if there are sockets to inherit.
   */
  shareListeners(isShared: boolean): void {
    this.#listeners.share(isShared);
  }

  get connections(): number {
    return Atomics.load(this.#totals, TOTAL_CONNECTIONS);
  }

  /** How many backends are served, how many are down, and the factor by which check intervals are stretched. */
  get health(): { readonly backends: number; readonly down: number; readonly stretch: number } {
    const down = Atomics.load(this.#totals, TOTAL_DOWN);
    return { backends: this.#backendCount, down, stretch: this.#health.stretch };
  }

  healthOf(backendSlot: number): BackendHealth {
    return this.#health.of(backendSlot);
  }

  backends(): Generator<CheckedBackend> {
    return this.#figures.backends();
  }

  /** Why this replica should get no new connections, in a few words; undefined when all is well. */
  get trouble(): string | undefined {
    if (!this.#workers.some(worker => worker.isUp)) return 'no worker thread is running';
    const kind = this.#revival.failing();
    return kind === undefined ? undefined : `${kind} threads keep dying; the log says why`;
  }

  apply(config: GatewayConfig): Promise<void> {
    return this.#inTurn(() => this.#apply(config));
  }

  /** Verifies signatures with these secrets from now on. Nothing else changes. */
  useSecrets(secrets: readonly Uint8Array[]): Promise<void> {
    return this.#inTurn(async () => {
      this.#settings = { ...this.#settings, secrets };
      this.#send({ kind: 'settings', settings: this.#settings });
    });
  }

  /** New certificates, keys or addresses for TLS of our own. */
  useTls(config: TlsConfig): Promise<void> {
    return this.#inTurn(async () => {
      this.#tlsConfig = config;
      this.#sendTls();
    });
  }

  /** Every route that is served, with its counters. Slot 0 means "no route". */
  routes(): Generator<RouteCounter> {
    return this.#figures.routes();
  }

  figuresOf(cluster: string, kind: string): RouteFigures | undefined {
    return this.#figures.figuresOf(cluster, kind);
  }

  backendHealth(cluster: string, kind: string, backend: string): BackendHealth {
    return this.#figures.backendHealth(cluster, kind, backend);
  }

  traffic(): Figures {
    return this.#figures.traffic();
  }

  /** The newest open connections, newest first; only those of `cluster` if it is given. */
  openConnections(limit: number, cluster?: string): Promise<readonly OpenConnection[]> {
    // One list at a time, however many callers want one: workers answer between their events.
    const wanted =
      cluster === undefined ? () => true : (slot: number) => this.#author.routeAt(slot)?.cluster === cluster;
    const listing = this.#listing.then(async () => {
      const open = await openRecords(this.#threads, limit, wanted);
      return open.map(record => ({ ...record, ...this.#namesOf(record) }));
    });
    this.#listing = listing.catch(() => {});
    return listing;
  }

  /** Ends a connection with `revoked`. False if none with that id is open. */
  async endConnection(id: string): Promise<boolean> {
    const parsed = parseConnectionId(id);
    if (parsed === undefined) return false;
    const { worker, lifetime, handle, generation } = parsed;
    return (await this.#threads[worker]?.revoke(lifetime, handle, generation)) ?? false;
  }

  /** While watched, refusals produce records even if the log does not want them; see `logged`. */
  watchRefusals(watched: boolean): void {
    Atomics.store(this.#totals, TOTAL_WATCHED, watched ? 1 : 0);
  }

  /**
   * Accepts nothing more. Resolves when all connections have ended, and cuts them after `limitMs`. Does not wait for a
   * change in progress: the change checks for a drain before it opens or serves anything.
   */
  async drain(limitMs: number): Promise<void> {
    this.#accepting = false;
    this.#send({ kind: 'drain' });
    this.#listeners[Symbol.dispose]();
    const deadline = performance.now() + limitMs;
    await this.#listenersClosed();
    while (this.connections > 0 && !this.#stopped) {
      if (performance.now() >= deadline) return this.#cut('drained');
      await sleep(DRAIN_POLL_MS);
    }
  }

  /** Ends all open connections now, then the threads. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#accepting = false;
    this.#revival[Symbol.dispose]();
    await this.#cut('shutdown');
    this.#stopped = true;
    this.#records.flush();
    this.#options.resolver.stop();
    await Promise.all([...this.#threads.map(thread => thread.end()), this.#health[Symbol.asyncDispose]()]);
    // A connection leaves the count before its record is written: the first flush may have missed the last one.
    this.#records.flush();
    this.#listeners[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Emits the records that workers have written so far. */
  takeRecords(): void {
    this.#records.take();
  }

  /** HTTP requests by status. */
  requests(slot: number): Map<number, number> {
    const byStatus = new Map<number, number>();
    for (const { pages } of this.#workers) {
      for (const [status, count] of pages.requests?.of(slot) ?? [])
        byStatus.set(status, (byStatus.get(status) ?? 0) + count);
    }
    return byStatus;
  }

  /** Ends a thread as a fault would, for tests. */
  killWorker(worker: number | 'health', kind: WorkerThread['kind'] = 'worker'): void {
    if (worker === 'health') this.#health.kill();
    else this.#threads.find(thread => thread.name === `${kind}-${worker}`)?.kill();
  }

  #nameRequest({ client, host, slot, backendSlot, method, status, ms }: RequestRecord): NamedRequest {
    return {
      ...client,
      host: host === '' ? undefined : host,
      slot,
      route: this.#author.routeAt(slot),
      backend: this.#author.backendAt(backendSlot)?.text,
      method: method === '' ? undefined : method,
      status,
      ms,
    };
  }

  #namesOf({ listener, slot, backendSlot }: OpenRecord): Pick<OpenConnection, 'on' | 'route' | 'backend'> {
    return {
      on: this.#listeners.nameOf(listener),
      route: this.#author.routeAt(slot),
      backend: this.#author.backendAt(backendSlot)?.text,
    };
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work);
    this.#queue = turn.catch(() => {});
    return turn;
  }

  async #cut(reason: 'drained' | 'shutdown'): Promise<void> {
    this.#send({ kind: 'cut', reason });
    const deadline = performance.now() + CUT_MS;
    while (this.connections > 0 && performance.now() < deadline) await sleep(10);
  }

  async #apply(config: GatewayConfig): Promise<void> {
    this.#mustAccept();
    // Steps that may fail come first: until the listeners are open, nothing has changed.
    if (routesStreams(config)) await this.#startStreams('change');
    const opened = await this.#listeners.openNew(config.listeners);
    await this.#options.resolver.watch(namesOf(config), NAMES_MS, names => this.#onAddressesChanged(names));
    try {
      this.#mustAccept();
    } catch (error) {
      this.#listeners.close(opened);
      throw error;
    }
    this.#tlsConfig = config.tls;
    const change = this.#author.change(config.clusters, (backend, uplink) =>
      this.#addressesOf(backend, uplink),
    );
    if (!this.#offersStreams && servesHttp(config)) {
      this.#offersStreams = true;
      for (const worker of this.#workers) worker.send({ kind: 'streams' });
    }
    const closed = this.#listeners.serve(config.listeners, opened);
    this.#settings = config.settings;
    this.#generation++;
    this.#pages.grow(this.#author.pages);
    // A thread may get a connection that another has routed: so all have room for a route's counters before any serves it.
    await Promise.all(this.#serving.map(thread => this.#givePages(thread)));
    this.#sendTls();
    // Stream threads first: a worker gives connections from a new listener at once.
    const isNew = !this.#streamsRoute && routesStreams(config);
    this.#streamsRoute ||= isNew;
    await Promise.all(
      this.#streams.map(thread =>
        thread.apply(this.#table(thread, change.removed, isNew ? this.#author.entries : change.put)),
      ),
    );
    await Promise.all(
      this.#workers.map(thread => thread.apply(this.#table(thread, change.removed, change.put))),
    );
    const changed = change.put.map(cluster => cluster.name);
    this.#health.change(this.#author.backends(changed), change.freed.backends);
    this.#backendCount = countBackends(config.clusters);
    this.#served = this.#generation;
    if (closed.length > 0) {
      this.#listeners.close(closed);
      // The next change may need the same address again.
      await this.#listenersClosed();
    }
    this.#retired.add(change.freed, performance.now());
    this.#recycle();
  }

  /** Listeners that were asked to close have accepted what waited there, and are closed. */
  async #listenersClosed(): Promise<void> {
    await Promise.all(this.#workers.map(worker => worker.listenersClosed()));
  }

  #mustAccept(): void {
    if (!this.#accepting) throw new Error('The gateway is draining');
  }

  async #givePages(thread: WorkerThread): Promise<void> {
    const pages = this.#pages.give(thread.pages);
    if (pages !== undefined) await thread.use(pages);
  }

  /** A message copies what it carries, so each thread gets only what it uses. */
  #table(
    { kind }: WorkerThread,
    removed: readonly string[],
    put: readonly ClusterEntry[],
  ): Omit<TableMessage, 'kind' | 'request'> {
    const settings = this.#settings;
    const listeners = [...this.#listeners.entries];
    if (kind === 'stream' && !this.#streamsRoute) return { removed: [], put: [], listeners, settings };
    return { removed, put, listeners, settings };
  }

  /** Sends pages and the whole table to a thread that has none yet. */
  async #bringUpToDate(thread: WorkerThread): Promise<void> {
    await this.#givePages(thread);
    await thread.apply(this.#table(thread, [], this.#author.entries));
  }

  /** Resolves to the error if it fails. */
  #startThread(thread: WorkerThread): Promise<Error | undefined> {
    const engine = thread.kind === 'stream' ? 'net' : this.#start.engine;
    return thread.start({ ...this.#start, engine, settings: this.#settings });
  }

  async #startFirst(thread: WorkerThread): Promise<void> {
    let failure: Error | undefined;
    for (let tries = 0; tries < START_TRIES; tries++) {
      failure = await this.#startThread(thread);
      if (failure === undefined) return;
    }
    throw new StartError(thread.kind, failure as Error, this.#options.capacity);
  }

  /**
   * The threads get the current table before workers give them anything. One that fails is started again, like one that
   * has died, unless all of them fail for a `change`, which is then refused.
   */
  async #startStreams(reason: 'change' | 'wanted'): Promise<void> {
    if (this.#hasStreams || !this.#accepting) return;
    const failures = await Promise.all(this.#streams.map(thread => this.#startThread(thread)));
    const [failure] = failures;
    if (reason === 'change' && failure !== undefined && !failures.includes(undefined))
      throw new StartError('stream', failure, this.#options.capacity);
    for (const { pages } of this.#streams) this.#pages.add(pages);
    this.#hasStreams = true;
    await Promise.all(this.#streams.map(thread => this.#bringUpToDate(thread)));
    for (const worker of this.#workers) this.#connect(worker);
    for (const [index, cause] of failures.entries())
      if (cause !== undefined) this.#onDeath(this.#streams[index], cause);
  }

  /** Tells a worker which thread takes its connections. */
  #connect(worker: WorkerThread): void {
    if (!this.#hasStreams) {
      if (this.#offersStreams) worker.send({ kind: 'streams' });
      return;
    }
    const stream = this.#streams[worker.number];
    if (stream === undefined) worker.send({ kind: 'streams' });
    else if (stream.isUp) stream.receiveFrom(worker);
    else worker.send({ kind: 'streams-gone' });
  }

  /** Sends the configuration of TLS to threads that need it, and the names of tunnel hosts to all. */
  #sendTls(): void {
    const config = this.#tlsConfig;
    const threads = this.#streams.length === 0 ? this.#workers : this.#streams;
    if (config !== undefined)
      for (const thread of threads) thread.send({ kind: 'tls', config: this.#resolved(config) });
    this.#send({ kind: 'tunnels', hosts: config?.kind === 'tunnel-end' ? config.hosts : [] });
  }

  #resolved(config: TlsConfig): TlsConfig {
    if (config.kind === 'tunnel-end' || config.gateway.addresses.length > 0) return config;
    const { host } = config.gateway;
    const addresses = isIP(host) === 0 ? this.#options.resolver.addresses(host) : [host];
    return { ...config, gateway: { ...config.gateway, addresses } };
  }

  #onDeath(thread: WorkerThread, cause: Error): void {
    this.takeRecords();
    if (thread.kind === 'worker') this.#listeners.workerDied(thread);
    else this.#workerOf(thread).send({ kind: 'streams-gone' });
    this.#revival.died(thread, cause, () => this.#inTurn(() => this.#revive(thread)));
  }

  /** Restarts a thread and gives it all that the others have. Resolves to the error if it cannot start. */
  async #revive(thread: WorkerThread): Promise<Error | undefined> {
    if (this.#stopped) return undefined;
    const failure = await this.#startThread(thread);
    if (failure !== undefined) return failure;
    if (thread.kind === 'worker' && this.#accepting) {
      const closed = await this.#listeners.openIn(thread);
      // Without its listeners it is useless; its death leads here again, after a pause.
      if (closed !== undefined) thread.kill(closed);
    }
    this.#sendTls();
    await this.#bringUpToDate(thread);
    this.#connect(thread.kind === 'worker' ? thread : this.#workerOf(thread));
    if (!this.#accepting) thread.send({ kind: 'drain' });
    return undefined;
  }

  #onMessage(message: FromWorker): void {
    if (message.kind === 'records') {
      this.#records.takeSoon();
    } else if (message.kind === 'streams-wanted') {
      void this.#inTurn(() => this.#startStreams('wanted'));
    } else if (message.kind === 'fault') {
      this.#options.onFault(message.report);
    } else if (message.kind === 'tls-trouble') {
      this.#options.onTlsTrouble?.(message.what, message.why);
    } else if (message.kind === 'uplink-refused') {
      this.#options.onUplinkRefused?.(message.status, message.reported);
    } else if (message.kind === 'gateway-failed') {
      const config = this.#tlsConfig;
      if (config !== undefined && config.kind !== 'tunnel-end')
        this.#options.resolver.hurry(config.gateway.host);
    } else if (message.kind === 'dial-failed') {
      const backend = this.#author.backendAt(message.slot);
      if (backend !== undefined) this.#options.resolver.hurry(backend.host);
    }
  }

  #send(message: ToWorker): void {
    for (const thread of this.#threads) thread.send(message);
  }

  /** IP literals; none for an uplink over TLS, which has its own configuration. */
  #addressesOf(backend: Backend, uplink: Uplink | undefined): readonly string[] {
    if (needsTls(uplink)) return [];
    return isIP(backend.host) === 0 ? this.#options.resolver.addresses(backend.host) : [backend.host];
  }

  #isPending(backendSlot: number): boolean {
    const host = this.#author.backendAt(backendSlot)?.host ?? '';
    return isIP(host) === 0 && this.#options.resolver.isPending(host);
  }

  #onAddressesChanged(names: readonly string[]): void {
    const backends = names.flatMap(name =>
      this.#author.rename(name, (backend, uplink) => this.#addressesOf(backend, uplink)),
    );
    if (backends.length > 0) {
      this.#send({ kind: 'addresses', backends });
      this.#health.setAddresses(backends);
    }
    this.#sendTls();
  }

  #recycle(): void {
    const active = {
      routes: (slot: number) => this.#counts.get(slot, ACTIVE_AT),
      clusters: (slot: number) => this.#pages.clusters.get(slot, CLUSTER_ACTIVE),
      backends: (slot: number) => this.#pages.backends.get(slot, BACKEND_ACTIVE),
    };
    const idle = this.#retired.takeIdle(active, performance.now());
    if (idle === undefined) return;
    // Take their last records while the names are still known.
    this.#records.take();
    for (const slot of this.#author.recycle(idle)) this.#counts.clear(slot);
    for (const slot of idle.backends) this.#health.clear(slot);
  }

  /** The threads that have started, or will again. */
  get #serving(): readonly WorkerThread[] {
    return this.#hasStreams ? this.#threads : this.#workers;
  }

  /** The worker that gives its connections to that stream thread. */
  #workerOf(stream: WorkerThread): WorkerThread {
    return this.#workers[this.#streams.indexOf(stream)];
  }
}

/** Clients may try HTTP/2. */
function servesHttp({ clusters }: GatewayConfig): boolean {
  return clusters.some(cluster => cluster.routes.some(route => route.kind === 'apps-http'));
}

/** TLS of our own, and HTTP/2 for agents. Others are refused before they are routed. */
function routesStreams({ listeners, tls }: GatewayConfig): boolean {
  return tls !== undefined || listeners.some(({ agents }) => agents.length > 0);
}

/** All names to resolve. */
function namesOf({ clusters, tls }: GatewayConfig): Set<string> {
  const names = new Set<string>();
  for (const cluster of clusters) for (const name of namesIn(cluster)) names.add(name);
  if (tls !== undefined && tls.kind !== 'tunnel-end' && isIP(tls.gateway.host) === 0)
    names.add(tls.gateway.host);
  return names;
}

function countBackends(clusters: readonly Cluster[]): number {
  let count = 0;
  for (const { routes } of clusters) for (const { pool } of routes) count += pool.backends.length;
  return count;
}
