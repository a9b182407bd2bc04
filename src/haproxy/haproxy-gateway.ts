// A gateway whose bytes HAProxy moves: the same table, counters and events as our own data path, from HAProxy's log and
// runtime API. A change goes to the running haproxy as commands; only what those cannot change (listeners, settings, no
// section left) starts a second haproxy on the same sockets, while the first one keeps its connections until they end.
//
// Our own thread checks the backends and our own resolver looks up names; HAProxy gets addresses and states.

import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend, Cluster } from '../cluster/cluster.ts';
import { type CloseReason, closeReasons } from '../gateway/close-reason.ts';
import type { GatewayOptions } from '../gateway/control/gateway.ts';
import type {
  CheckedBackend,
  GatewayConfig,
  GatewayPort,
  OpenConnection,
  RouteCounter,
  RouteFigures,
} from '../gateway/control/gateway-port.ts';
import { type InheritedSocket, InheritedSockets } from '../gateway/control/inherited-sockets.ts';
import type { OpenListener } from '../gateway/control/open-listeners.ts';
import { Revival } from '../gateway/control/revival.ts';
import type { Figures } from '../gateway/control/route-counts.ts';
import { RouteCounts } from '../gateway/control/route-counts.ts';
import { TableFigures } from '../gateway/control/table-figures.ts';
import { type BackendHealth, type HealthChange, HealthThread } from '../gateway/health/health-thread.ts';
import { HTTP, NO_PROTOCOL, TLS } from '../gateway/shared/rows.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  BACKEND_DOWN,
  BYTES_IN_AT,
  BYTES_OUT_AT,
  CLUSTER_ACTIVE,
  REASONS_AT,
  TOTAL_DOWN,
  TOTAL_FIELDS,
} from '../gateway/shared/shared-memory.ts';
import { OwnPages, SharedPages } from '../gateway/shared/shared-pages.ts';
import { RetiredSlots } from '../gateway/table/retired-slots.ts';
import { namesIn, TableAuthor } from '../gateway/table/table-author.ts';
import { address, ConnectionRecords, type RecordSettings } from './connection-records.ts';
import {
  fixedText,
  HaproxyProcesses,
  type HaproxyProcessesOptions,
  privateFolder,
} from './haproxy-processes.ts';
import { ListeningSockets } from './listening-sockets.ts';
import { type LogLine, parseLogLine } from './log-line.ts';
import type { OpenCounts, RunningHaproxy } from './running-haproxy.ts';
import { fits } from './sections.ts';
import { type SectionPlan, ServedSections } from './served-sections.ts';
import type { Session } from './show-stat.ts';

/** How long a change waits for new names to resolve; slower ones are dialled as soon as they resolve. */
const NAMES_MS = 500;
/** How often open connections are counted, and while draining. */
const COUNT_MS = 1000;
const DRAIN_POLL_MS = 50;
/** Before a listener closes: HAProxy accepts what waits in the kernel's queue. As long as in our own data path. */
const LAST_ACCEPT_MS = 100;
/** How long connections that we end may take to be logged. */
const CUT_MS = 1000;
/**
 * How long the line of a connection with HTTP waits for the line of its last request, which another thread of HAProxy
 * may write a moment later.
 */
const LAST_REQUEST_MS = 100;
/**
 * A haproxy that answers nothing for so long is ended by force, as a thread of ours is, and another one starts. HAProxy
 * ends itself within seconds if one of its threads hangs; this is for a process that was stopped.
 */
const STUCK_MS = 30_000;
/** Changes of health or names within this time go to HAProxy together. */
const STATES_MS = 20;

export interface HaproxyGatewayOptions
  extends Pick<HaproxyProcessesOptions, 'program' | 'environment' | 'onReload'>,
    Pick<
      GatewayOptions,
      | 'workers'
      | 'inherited'
      | 'resolver'
      | 'onRecord'
      | 'onRequest'
      | 'onDropped'
      | 'onThreadDeath'
      | 'onFault'
      | 'onHealth'
      | 'backOff'
    > {}

export class HaproxyGateway implements GatewayPort, AsyncDisposable {
  readonly #options: HaproxyGatewayOptions;
  readonly #author = new TableAuthor();
  readonly #pages = new SharedPages();
  readonly #own = new OwnPages(true);
  readonly #counts: RouteCounts;
  readonly #totals = new SharedArrayBuffer(TOTAL_FIELDS * Int32Array.BYTES_PER_ELEMENT);
  readonly #health: HealthThread;
  readonly #figures: TableFigures;
  readonly #revival: Revival<'haproxy' | 'health'>;
  readonly #sockets: ListeningSockets;
  readonly #processes: HaproxyProcesses;
  readonly #sections = new ServedSections();
  readonly #records: ConnectionRecords;
  readonly #retired = new RetiredSlots();
  readonly #counting: NodeJS.Timeout;
  #config: GatewayConfig;
  #clusters: readonly Cluster[] = [];
  #queue: Promise<unknown> = Promise.resolve();
  #generation = 0;
  #connections = 0;
  #isWatched = false;
  #isAccepting = true;
  #isShared = false;
  #isStopped = false;
  #killedAs: CloseReason = 'revoked';
  /** Connections with HTTP that have ended, and are recorded when their timer fires. */
  readonly #ended = new Map<NodeJS.Timeout, () => void>();
  #countUnderWay: Promise<void> | undefined;
  #statesTimer: NodeJS.Timeout | undefined;
  readonly #unreported: HealthChange[] = [];

  private constructor(options: HaproxyGatewayOptions, config: GatewayConfig, folder: string) {
    this.#options = options;
    this.#config = config;
    this.#pages.add(this.#own);
    this.#pages.grow(this.#author.pages);
    this.#counts = new RouteCounts(() => [{ pages: this.#own }]);
    this.#sockets = new ListeningSockets(options.inherited ?? new InheritedSockets([]));
    this.#processes = new HaproxyProcesses(
      {
        program: options.program,
        environment: options.environment,
        workers: options.workers,
        sockets: () => this.#sockets.descriptors,
        onLine: (line, listeners) => this.#onLine(line, listeners),
        onEnd: text => this.#onEnd(text),
        onReload: options.onReload,
      },
      folder,
    );
    this.#revival = new Revival(options.onThreadDeath, options.backOff);
    this.#health = new HealthThread({
      backends: this.#pages.backends,
      pages: this.#pages.backendPages,
      totals: this.#totals,
      isPending: slot => {
        const host = this.#author.backendAt(slot)?.host ?? '';
        return isIP(host) === 0 && options.resolver.isPending(host);
      },
      onChange: change => this.#onHealth(change),
      onDeath: cause =>
        this.#revival.died({ name: 'health', kind: 'health' }, cause, () => this.#health.revive()),
      onFault: options.onFault,
    });
    this.#figures = new TableFigures(this.#author, this.#counts, this.#pages, this.#health);
    this.#records = new ConnectionRecords({
      routeAt: slot => this.#author.routeAt(slot),
      backendAt: (route, place) => this.#sections.backendAt(route, place),
    });
    this.#counting = setInterval(() => void this.#count().catch(() => {}), COUNT_MS).unref();
  }

  /** Serves when it resolves. Throws a HaproxyError or a ListenError. */
  static async start(options: HaproxyGatewayOptions, config: GatewayConfig): Promise<HaproxyGateway> {
    const folder = await privateFolder();
    const gateway = new HaproxyGateway(options, config, folder);
    try {
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
    return this.#sockets.addresses;
  }

  get sockets(): readonly InheritedSocket[] {
    return this.#sockets.sockets;
  }

  get connections(): number {
    return this.#connections;
  }

  get health(): { readonly backends: number; readonly down: number; readonly stretch: number } {
    let backends = 0;
    for (const { routes } of this.#author.entries)
      for (const route of routes) backends += route.backends.length;
    return { backends, down: new Int32Array(this.#totals)[TOTAL_DOWN], stretch: this.#health.stretch };
  }

  get trouble(): string | undefined {
    if (this.#config.listeners.length === 0) return undefined;
    if (!this.#isUp) return 'HAProxy is not running; the log says why';
    return this.#processes.current?.silentSince === undefined ? undefined : 'HAProxy does not answer';
  }

  get #isUp(): boolean {
    return this.#processes.current?.isUp === true;
  }

  apply(config: GatewayConfig): Promise<void> {
    return this.#inTurn(() => this.#apply(config));
  }

  /** HAProxy verifies no signatures; a file that wants that is refused. */
  async useSecrets(): Promise<void> {}

  async useTls(): Promise<void> {}

  shareListeners(isShared: boolean): void {
    this.#isShared = isShared;
  }

  async drain(limitMs: number): Promise<void> {
    this.#isAccepting = false;
    this.#processes.close();
    const deadline = performance.now() + limitMs;
    if (!this.#isShared) await sleep(LAST_ACCEPT_MS);
    await Promise.all(this.#processes.all.map(running => running.stopAccepting().catch(() => {})));
    if (!this.#isShared) this.#sockets.shutDown();
    this.#sockets[Symbol.dispose]();
    while (!this.#isStopped) {
      await this.#count().catch(() => {});
      if (this.#connections === 0) return;
      if (performance.now() >= deadline) return this.#cut('drained');
      await sleep(DRAIN_POLL_MS);
    }
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isAccepting = false;
    this.#processes.close();
    clearInterval(this.#counting);
    clearTimeout(this.#statesTimer);
    this.#revival[Symbol.dispose]();
    if (this.#connections > 0 || this.#processes.all.length > 0) await this.#cut('shutdown');
    this.#isStopped = true;
    this.#options.resolver.stop();
    await Promise.all([this.#processes[Symbol.asyncDispose](), this.#health[Symbol.asyncDispose]()]);
    for (const [timer, record] of this.#ended) {
      clearTimeout(timer);
      record();
    }
    if (!this.#isShared) this.#sockets.shutDown();
    this.#sockets[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  backends(): Generator<CheckedBackend> {
    return this.#figures.backends();
  }

  backendHealth(cluster: string, kind: string, backend: string): BackendHealth {
    return this.#figures.backendHealth(cluster, kind, backend);
  }

  routes(): Generator<RouteCounter> {
    return this.#figures.routes();
  }

  figuresOf(cluster: string, kind: string): RouteFigures | undefined {
    return this.#figures.figuresOf(cluster, kind);
  }

  traffic(): Figures {
    return this.#figures.traffic();
  }

  requests(slot: number): ReadonlyMap<number, number> {
    return new Map(this.#own.requests?.of(slot));
  }

  async openConnections(limit: number, cluster?: string): Promise<readonly OpenConnection[]> {
    // The newest first: a later process has the later ones, and each numbers its own.
    const processes = this.#processes.all.toSorted((a, b) => b.startedWith.number - a.startedWith.number);
    const listed = await Promise.all(
      processes.map(async running => {
        const sessions = await running.sessions().catch(() => []);
        return sessions
          .toSorted((a, b) => b.number - a.number)
          .map(session => this.#openConnection(running, session));
      }),
    );
    return listed
      .flat()
      .filter(({ route }) => cluster === undefined || route?.cluster === cluster)
      .slice(0, limit);
  }

  async endConnection(id: string): Promise<boolean> {
    const match = /^(\d{1,6})-(\d{1,15})-(0x[0-9a-f]{1,16})$/.exec(id);
    if (match === null) return false;
    const [, started, number, pointer] = match;
    const running = this.#processes.all.find(({ startedWith }) => startedWith.number === Number(started));
    return running !== undefined && (await running.endSession(Number(number), pointer));
  }

  watchRefusals(watched: boolean): void {
    this.#isWatched = watched;
  }

  refresh(): Promise<void> {
    return this.#count().catch(() => {});
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work);
    this.#queue = turn.catch(() => {});
    return turn;
  }

  #mustAccept(): void {
    if (!this.#isAccepting) throw new Error('The gateway is draining');
  }

  async #apply(config: GatewayConfig): Promise<void> {
    this.#mustAccept();
    const { resolver } = this.#options;
    const names = new Set(config.clusters.flatMap(cluster => [...namesIn(cluster)]));
    await resolver.watch(names, NAMES_MS, changed => this.#onNames(changed));
    this.#mustAccept();
    const before = this.#clusters;
    const change = this.#author.change(config.clusters, backend => this.#addressesOf(backend));
    const opened = this.#sockets.open(config.listeners);
    try {
      await this.#serve(config);
    } catch (error) {
      opened.undo();
      // What was entered and is not served is freed again.
      this.#retired.add(
        this.#author.change(before, backend => this.#addressesOf(backend)).freed,
        performance.now(),
      );
      // HAProxy may serve a part of it.
      if (this.#processes.current?.doubt !== undefined) this.#tellStatesSoon();
      throw error;
    }
    opened.keep();
    this.#config = config;
    this.#clusters = config.clusters;
    this.#generation++;
    this.#pages.grow(this.#author.pages);
    this.#health.change(this.#author.backends(change.put.map(({ name }) => name)), change.freed.backends);
    for (const slot of change.freed.backends) this.#pages.backends.set(slot, BACKEND_ACTIVE, 0);
    this.#retired.add(change.freed, performance.now());
    this.#recycle();
  }

  /** Makes HAProxy serve the author's entries: by commands if they suffice, else by a new haproxy. */
  async #serve(config: GatewayConfig): Promise<void> {
    const { entries } = this.#author;
    this.#pages.grow(this.#author.pages);
    const plan = this.#sections.plan(entries, slot => this.#isDown(slot));
    const { current } = this.#processes;
    const why = this.#whyReload(config, plan);
    if (why === undefined && current !== undefined) {
      try {
        await current.update(plan.state);
      } catch (error) {
        // Some of the commands may have been carried out, or it has ended.
        current.doubt = (error as Error).message;
        await this.#processes.replace({ config, ...plan }, current.doubt);
      }
    } else if (why !== undefined && config.listeners.length > 0) {
      await this.#processes.replace({ config, ...plan }, why);
    }
    this.#sections.serve(plan, entries, performance.now());
  }

  /** undefined if commands suffice. */
  #whyReload(config: GatewayConfig, { needed, alpn }: SectionPlan): string | undefined {
    const { current } = this.#processes;
    if (current === undefined || !current.isUp) return 'start';
    if (current.doubt !== undefined) return current.doubt;
    const { startedWith } = current;
    if (startedWith.fixed !== fixedText(config)) return 'listeners or settings changed';
    if (!fits(needed, startedWith.sections)) return 'no section left for a route';
    return alpn.every(protocol => startedWith.alpn.includes(protocol)) ? undefined : 'another ALPN protocol';
  }

  /** It should serve, so another one starts. */
  #onEnd(text: string): void {
    this.#countLost();
    this.#revival.died({ name: 'haproxy', kind: 'haproxy' }, new Error(text), () =>
      this.#inTurn(() => this.#revive()),
    );
  }

  async #revive(): Promise<Error | undefined> {
    if (this.#isStopped || !this.#isAccepting || this.#isUp) return undefined;
    await this.#serve(this.#config);
    return undefined;
  }

  async #cut(reason: 'drained' | 'shutdown'): Promise<void> {
    // Lines of a drain may still be on their way when the end of the process begins.
    if (this.#killedAs !== 'drained') this.#killedAs = reason;
    const deadline = performance.now() + CUT_MS;
    do {
      const ended = await Promise.allSettled(this.#processes.all.map(running => running.endSessions()));
      if (ended.every(({ status }) => status === 'rejected')) break;
      await this.#count().catch(() => {});
      if (this.#connections === 0) break;
      await sleep(DRAIN_POLL_MS);
    } while (performance.now() < deadline);
  }

  #onLine(text: string, listeners: readonly string[]): void {
    const line = parseLogLine(text);
    if (line === undefined) return;
    const { settings } = this.#config;
    const killedAs = this.#killedAs;
    const record = () => this.#record(line, settings, killedAs, listeners[line.listener] ?? '');
    if (line.kind !== 'connection' || line.protocol !== 'http') return record();
    const timer = setTimeout(() => {
      this.#ended.delete(timer);
      record();
    }, LAST_REQUEST_MS);
    this.#ended.set(timer, record);
  }

  #record(line: LogLine, settings: RecordSettings, killedAs: CloseReason, on: string): void {
    const { connection, request } = this.#records.take(line, settings, killedAs, on);
    if (request !== undefined) {
      const { bytesIn, bytesOut, dialMs } = line as Extract<typeof line, { kind: 'request' }>;
      this.#own.requests?.add(request.slot, request.status);
      this.#own.counters.add(request.slot, BYTES_IN_AT, bytesIn);
      this.#own.counters.add(request.slot, BYTES_OUT_AT, bytesOut);
      if (dialMs >= 0 && request.slot !== 0) this.#own.counters.observeSeconds(request.slot, dialMs / 1000);
      if (request.logged) this.#options.onRequest(request);
    }
    if (connection === undefined) return;
    const { slot, reason, protocol, bytesIn, bytesOut, dialMs } = connection;
    this.#own.counters.add(slot, REASONS_AT + reason, 1);
    if (protocol !== HTTP) {
      this.#own.counters.add(slot, BYTES_IN_AT, bytesIn);
      this.#own.counters.add(slot, BYTES_OUT_AT, bytesOut);
      if (dialMs >= 0 && slot !== 0) this.#own.counters.observeSeconds(slot, dialMs / 1000);
    }
    if (connection.logged || this.#isWatched) this.#options.onRecord(connection);
  }

  /** Connections of a haproxy that died are not logged by it: they count as ended by us. */
  #countLost(): void {
    const shutdown = REASONS_AT + closeReasons.indexOf('shutdown');
    for (const { slot, get } of this.routes()) {
      const lost = get(ACTIVE_AT);
      if (lost > 0) this.#own.counters.add(slot, shutdown, lost);
    }
    this.#own.counters.clearField(ACTIVE_AT);
    this.#connections = 0;
  }

  #onHealth(change: HealthChange): void {
    this.#unreported.push(change);
    this.#tellStatesSoon();
  }

  #onNames(names: readonly string[]): void {
    const backends = names.flatMap(name => this.#author.rename(name, backend => this.#addressesOf(backend)));
    if (backends.length === 0) return;
    this.#health.setAddresses(backends);
    this.#tellStatesSoon();
  }

  #tellStatesSoon(): void {
    this.#statesTimer ??= setTimeout(() => {
      this.#statesTimer = undefined;
      void this.#inTurn(() => this.#tellStates());
    }, STATES_MS);
  }

  /** Changes of health are reported when HAProxy knows them. */
  async #tellStates(): Promise<void> {
    const changes = this.#unreported.splice(0);
    try {
      if (this.#isAccepting && this.#isUp) await this.#serve(this.#config);
    } catch {
      // It has ended: the next one starts with these states.
    }
    for (const change of changes) this.#options.onHealth(change);
  }

  #addressesOf(backend: Backend): readonly string[] {
    return isIP(backend.host) === 0 ? this.#options.resolver.addresses(backend.host) : [backend.host];
  }

  #isDown(backendSlot: number): boolean {
    return this.#pages.backends.get(backendSlot, BACKEND_DOWN) !== 0;
  }

  #openConnection({ startedWith }: RunningHaproxy, session: Session): OpenConnection {
    const { source = { address: '::', port: 0 }, backend, server, frontend } = session;
    const slot = this.#sections.slotOf(backend);
    const known = server && this.#sections.backendAt(slot, server);
    return {
      id: `${startedWith.number}-${session.number}-${session.pointer}`,
      listener: 0,
      on: startedWith.listeners[Number(frontend.slice(1))] ?? '',
      slot,
      route: this.#author.routeAt(slot),
      backendSlot: known?.slot ?? 0,
      backend: known?.text,
      protocol: backend.startsWith('hop') ? HTTP : slot === 0 ? NO_PROTOCOL : TLS,
      peer: address(source),
      client: address(source),
      origin: undefined,
      bytesIn: session.bytesIn,
      bytesOut: session.bytesOut,
      ms: session.ageMs,
      dialMs: -1,
      host: '',
      clusterId: '',
    };
  }

  /** One at a time: a haproxy that does not answer is not asked again meanwhile. */
  #count(): Promise<void> {
    this.#countUnderWay ??= this.#countNow().finally(() => {
      this.#countUnderWay = undefined;
    });
    return this.#countUnderWay;
  }

  /** Reads how many connections are open, of each route and backend. */
  async #countNow(): Promise<void> {
    const begun = performance.now();
    const counts = await Promise.all(this.#processes.all.map(running => this.#countOf(running)));
    const open = counts.filter(count => count !== undefined);
    this.#connections = open.reduce((sum, { connections }) => sum + connections, 0);
    const of = (name: string) => open.reduce((sum, { stat }) => sum + (stat.get(name) ?? 0), 0);
    const openIn = (section: string) => of(`${section}/BACKEND`);
    const { routes: byRoute, clusters: byCluster } = this.#sections.count(openIn);
    for (let slot = 1; slot < this.#author.routeSlots; slot++)
      this.#own.counters.add(slot, ACTIVE_AT, (byRoute.get(slot) ?? 0) - this.#counts.get(slot, ACTIVE_AT));
    for (const cluster of this.#sections.clusterSlots)
      this.#pages.clusters.set(cluster, CLUSTER_ACTIVE, byCluster.get(cluster) ?? 0);
    for (const { routes } of this.#author.entries) {
      for (const { slot, backends } of routes) {
        for (const { slot: backend, text } of backends)
          this.#pages.backends.set(backend, BACKEND_ACTIVE, of(this.#sections.serverOf(slot, text)));
      }
    }
    if (open.length === counts.length) this.#sections.freeIdle(openIn, begun);
  }

  /** undefined if it does not answer. */
  async #countOf(running: RunningHaproxy): Promise<OpenCounts | undefined> {
    try {
      const counts = await running.count();
      const dropped = running.takeDropped();
      if (dropped > 0) this.#options.onDropped(dropped);
      return counts;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') this.#folderGone(running);
      else this.#endIfStuck(running);
      return undefined;
    }
  }

  /** Former ones end with their drain. */
  #endIfStuck(running: RunningHaproxy): void {
    const { silentSince = Number.POSITIVE_INFINITY } = running;
    if (running === this.#processes.current && performance.now() - silentSince > STUCK_MS)
      running.haproxy.kill();
  }

  /** Somebody removed our folder for temporary files: another haproxy gets a new one. */
  #folderGone(running: RunningHaproxy): void {
    if (running !== this.#processes.current || !running.isUp || running.doubt !== undefined) return;
    running.doubt = `its folder ${running.haproxy.folder} is gone`;
    this.#tellStatesSoon();
  }

  #recycle(): void {
    const active = {
      routes: (slot: number) => this.#counts.get(slot, ACTIVE_AT),
      clusters: (slot: number) => this.#pages.clusters.get(slot, CLUSTER_ACTIVE),
      backends: (slot: number) => this.#pages.backends.get(slot, BACKEND_ACTIVE),
    };
    const idle = this.#retired.takeIdle(active, performance.now());
    if (idle === undefined) return;
    for (const slot of this.#author.recycle(idle)) {
      this.#counts.clear(slot);
      this.#sections.forget(slot);
    }
    for (const slot of idle.backends) this.#health.clear(slot);
  }
}
