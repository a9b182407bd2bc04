// `causeway run`: the parts of a running gateway, from its start to its end. control-loop.ts is what it does in between.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { EventStreams } from '../admin/event-streams.ts';
import { GatewayEvents } from '../admin/gateway-events.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Config, LogSettings, SourceSettings } from '../config/config.ts';
import type { ConfigReader } from '../config/config-reader.ts';
import { changedSince, FileWatch } from '../config/watch-file.ts';
import type { GatewayPort } from '../gateway/control/gateway-port.ts';
import { type InheritedSocket, InheritedSockets } from '../gateway/control/inherited-sockets.ts';
import { KubeServers } from '../kube/kube-servers.ts';
import { entersTenants, wantsNodes } from '../outputs/servers-of.ts';
import type { Replaceable } from '../replacement/control-socket.ts';
import type { Phase, Sockets } from '../replacement/messages.ts';
import { ReplaceError } from '../replacement/replace-error.ts';
import type { Replacement } from '../replacement/replacement.ts';
import { openSource } from '../sources/open-source.ts';
import type { Source } from '../sources/source.ts';
import { SourceSet } from '../sources/source-set.ts';
import { formatIpPort } from '../wire/ip-address.ts';
import { AdminSide } from './admin-side.ts';
import { BadSignatureLog } from './bad-signature-log.ts';
import { CertificateWatch } from './certificate-watch.ts';
import { ConfigHints } from './config-hints.ts';
import { logConnection, logRequest } from './connection-log.ts';
import { ControlLoop } from './control-loop.ts';
import { DnsOutputs } from './dns-outputs.ts';
import { type GatewayEvents as GatewayEventHandlers, GatewayProcess, type Host } from './gateway-process.ts';
import { GatewayTable } from './gateway-table.ts';
import { KubeOutputs } from './kube-outputs.ts';
import type { Overrides } from './load-config.ts';
import { ClusterSaver, readSavedClusters, type SavedClusters } from './saved-clusters.ts';
import { type Served, StatusView } from './status-view.ts';

export interface ControllerOptions {
  readonly file: string;
  readonly config: Config;
  /** When the file was read, in ms since 1970. */
  readonly readAt: number;
  readonly overrides: Overrides;
  /** Has read the file, and knows its clusters. The controller disposes of it. */
  readonly reader: ConfigReader;
  readonly log: Logger;
  /** Called when `log` in the file has changed. */
  readonly useLog?: (settings: LogSettings) => void;
  /** Counts lines that were dropped before they reached the log. */
  readonly countDropped?: (count: number) => void;
  readonly version: string;
  readonly host: Host;
  /** Takes over from another process, and can be taken over. The controller disposes of it. */
  readonly replacement?: Replacement | undefined;
  /** This process serves, and the one that it replaces is about to stop. */
  readonly beforeTakeOver?: () => void;
  /** Listening sockets of a supervisor. */
  readonly givenSockets?: readonly InheritedSocket[];
  /** Of a pod: where its API server is. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

/** By then the sources of a process that replaces another have been listed. */
const LISTED_MS = 60_000;
const LISTED_POLL_MS = 50;
/** With saved clusters, sources that cannot be read make it unready for this long only. */
const SAVED_READY_MS = 30_000;

export class Controller implements AsyncDisposable, Replaceable {
  readonly view: StatusView;
  readonly #options: ControllerOptions;
  readonly #events: GatewayEvents;
  readonly #process: GatewayProcess;
  readonly #table: GatewayTable;
  readonly #servers: KubeServers;
  readonly #kube: KubeOutputs;
  readonly #dns: DnsOutputs;
  readonly #certificates: CertificateWatch;
  readonly #badSignatures: BadSignatureLog;
  readonly #sources: SourceSet;
  readonly #loop: ControlLoop;
  readonly #saver: ClusterSaver | undefined;
  readonly #hasSaved: boolean;
  readonly #drained = Promise.withResolvers<void>();
  readonly #takenOver = Promise.withResolvers<void>();
  readonly #inherited: InheritedSockets;
  /** The process that this one has replaced. */
  #replaced: number | null = null;
  #isServing = false;
  readonly #admin: AdminSide;
  #watch: FileWatch | undefined;
  #isDraining = false;
  /** All sources have been listed once. */
  #hasListed = false;

  private constructor(options: ControllerOptions, saved: SavedClusters | undefined) {
    const { file, host, log, config, version, environment = {}, overrides, reader, useLog } = options;
    this.#options = options;
    this.#inherited = inheritedSockets(options);
    this.#admin = new AdminSide({ file, admin: config.admin, log, inherited: this.#inherited });
    this.#process = gatewayProcess(options);
    this.#table = new GatewayTable(file, log, this.#process, () => this.#loop.keysChanged());
    this.#badSignatures = new BadSignatureLog(log);
    this.#servers = new KubeServers({ folder: dirname(file), environment });
    this.#hasSaved = saved !== undefined;
    this.#sources = new SourceSet({
      open: (settings, changed, former) => this.#openSource(settings, changed, former),
      changed: () => this.#loop.changed(),
      ...(saved !== undefined && { saved }),
    });
    this.#saver =
      config.stateDir === undefined
        ? undefined
        : new ClusterSaver(config.stateDir, log, () => this.#sources.toSave());
    const isUp = (...backend: Parameters<GatewayPort['backendHealth']>) =>
      this.gateway.backendHealth(...backend).up;
    this.#certificates = new CertificateWatch({
      isUp,
      changed: () => this.#loop.changed(),
      onFault: error => this.#process.onFault(error),
    });
    this.#kube = new KubeOutputs({
      servers: this.#servers,
      log,
      version,
      keyOf: () => this.#table.clusterKeys(),
      identity: `${hostname()}_${randomBytes(5).toString('hex')}`,
      isUp,
      changed: () => this.#loop.changed(),
    });
    this.#dns = new DnsOutputs({ log, isPartial: () => this.#notListed() !== undefined });
    const events = new EventStreams(
      watched => this.#table.isStarted && this.gateway.watchRefusals(watched),
      error => this.#process.onFault(error),
    );
    this.#events = new GatewayEvents(events);
    this.#loop = new ControlLoop({
      file,
      config,
      overrides,
      reader,
      log,
      useLog,
      sources: this.#sources,
      table: this.#table,
      kube: this.#kube,
      dns: this.#dns,
      certificates: this.#certificates,
      hints: new ConfigHints(file, log, host, this.#process),
      adminAddress: () => (this.adminUrl === null ? undefined : new URL(this.adminUrl).host),
      changed: () => this.#tellTable(),
      save: () => this.#saver?.changed(),
    });
    this.view = new StatusView({
      version,
      node: host.node,
      events,
      gatewayProcess: this.#process,
      table: this.#table,
      certificates: this.#certificates,
      dnsQueries: () => this.#dns.queries,
      served: () => this.#served(),
      drain: () => this.drain(),
      draining: () => options.replacement?.draining ?? 0,
    });
  }

  /** Serves the file when it returns, whether or not other sources can be read. Throws as `run` reports it. */
  static async start(options: ControllerOptions): Promise<Controller> {
    const { config, log } = options;
    const saved = config.stateDir === undefined ? undefined : await readSavedClusters(config.stateDir, log);
    const controller = new Controller(options, saved);
    try {
      await controller.#start();
      return controller;
    } catch (error) {
      await controller[Symbol.asyncDispose]();
      throw error;
    }
  }

  get gateway(): GatewayPort {
    return this.#table.gateway;
  }

  get adminUrl(): string | null {
    return this.#admin.url;
  }

  /** Where its DNS servers listen, as `address:port`. */
  get dns(): readonly string[] {
    return this.#dns.addresses;
  }

  /** Resolves when another process has replaced this one. */
  get takenOver(): Promise<void> {
    return this.#takenOver.promise;
  }

  /** The number of the process that this one has replaced. */
  get replaced(): number | null {
    return this.#replaced;
  }

  /** Resolves when a drain is over, whether a signal or the admin API started it. */
  get drained(): Promise<void> {
    return this.#drained.promise;
  }

  /** Rereads the file. */
  reload(): Promise<void> {
    return this.#loop.reload();
  }

  /** Fails readyz at once and stops accepting after `drainDelay`; resolves when all connections have ended. */
  drain(): Promise<void> {
    if (!this.#isDraining) {
      this.#isDraining = true;
      this.#drain().then(this.#drained.resolve, this.#drained.reject);
    }
    return this.drained;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watch?.[Symbol.dispose]();
    this.#loop.stop();
    await this.#dns[Symbol.asyncDispose]();
    await this.#certificates[Symbol.asyncDispose]();
    await this.#table[Symbol.asyncDispose]();
    await this.#loop[Symbol.asyncDispose]();
    await this.#saver?.[Symbol.asyncDispose]();
    await this.#kube[Symbol.asyncDispose]();
    await this.#sources[Symbol.asyncDispose]();
    this.#servers[Symbol.dispose]();
    this.#badSignatures[Symbol.dispose]();
    await this.#admin[Symbol.asyncDispose]();
    await this.#options.replacement?.[Symbol.asyncDispose]();
    this.#inherited[Symbol.dispose]();
  }

  async #start(): Promise<void> {
    const { file, config, readAt, replacement } = this.#options;
    await this.#table.load(config);
    await this.#process.chooseEngine();
    const isHeld = replacement?.predecessor !== undefined;
    // A port that the old process has is opened when this one can answer: until then the old one answers alone.
    if (!this.#admin.isInherited) await this.#admin.start(this.view);
    await this.#table.start(config, this.#loop.plan.clusters, this.#gatewayEvents(), {
      inherited: this.#inherited,
      isHeld,
    });
    this.gateway.watchRefusals(this.view.events.size > 0);
    await this.#loop.begin();
    if (isHeld) await this.#untilListed();
    await this.#admin.start(this.view);
    await replacement?.open(this, error => this.#process.onFault(error));
    if (isHeld) await this.#table.release(this.#loop.config, this.#loop.plan.clusters);
    await this.#dns.start(this.#loop.config, this.#loop.plan, isHeld);
    await this.#takeOver();
    this.#watch = await FileWatch.start(file, () => void this.reload());
    // Covers an edit between the first read and now.
    if (await changedSince(file, readAt)) void this.reload();
  }

  /** This process serves: the old one, if there is one, stops accepting. */
  async #takeOver(): Promise<void> {
    const { replacement, log } = this.#options;
    for (const { address, isKept } of this.#inherited.waiting) {
      const text = formatIpPort(address.address, 0, address.port);
      if (isKept) log.warn({ socket: text }, 'socket from LISTEN_FDS matches no listener; not used');
    }
    this.#inherited[Symbol.dispose]();
    if (replacement?.predecessor !== undefined) this.#options.beforeTakeOver?.();
    await replacement?.complete();
    this.gateway.shareListeners(false);
    this.#isServing = true;
    this.#replaced = replacement?.predecessor?.pid ?? null;
    // Backends at addresses that this process listens on are known now.
    if (this.#replaced !== null) this.#loop.changed();
  }

  get phase(): Phase {
    if (this.#isDraining) return 'draining';
    return this.#isServing ? 'serving' : 'starting';
  }

  get connections(): number {
    return this.gateway.connections;
  }

  offer(): Sockets {
    this.gateway.shareListeners(true);
    return { listeners: this.gateway.sockets, admin: this.#admin.socket };
  }

  withdraw(): void {
    this.gateway.shareListeners(false);
  }

  /** Another process serves on the same sockets: this one only keeps the connections that it has. */
  replacedBy(pid: number): void {
    this.#takenOver.resolve();
    if (this.#isDraining) return;
    this.#isDraining = true;
    const { drainMs } = this.#loop.config.timeouts;
    this.#options.log.info({ by: pid, connections: this.connections, drainMs }, 'replaced');
    void this.#admin[Symbol.asyncDispose]();
    void this.#dns[Symbol.asyncDispose]();
    this.#stopControl();
    this.gateway.drain(drainMs).then(this.#drained.resolve, this.#drained.reject);
  }

  #gatewayEvents(): GatewayEventHandlers {
    const { log } = this.#options;
    return {
      onRecord: record => {
        if (record.logged) {
          logConnection(log, record);
          this.#badSignatures.take(record);
        }
        this.#events.ended(record);
      },
      onRequest: record => logRequest(log, record),
      onHealth: change => {
        log[change.up === false ? 'warn' : 'info'](change, 'health');
        this.#events.health(change);
        this.#kube.healthChanged();
      },
      onTlsTrouble: (what, why) => log.warn({ why }, what),
    };
  }

  /** Without the clusters of its sources, this process would refuse connections that the old one serves. */
  async #untilListed(): Promise<void> {
    const deadline = performance.now() + LISTED_MS;
    for (let why = this.#notListed(); why !== undefined; why = this.#notListed()) {
      if (performance.now() > deadline) throw new ReplaceError(`Cannot replace the running gateway: ${why}`);
      await sleep(LISTED_POLL_MS);
    }
  }

  #openSource(settings: SourceSettings, changed: () => void, former: readonly Cluster[]): Source {
    const { outputs } = this.#loop.config;
    const context = {
      name: settings.name,
      folder: dirname(this.#options.file),
      kubeApi: this.#servers.api.bind(this.#servers),
      wantsReconcilerNone: entersTenants(outputs),
      wantsNodes: wantsNodes(outputs),
      former,
    };
    return openSource(settings, context, changed);
  }

  #tellTable(): void {
    const { plan, fileError: error } = this.#loop;
    this.#events.table({
      generation: this.gateway.generation,
      ...plan.counts,
      ok: error === null,
      error,
    });
  }

  #served(): Served {
    const { config, plan, fileError, restartNeeded } = this.#loop;
    return {
      config,
      plan,
      fileError,
      restartNeeded,
      sources: this.#sources.states,
      isLeader: this.#kube.isLeader,
      isDraining: this.#isDraining,
      notReady: this.#notListed(),
    };
  }

  #notListed(): string | undefined {
    const waiting = this.#hasListed ? undefined : this.#sources.states.find(({ synced }) => !synced);
    // Once ready, a source that is added later does not take this replica out of service.
    this.#hasListed ||= this.#table.isStarted && waiting === undefined;
    if (waiting === undefined || (this.#hasSaved && this.view.uptimeMs > SAVED_READY_MS)) return undefined;
    const why = waiting.error === null ? '' : `: ${waiting.error}`;
    return `source '${waiting.name}' has not been listed yet${why}`;
  }

  /** Nothing changes any more. Another replica may lead. */
  #stopControl(): void {
    this.#watch?.[Symbol.dispose]();
    this.#loop.stop();
    this.#endOutputs().catch((error: unknown) => this.#process.onFault(error));
  }

  /** A pass that is under way ends first. */
  async #endOutputs(): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    await this.#kube[Symbol.asyncDispose]();
  }

  async #drain(): Promise<void> {
    this.#stopControl();
    const { drainDelayMs, drainMs } = this.#loop.config.timeouts;
    this.#options.log.info({ connections: this.gateway.connections, drainDelayMs, drainMs }, 'draining');
    // Unreferenced, so that a second signal can end the process without waiting.
    if (drainDelayMs > 0) await new Promise(done => setTimeout(done, drainDelayMs).unref());
    await this.gateway.drain(drainMs);
  }
}

/** Those of the process to replace, or else those of a supervisor. */
function inheritedSockets({ replacement, givenSockets = [] }: ControllerOptions): InheritedSockets {
  const sockets = replacement?.predecessor?.sockets;
  if (sockets === undefined) return new InheritedSockets(givenSockets);
  return new InheritedSockets([
    ...sockets.listeners,
    ...(sockets.admin === undefined ? [] : [sockets.admin]),
  ]);
}

function gatewayProcess({ host, log, config, countDropped, environment }: ControllerOptions): GatewayProcess {
  return new GatewayProcess({
    host,
    log,
    engine: config.engine,
    environment,
    workers: config.workers === 'auto' ? host.cores : config.workers,
    onName: (name, error) => {
      if (error === undefined) log.info({ name }, 'backend name resolves again');
      else log.warn({ name, error }, 'backend name does not resolve');
    },
    countDropped,
  });
}
