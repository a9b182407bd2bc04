// The control side of the gateway: starts the workers, sends them the table, reads their counters and records.
// Nothing here is on the path of a connection. `apply` is all or nothing: a listener that cannot be opened
// refuses the whole change, and what was served before goes on. A worker that dies is started again.

import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Backend, type Cluster, needsTls, type Uplink } from '../cluster/cluster.ts';
import { formatIpPort } from '../wire/ip-address.ts';
import { type CloseReason, closeReasons } from './close-reason.ts';
import type { Settings } from './data-path.ts';
import { type BackendHealth, type HealthChange, HealthThread } from './health/health-thread.ts';
import type { RequestRecord } from './http/request-log.ts';
import type { EngineName } from './io/open-reactor.ts';
import { IN_USE, type SocketAddress } from './io/reactor.ts';
import { ListenError } from './listen-error.ts';
import type { ListenerEntry } from './listener-table.ts';
import type { NameResolver } from './name-resolver.ts';
import { nonceTableBytes } from './nonce-table.ts';
import {
  type IdentifiedRecord,
  type OpenRecord,
  openRecords,
  parseConnectionId,
} from './open-connections.ts';
import { PartThreads } from './part-threads.ts';
import { type ListenPlace, probeListener } from './probe-listener.ts';
import type { ConnectionRecord } from './record-ring.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  BYTES_IN_AT,
  BYTES_OUT_AT,
  CLUSTER_ACTIVE,
  REASONS_AT,
  TOTAL_CONNECTIONS,
  TOTAL_DOWN,
  TOTAL_FIELDS,
  TOTAL_WATCHED,
} from './shared-memory.ts';
import { SharedPages } from './shared-pages.ts';
import { SourceCounts, sourceCountsBytes } from './source-counts.ts';
import type { ClusterEntry } from './table.ts';
import { type FreedSlots, type RouteSlot, TableAuthor } from './table-author.ts';
import type { TlsConfig } from './tls/tls-config.ts';
import { Verdicts } from './verdicts.ts';
import type { FromWorker, TableMessage, ToWorker, WorkerStart } from './worker-messages.ts';
import { WorkerThread } from './worker-thread.ts';

/** How long records may wait for more to come, so that a burst is written in one go. */
const RECORDS_MS = 20;
/** How often it is said how many records were dropped. */
const DROPPED_MS = 1000;
/** How long a change waits for names that are new; they are dialled as soon as they are known. */
const NAMES_MS = 500;
/** While draining, how often it is looked whether connections are left. */
const DRAIN_LOOK_MS = 50;
/** By when a listener that is told to close has taken what was under way, and is closed. */
const LISTENER_CLOSES_MS = 150;
/** How long workers may take to end what they are told to cut. */
const CUT_MS = 1000;
/** Port 0: how often another free port is tried when somebody else takes it first. */
const FREE_PORT_TRIES = 5;
/** Counters of a route that is gone are told for this long, so that a scrape sees its last connections. */
const RETIRED_MS = 300_000;
/**
 * Nonces of signed ids that can be remembered at one time, each for a minute if the clocks agree: 3,000 new signed
 * connections a second. 6 MiB.
 */
const NONCES = 200_000;
/** A worker that died less than this after its last death is not started at once but after RESTART_MS. */
const OFTEN_MS = 10_000;
const RESTART_MS = 1000;

export interface Listener extends ListenerEntry, ListenPlace {}

export interface GatewayConfig {
  readonly listeners: readonly Listener[];
  readonly clusters: readonly Cluster[];
  readonly settings: Settings;
  /** What needs TLS itself: an agent's uplink, or the end of the agents' tunnels. */
  readonly tls?: TlsConfig;
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
  /** Something about TLS that a person should know. */
  readonly onTlsTrouble?: (what: string, why: string) => void;
  /** An agent's gateway answered with no. */
  readonly onUplinkRefused?: (status: number, told: string) => void;
  readonly onRequest: (record: NamedRequest) => void;
  /** The thread's name. */
  readonly onWorkerDeath: (thread: string, cause: Error) => void;
  readonly onHealth: (change: HealthChange) => void;
}

/** A connection's record with the names its slots stand for. */
export interface NamedRecord extends ConnectionRecord {
  readonly on: string;
  readonly route: RouteSlot | undefined;
  readonly backend: string | undefined;
}

/** A request's record with the names its slot stands for. */
export interface NamedRequest extends RequestRecord {
  readonly route: RouteSlot | undefined;
}

/** A backend with what its health checks say; they are undefined for one that is not checked. */
export interface CheckedBackend extends RouteSlot, BackendHealth {
  readonly slot: number;
  readonly backend: string;
  readonly checks: { readonly ok: number; readonly failed: number } | undefined;
}

/** A connection that is open, with the names its slots stand for. */
export interface OpenConnection extends IdentifiedRecord {
  readonly on: string;
  readonly route: RouteSlot | undefined;
  readonly backend: string | undefined;
}

/** What was counted, of a route or in all. */
export interface Figures {
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Connections that ended, by reason; only reasons that there were. */
  readonly reasons: Readonly<Partial<Record<CloseReason, number>>>;
}

export interface RouteFigures extends Figures {
  /** Open now. */
  readonly connections: number;
  /** Open now, by backend as the file has it. */
  readonly backends: ReadonlyMap<string, number>;
}

export interface OpenListener {
  readonly on: string;
  /** The real address, `host:port`. */
  readonly address: string;
}

interface Retiring {
  readonly freed: FreedSlots;
  readonly at: number;
}

interface Opened {
  readonly index: number;
  readonly listener: Listener;
  readonly address: SocketAddress;
}

export class Gateway implements AsyncDisposable {
  readonly #options: GatewayOptions;
  readonly #author = new TableAuthor();
  readonly #threads: WorkerThread[];
  readonly #start: Omit<WorkerStart, 'number' | 'rows' | 'records' | 'verdicts'>;
  readonly #totals: Int32Array;
  readonly #pages = new SharedPages();
  readonly #verdicts: readonly SharedArrayBuffer[];
  readonly #http: PartThreads;
  readonly #tls: PartThreads;
  #tlsConfig: TlsConfig | undefined;
  /** For the sockets between threads; nobody else can enter it. */
  #folder: string | undefined;
  /** Where connections come back from the parts, by worker: the internal listener's index and its sockets. */
  #fronts: { readonly index: number; readonly paths: readonly string[] } | undefined;
  readonly #health: HealthThread;
  #backendCount = 0;
  /** Names of listeners by index; closed ones stay for the records of their connections. */
  readonly #listenerNames: string[] = [];
  #settings: Settings;
  #open: Opened[] = [];
  #generation = 0;
  #served = 0;
  #retiring: Retiring[] = [];
  /** What was counted in slots that have been given out again since, by offset. */
  readonly #past: number[] = [];
  #listing: Promise<unknown> = Promise.resolve();
  /** Changes of what the workers serve, one after the other. */
  #queue: Promise<unknown> = Promise.resolve();
  #recordsTimer: NodeJS.Timeout | undefined;
  #dropped = 0;
  #droppedTimer: NodeJS.Timeout | undefined;
  /** When each thread last died. */
  readonly #deaths = new Map<WorkerThread, number>();
  #accepting = true;
  #stopped = false;

  private constructor(options: GatewayOptions, settings: Settings) {
    this.#options = options;
    this.#settings = settings;
    const totals = new SharedArrayBuffer(TOTAL_FIELDS * Int32Array.BYTES_PER_ELEMENT);
    const sources = new SharedArrayBuffer(sourceCountsBytes(2 * settings.connections));
    const nonces = new SharedArrayBuffer(nonceTableBytes(NONCES));
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
    this.#verdicts = Array.from({ length: workers }, () => Verdicts.memory(capacity));
    this.#threads = this.#verdicts.map(
      (verdicts, number) =>
        new WorkerThread(
          number,
          'worker',
          { ...counts, verdicts: new Verdicts(verdicts) },
          {
            message: message => this.#message(message),
            died: cause => this.#died(this.#threads[number], cause),
          },
        ),
    );
    const part = (kind: 'http' | 'tls') =>
      new PartThreads(kind, workers, counts, this.#verdicts, {
        message: message => this.#message(message),
        died: (thread, cause) => {
          this.#send({ kind: 'part-died', part: kind, index: thread.number });
          this.#died(thread, cause);
        },
      });
    this.#http = part('http');
    this.#tls = part('tls');
    this.#health = new HealthThread({
      backends: this.#pages.backends,
      pages: this.#pages.backendPages,
      totals,
      onChange: options.onHealth,
      onDeath: cause => options.onWorkerDeath('health', cause),
    });
  }

  /** Starts the workers and opens the listeners; the first table is served when it returns. */
  static async start(options: GatewayOptions, config: GatewayConfig): Promise<Gateway> {
    const gateway = new Gateway(options, config.settings);
    try {
      await Promise.all(gateway.#threads.map(thread => gateway.#startThread(thread)));
      await gateway.apply(config);
      return gateway;
    } catch (error) {
      await gateway.stop();
      throw error;
    }
  }

  /** Of the last change that every thread has taken up. */
  get generation(): number {
    return this.#served;
  }

  get listeners(): readonly OpenListener[] {
    return this.#open.map(({ listener, address }) => ({
      on: listener.on,
      address: formatIpPort(address.address, 0, address.port),
    }));
  }

  get connections(): number {
    return Atomics.load(this.#totals, TOTAL_CONNECTIONS);
  }

  /** How many backends are served and down, and by which factor the intervals of the checks are longer than asked for. */
  get health(): { readonly backends: number; readonly down: number; readonly stretch: number } {
    const down = Atomics.load(this.#totals, TOTAL_DOWN);
    return { backends: this.#backendCount, down, stretch: this.#health.stretch };
  }

  healthOf(backendSlot: number): BackendHealth {
    return this.#health.of(backendSlot);
  }

  *backends(): Generator<CheckedBackend> {
    for (const { slot, route, backend } of this.#author.backends()) {
      yield { ...route, slot, backend, ...this.healthOf(slot), checks: this.#health.checksOf(slot) };
    }
  }

  apply(config: GatewayConfig): Promise<void> {
    return this.#inTurn(() => this.#apply(config));
  }

  /** Signatures are verified with these from now on. Nothing else changes. */
  useSecrets(secrets: readonly Uint8Array[]): Promise<void> {
    return this.#inTurn(async () => {
      this.#settings = { ...this.#settings, secrets };
      this.#send({ kind: 'settings', settings: this.#settings });
    });
  }

  /** Other certificates, keys or addresses for what needs TLS. */
  useTls(config: TlsConfig): Promise<void> {
    return this.#inTurn(async () => {
      this.#tlsConfig = config;
      this.#sendTls();
    });
  }

  /** Every route that is served, with what the workers counted for it. Slot 0 stands for "no route". */
  *routes(): Generator<{
    readonly slot: number;
    readonly route: RouteSlot | undefined;
    get(offset: number): number;
  }> {
    const threads = this.#all();
    for (let slot = 0; slot < this.#author.routeSlots; slot++) {
      const route = this.#author.routeAt(slot);
      if (slot !== 0 && route === undefined) continue;
      yield { slot, route, get: offset => sumOf(threads, slot, offset) };
    }
  }

  /** What was counted for a route that is served; undefined for one that is not. */
  figuresOf(cluster: string, kind: string): RouteFigures | undefined {
    const route = this.#author.entryOf(cluster)?.routes.find(entry => entry.kind === kind);
    if (route === undefined) return undefined;
    const threads = this.#all();
    const get = (offset: number) => sumOf(threads, route.slot, offset);
    const active = (slot: number) => this.#pages.backends.get(slot, BACKEND_ACTIVE);
    return {
      ...figures(get),
      connections: get(ACTIVE_AT),
      backends: new Map(route.backends.map(({ text, slot }) => [text, active(slot)])),
    };
  }

  /** As health checks have it; up is also a backend that is not checked, or not served. */
  backendHealth(cluster: string, kind: string, backend: string): BackendHealth {
    const route = this.#author.entryOf(cluster)?.routes.find(entry => entry.kind === kind);
    const slot = route?.backends.find(({ text }) => text === backend)?.slot;
    return slot === undefined ? { up: true, checked: false } : this.#health.of(slot);
  }

  /** Over all routes since the start, those that are gone and what never had a route included. */
  traffic(): Figures {
    const totals = [...this.#past];
    for (const { get } of this.routes()) addCounts(totals, get);
    return figures(offset => totals[offset] ?? 0);
  }

  /** The newest connections that are open, newest first; those of one cluster where it is given. */
  openConnections(limit: number, cluster?: string): Promise<readonly OpenConnection[]> {
    // One list after the other: workers are asked for one at a time, however many want it.
    const wanted =
      cluster === undefined ? () => true : (slot: number) => this.#author.routeAt(slot)?.cluster === cluster;
    const listing = this.#listing.then(async () => {
      const open = await openRecords(this.#threads, limit, wanted);
      return open.map(record => ({ ...record, ...this.#namesOf(record) }));
    });
    this.#listing = listing.catch(() => {});
    return listing;
  }

  /** Ends one with `revoked`. False when it is not open any more, undefined when that cannot be an id. */
  async endConnection(id: string): Promise<boolean | undefined> {
    const parsed = parseConnectionId(id);
    if (parsed === undefined) return undefined;
    const { worker, life, handle, generation } = parsed;
    return (await this.#threads[worker]?.revoke(life, handle, generation)) ?? false;
  }

  /** While watched, records of refusals come also where the log does not want them; see `logged`. */
  watchRefusals(watched: boolean): void {
    Atomics.store(this.#totals, TOTAL_WATCHED, watched ? 1 : 0);
  }

  /** Nothing more is accepted; resolves when all connections have ended, or cuts them after `limitMs`. */
  async drain(limitMs: number): Promise<void> {
    await this.#inTurn(async () => {
      this.#accepting = false;
      this.#send({ kind: 'drain' });
    });
    const until = performance.now() + limitMs;
    await sleep(LISTENER_CLOSES_MS);
    while (this.connections > 0 && !this.#stopped) {
      if (performance.now() >= until) return this.#cut('drained');
      await sleep(DRAIN_LOOK_MS);
    }
  }

  /** Ends what is open now, and the workers. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    await this.#cut('shutdown');
    this.#stopped = true;
    clearTimeout(this.#recordsTimer);
    this.takeRecords();
    clearTimeout(this.#droppedTimer);
    this.#sayDropped();
    this.#options.resolver.stop();
    await Promise.all([...this.#threads.map(thread => thread.end()), this.#health[Symbol.asyncDispose]()]);
    // A connection is counted out before its record is written: the last one may have come too late for the first look.
    this.takeRecords();
    await this.#http[Symbol.asyncDispose]();
    await this.#tls[Symbol.asyncDispose]();
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Hands out the records that the workers wrote so far. */
  takeRecords(): void {
    for (const thread of this.#threads) {
      const dropped = thread.records.take(record => {
        this.#options.onRecord({ ...record, ...this.#namesOf(record) });
      });
      this.#countDropped(dropped);
    }
  }

  /** HTTP requests that were answered, by status. */
  requests(slot: number): Map<number, number> {
    const byStatus = new Map<number, number>();
    for (const { pages } of this.#http.threads) {
      for (const [status, count] of pages.requests?.of(slot) ?? [])
        byStatus.set(status, (byStatus.get(status) ?? 0) + count);
    }
    return byStatus;
  }

  /** Ends a thread as a fault would. For tests of what follows. */
  killWorker(worker: number | 'health', kind: WorkerThread['kind'] = 'worker'): void {
    if (worker === 'health') this.#health.kill();
    else
      this.#all()
        .find(thread => thread.kind === kind && thread.number === worker)
        ?.kill();
  }

  #namesOf({ listener, slot, backendSlot }: OpenRecord): Pick<OpenConnection, 'on' | 'route' | 'backend'> {
    return {
      on: this.#listenerNames[listener] ?? '',
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
    const until = performance.now() + CUT_MS;
    while (this.connections > 0 && performance.now() < until) await sleep(10);
  }

  async #apply(config: GatewayConfig): Promise<void> {
    const opened = await this.#openNew(config.listeners);
    await this.#options.resolver.watch(namesIn(config), NAMES_MS, names => this.#renamed(names));
    this.#tlsConfig = config.tls;
    if (config.tls !== undefined && this.#tls.threads.length === 0) await this.#startTls(config.settings);
    const change = this.#author.change(config.clusters, (backend, uplink) =>
      this.#addressesOf(backend, uplink),
    );
    const known = [...this.#open, ...opened];
    const open = config.listeners.flatMap(listener => {
      const found = known.find(candidate => placeOf(candidate.listener) === placeOf(listener));
      return found === undefined ? [] : [{ ...found, listener }];
    });
    const closed = known.filter(before => !open.some(still => still.index === before.index));
    this.#open = open;
    this.#settings = config.settings;
    for (const { index, listener } of open) this.#listenerNames[index] = listener.on;
    this.#generation++;
    this.#pages.grow(this.#author.pages);
    await this.#startHttp(config);
    this.#sendTls();
    // The parts first: a worker hands over at once what comes in by a new listener.
    for (const threads of [[...this.#tls.threads, ...this.#http.threads], this.#threads]) {
      await Promise.all(threads.map(thread => thread.apply(this.#table(thread, change.removed, change.put))));
    }
    const changed = change.put.map(cluster => cluster.name);
    this.#health.change(this.#author.backends(changed), change.freed.backends);
    this.#backendCount = countBackends(config.clusters);
    this.#served = this.#generation;
    if (closed.length > 0) {
      this.#send({ kind: 'close', indexes: closed.map(({ index }) => index) });
      // The next change may want the same address again.
      await sleep(LISTENER_CLOSES_MS);
    }
    this.#retiring.push({ freed: change.freed, at: performance.now() });
    this.#recycle();
  }

  #table(thread: WorkerThread, removed: readonly string[], put: readonly ClusterEntry[]): TableMessage {
    return {
      kind: 'table',
      generation: this.#generation,
      pages: this.#pages.give(thread.pages),
      removed,
      put,
      listeners: [
        ...this.#open.map(open => [open.index, entryOf(open.listener)] as const),
        ...(this.#fronts === undefined ? [] : [[this.#fronts.index, internalEntry] as const]),
      ],
      settings: this.#settings,
    };
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
      this.#send({ kind: 'close', indexes: opened.map(open => open.index) });
      throw error;
    }
  }

  async #openOne(listener: Listener): Promise<Opened> {
    for (let tries = 1; ; tries++) {
      const index = this.#listenerNames.push(listener.on) - 1;
      const address = await probeListener(listener, this.#hasPort(listener.port));
      const results = await Promise.all(
        this.#threads.map(thread => thread.open({ kind: 'open', index, address })),
      );
      const word = results.find(result => result !== undefined && result < 0);
      if (word === undefined) return { index, listener, address };
      this.#send({ kind: 'close', indexes: [index] });
      if (listener.port !== 0 || word !== IN_USE || tries === FREE_PORT_TRIES)
        throw new ListenError(listener.on, word);
    }
  }

  /** Ours already, on another address or in another spelling: then nobody else can be there. */
  #hasPort(port: number): boolean {
    return port !== 0 && this.#options.share && this.#open.some(({ address }) => address.port === port);
  }

  #startThread(thread: WorkerThread): Promise<boolean> {
    const verdicts = this.#verdicts[thread.number];
    return thread.start({ ...this.#start, settings: this.#settings, verdicts });
  }

  /**
   * HTTP threads are there from the first route or listener that needs them: agents may speak HTTP/2. They know what
   * was served before.
   */
  async #startHttp({ clusters, listeners }: GatewayConfig): Promise<void> {
    if (this.#http.threads.length > 0) return;
    const isNeeded =
      listeners.some(({ agents }) => agents.length > 0) ||
      clusters.some(cluster => cluster.routes.some(route => route.kind === 'apps-http'));
    if (!isNeeded) return;
    await this.#openFronts();
    await this.#http.start(await this.#sockets(), { ...this.#start, settings: this.#settings });
    await Promise.all(
      this.#http.threads.map(thread => thread.apply(this.#table(thread, [], this.#author.entries))),
    );
    for (const thread of this.#http.threads) this.#tellFronts(thread);
    this.#send({ kind: 'http', sockets: this.#http.sockets });
  }

  async #startTls(settings: Settings): Promise<void> {
    await this.#openFronts();
    await this.#tls.start(await this.#sockets(), { ...this.#start, settings });
    for (const thread of this.#tls.threads) this.#tellFronts(thread);
  }

  /** To the TLS threads what they are to do, and to the workers which names lead there. */
  #sendTls(): void {
    const config = this.#tlsConfig;
    if (config !== undefined) {
      for (const thread of this.#tls.threads) thread.send({ kind: 'tls', config: this.#resolved(config) });
    }
    const hosts = config?.kind === 'tunnel-end' ? config.hosts : [];
    for (const thread of this.#threads) thread.send({ kind: 'tunnels', hosts, sockets: this.#tls.sockets });
  }

  #resolved(config: TlsConfig): TlsConfig {
    if (config.kind === 'tunnel-end' || config.gateway.addresses.length > 0) return config;
    const { host } = config.gateway;
    const addresses = isIP(host) === 0 ? this.#options.resolver.addresses(host) : [host];
    return { ...config, gateway: { ...config.gateway, addresses } };
  }

  async #sockets(): Promise<string> {
    // Created with mode 0700.
    this.#folder ??= await mkdtemp(join(tmpdir(), 'causeway-'));
    return this.#folder;
  }

  async #openFronts(): Promise<void> {
    if (this.#fronts !== undefined) return;
    const folder = await this.#sockets();
    const index = this.#listenerNames.push('') - 1;
    const paths = this.#threads.map(({ number }) => join(folder, `front-${number}`));
    this.#fronts = { index, paths };
    await Promise.all(this.#threads.map(thread => this.#openFront(thread)));
  }

  async #openFront(thread: WorkerThread): Promise<void> {
    if (this.#fronts === undefined) return;
    const { index, paths } = this.#fronts;
    const path = paths[thread.number];
    // That of one that died stands in the way.
    await rm(path, { force: true });
    const address = { address: new Uint8Array(16), port: 0, path };
    const result = await thread.open({ kind: 'open', index, address });
    if (result !== undefined && result < 0) throw new ListenError(path, result);
  }

  #tellFronts(thread: WorkerThread): void {
    thread.send({ kind: 'fronts', fronts: this.#fronts?.paths ?? [] });
  }

  #died(thread: WorkerThread, cause: Error): void {
    this.#options.onWorkerDeath(thread.name, cause);
    this.takeRecords();
    const now = performance.now();
    const pause = now - (this.#deaths.get(thread) ?? Number.NEGATIVE_INFINITY) < OFTEN_MS ? RESTART_MS : 0;
    this.#deaths.set(thread, now);
    setTimeout(() => void this.#inTurn(() => this.#revive(thread)), pause);
  }

  /** Gives a thread that starts anew all that the others have. */
  async #revive(thread: WorkerThread): Promise<void> {
    if (this.#stopped) return;
    const isStarted = await (thread.kind === 'worker'
      ? this.#startThread(thread)
      : (thread.kind === 'http' ? this.#http : this.#tls).restart(thread, {
          ...this.#start,
          settings: this.#settings,
        }));
    if (!isStarted) return;
    if (thread.kind === 'worker') {
      if (this.#http.sockets.length > 0) thread.send({ kind: 'http', sockets: this.#http.sockets });
      await this.#openFront(thread);
      for (const { index, address } of this.#accepting ? this.#open : [])
        await thread.open({ kind: 'open', index, address });
    } else {
      this.#tellFronts(thread);
    }
    this.#sendTls();
    await thread.apply(this.#table(thread, [], this.#author.entries));
    if (!this.#accepting) thread.send({ kind: 'drain' });
  }

  #message(message: FromWorker): void {
    if (message.kind === 'records') {
      this.#recordsTimer ??= setTimeout(() => {
        this.#recordsTimer = undefined;
        this.takeRecords();
      }, RECORDS_MS);
    } else if (message.kind === 'requests') {
      this.#requests(message);
    } else if (message.kind === 'tls-trouble') {
      this.#options.onTlsTrouble?.(message.what, message.why);
    } else if (message.kind === 'uplink-refused') {
      this.#options.onUplinkRefused?.(message.status, message.told);
    } else if (message.kind === 'gateway-failed') {
      if (this.#tlsConfig !== undefined && this.#tlsConfig.kind !== 'tunnel-end')
        this.#options.resolver.hurry(this.#tlsConfig.gateway.host);
    } else if (message.kind === 'dial-failed') {
      const backend = this.#author.backendAt(message.slot);
      if (backend !== undefined) this.#options.resolver.hurry(backend.host);
    }
  }

  #requests({ thread, records, dropped }: Extract<FromWorker, { kind: 'requests' }>): void {
    for (const record of records) {
      this.#options.onRequest({ ...record, route: this.#author.routeAt(record.slot) });
    }
    this.#countDropped(dropped);
    this.#http.threads[thread]?.send({ kind: 'requests-taken' });
  }

  #countDropped(count: number): void {
    this.#dropped += count;
    if (this.#dropped > 0) this.#droppedTimer ??= setTimeout(() => this.#sayDropped(), DROPPED_MS);
  }

  #sayDropped(): void {
    this.#droppedTimer = undefined;
    if (this.#dropped > 0) this.#options.onDropped(this.#dropped);
    this.#dropped = 0;
  }

  #send(message: ToWorker): void {
    for (const thread of this.#all()) thread.send(message);
  }

  /** IP literals; for what the TLS part does, where its threads listen. */
  #addressesOf(backend: Backend, uplink: Uplink | undefined): readonly string[] {
    if (needsTls(uplink)) return this.#tls.sockets;
    return isIP(backend.host) === 0 ? this.#options.resolver.addresses(backend.host) : [backend.host];
  }

  #renamed(names: readonly string[]): void {
    const backends = names.flatMap(name =>
      this.#author.rename(name, (backend, uplink) => this.#addressesOf(backend, uplink)),
    );
    if (backends.length > 0) {
      this.#send({ kind: 'addresses', backends });
      this.#health.setAddresses(backends);
    }
    this.#sendTls();
  }

  /** Slots whose last connection is gone may be given out again, once what was counted for them has been told. */
  #recycle(): void {
    const due = this.#retiring.filter(({ at }) => performance.now() - at >= RETIRED_MS);
    if (due.length === 0) return;
    const idle = { routes: [] as number[], clusters: [] as number[], backends: [] as number[] };
    const busy = { routes: [] as number[], clusters: [] as number[], backends: [] as number[] };
    const sort = (key: keyof FreedSlots, active: (slot: number) => number) => {
      for (const slot of due.flatMap(({ freed }) => freed[key]))
        (active(slot) === 0 ? idle : busy)[key].push(slot);
    };
    const threads = this.#all();
    sort('routes', slot => sumOf(threads, slot, ACTIVE_AT));
    sort('clusters', slot => this.#pages.clusters.get(slot, CLUSTER_ACTIVE));
    sort('backends', slot => this.#pages.backends.get(slot, BACKEND_ACTIVE));
    // Their last records are read while the names are still known.
    this.takeRecords();
    for (const slot of this.#author.recycle(idle)) {
      addCounts(this.#past, offset => sumOf(threads, slot, offset));
      for (const thread of threads) thread.pages.clear(slot);
    }
    for (const slot of idle.backends) this.#health.clear(slot);
    this.#retiring = [...this.#retiring.filter(one => !due.includes(one)), { freed: busy, at: due[0].at }];
  }

  #all(): readonly WorkerThread[] {
    return [...this.#threads, ...this.#http.threads, ...this.#tls.threads];
  }
}

/** What the threads counted there. Asked for a million times in a scrape of a large table. */
function sumOf(threads: readonly WorkerThread[], slot: number, offset: number): number {
  let sum = 0;
  for (const { pages } of threads) sum += pages.counters.get(slot, offset);
  return sum;
}

/** Adds reasons and bytes to totals by offset. */
function addCounts(totals: number[], get: (offset: number) => number): void {
  for (let offset = REASONS_AT; offset <= BYTES_OUT_AT; offset++)
    totals[offset] = (totals[offset] ?? 0) + get(offset);
}

function figures(get: (offset: number) => number): Figures {
  const reasons: Partial<Record<CloseReason, number>> = {};
  for (const [index, reason] of closeReasons.entries()) {
    const count = get(REASONS_AT + index);
    if (count > 0) reasons[reason] = count;
  }
  return { bytesIn: get(BYTES_IN_AT), bytesOut: get(BYTES_OUT_AT), reasons };
}

function placeOf(listener: Listener): string {
  // Each port 0 is a listener of its own, told apart by what the file calls it.
  return `${listener.host} ${listener.port} ${listener.port === 0 ? listener.on : ''}`;
}

function entryOf(listener: Listener): ListenerEntry {
  const { on, balancers, agents, idTlv, only, direct } = listener;
  return {
    on,
    balancers,
    agents,
    idTlv,
    ...(only !== undefined && { only }),
    ...(direct !== undefined && { direct }),
  };
}

/** Where connections come back from the parts. What is written there counts for nothing: they bring their own. */
const internalEntry: ListenerEntry = { on: '', balancers: [], agents: [], idTlv: [], isInternal: true };

function namesIn({ clusters, tls }: GatewayConfig): Set<string> {
  const hosts = clusters.flatMap(cluster =>
    cluster.routes.flatMap(route => route.pool.backends.map(backend => backend.host)),
  );
  if (tls !== undefined && tls.kind !== 'tunnel-end') hosts.push(tls.gateway.host);
  return new Set(hosts.filter(host => isIP(host) === 0));
}

function countBackends(clusters: readonly Cluster[]): number {
  let count = 0;
  for (const { routes } of clusters) for (const { pool } of routes) count += pool.backends.length;
  return count;
}
