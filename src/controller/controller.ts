// observe → plan → apply: the file defines the clusters, `plan` resolves conflicts, the gateway's table serves them.
// If a new file cannot be applied, the last good table keeps serving.

import { dirname, resolve } from 'node:path';
import type { Logger } from 'pino';
import type { AdminView } from '../admin/admin-api.ts';
import { AdminServer } from '../admin/admin-server.ts';
import { EventStreams } from '../admin/event-streams.ts';
import { GatewayEvents } from '../admin/gateway-events.ts';
import type { Histogram } from '../admin/metrics.ts';
import type { Status } from '../admin/status.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Config, LogSettings } from '../config/config.ts';
import { KeyPairError } from '../config/key-pair.ts';
import { notThereYet } from '../config/not-there-yet.ts';
import { changedSince, FileWatch } from '../config/watch-file.ts';
import type { Gateway, GatewayConfig, NamedRecord, NamedRequest } from '../gateway/control/gateway.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { StartError } from '../gateway/control/start-error.ts';
import type { HealthChange } from '../gateway/health/health-thread.ts';
import { reactorErrorOf } from '../gateway/io/net-reactor.ts';
import { openFilesWarning } from '../gateway/open-files.ts';
import { secondsBuckets } from '../gateway/shared/shared-memory.ts';
import type { Settings } from '../gateway/stages/data-path.ts';
import { Explainer, type Explanation, type Question } from '../gateway/table/explain.ts';
import { type Plan, plan } from '../plan/plan.ts';
import { BadSignatureLog } from './bad-signature-log.ts';
import { ConfigError } from './config-error.ts';
import { logConnection, logRequest } from './connection-log.ts';
import { FILE_REFUSED, GatewayProcess, type Host } from './gateway-process.ts';
import { cannotListen, listenersOf } from './listeners.ts';
import { loadConfigAside, type Overrides } from './load-config.ts';
import { exposedFiles } from './named-files.ts';
import { type LoadedSecrets, SecretWatch } from './secret-watch.ts';
import { type LoadedTunnel, TunnelWatch, tunnelEnd } from './tunnel-watch.ts';

export interface ControllerOptions {
  readonly file: string;
  readonly config: Config;
  /** When the file was read, in ms since 1970. */
  readonly readAt: number;
  readonly overrides: Overrides;
  readonly log: Logger;
  /** Called when `log` in the file has changed. */
  readonly useLog?: (settings: LogSettings) => void;
  /** Counts lines that were dropped before they reached the log. */
  readonly countDropped?: (count: number) => void;
  readonly version: string;
  readonly host: Host;
}

/** Keys whose changes need a restart. */
const restartKeys = ['engine', 'workers', 'admin', 'stateDir'] as const;

interface Loaded {
  readonly secrets: LoadedSecrets | undefined;
  readonly tunnel: LoadedTunnel | undefined;
}

export class Controller implements AdminView, AsyncDisposable {
  readonly #options: ControllerOptions;
  readonly #startedAt = performance.now();
  readonly events = new EventStreams(
    watched => this.#gateway?.watchRefusals(watched),
    error => this.#process.onFault(error),
  );
  readonly #gatewayEvents = new GatewayEvents(this.events);
  readonly #drained = Promise.withResolvers<void>();
  #config: Config;
  #plan: Plan;
  /** Built on first use: that takes a while for a large table. */
  #explainer: { readonly plan: Plan; readonly explainer: Explainer } | undefined;
  #gateway: Gateway | undefined;
  #admin: AdminServer | undefined;
  #watch: FileWatch | undefined;
  readonly #secrets: SecretWatch;
  readonly #tunnel: TunnelWatch;
  readonly #badSignatures: BadSignatureLog;
  readonly #process: GatewayProcess;
  #error: string | null = null;
  #restartNeeded: readonly string[] = [];
  /** Files that others can read, with the modes that were logged. */
  #exposed: ReadonlyMap<string, string> = new Map();
  #draining = false;
  #reloading: Promise<void> = Promise.resolve();
  #nextReload: Promise<void> | undefined;
  readonly #apply = { counts: [...secondsBuckets, Infinity].map(() => 0), sum: 0 };

  private constructor(options: ControllerOptions) {
    this.#options = options;
    this.#config = options.config;
    this.#plan = plan(options.config.clusters);
    this.#secrets = new SecretWatch(options.file, options.log, secrets => this.gateway.useSecrets(secrets));
    this.#tunnel = new TunnelWatch(options.file, options.log, tunnel => this.gateway.useTls(tunnel));
    this.#badSignatures = new BadSignatureLog(options.log);
    const { host, log, countDropped } = options;
    const { engine, workers } = options.config;
    this.#process = new GatewayProcess({
      host,
      log,
      engine,
      workers: workers === 'auto' ? host.cores : workers,
      onName: (name, error) => {
        if (error === undefined) log.info({ name }, 'backend name resolves again');
        else log.warn({ name, error }, 'backend name does not resolve');
      },
      countDropped,
    });
  }

  /** Serves the file when it returns. Throws a ListenError or a ConfigError if it cannot. */
  static async start(options: ControllerOptions): Promise<Controller> {
    const controller = new Controller(options);
    try {
      await controller.#start();
      return controller;
    } catch (error) {
      await controller[Symbol.asyncDispose]();
      throw error;
    }
  }

  get gateway(): Gateway {
    if (this.#gateway === undefined) throw new Error('The gateway is not started');
    return this.#gateway;
  }

  get workers(): number {
    return this.#process.workers;
  }

  get adminUrl(): string | null {
    return this.#admin?.url ?? null;
  }

  get plan(): Plan {
    return this.#plan;
  }

  get started(): boolean {
    return this.#gateway !== undefined;
  }

  /** Resolves when a drain is over, whether a signal or the admin API started it. */
  get drained(): Promise<void> {
    return this.#drained.promise;
  }

  get node(): string {
    return this.#options.host.node;
  }

  get applySeconds(): Histogram {
    return this.#apply;
  }

  status(): Status {
    return {
      version: this.#options.version,
      engine: this.#process.engine,
      workers: this.workers,
      uptimeSeconds: Math.round(performance.now() - this.#startedAt) / 1000,
      generation: this.#gateway?.generation ?? 0,
      listeners: this.#gateway?.listeners ?? [],
      config: { ok: this.#error === null, error: this.#error, restartNeeded: this.#restartNeeded },
      sources: [{ name: 'file', up: this.#error === null, synced: true, error: this.#error }],
      leader: false,
      counts: { ...this.#plan.counts, connections: this.#gateway?.connections ?? 0 },
      health: this.#gateway?.health ?? { backends: 0, down: 0, stretch: 1 },
    };
  }

  findings(): ReadonlyMap<string, number> {
    const bySeverity = new Map<Finding['severity'], number>([
      ['info', 0],
      ['warning', 0],
      ['error', 0],
    ]);
    for (const { severity } of this.#plan.findings)
      bySeverity.set(severity, (bySeverity.get(severity) ?? 0) + 1);
    return bySeverity;
  }

  explain(question: Question): Explanation {
    if (this.#explainer?.plan !== this.#plan) {
      const explainer = new Explainer(this.#plan.clusters, listenersOf(this.#config), {
        tunnelHosts: this.#config.tunnel?.hosts ?? [],
        healthOf: (...backend) => this.gateway.backendHealth(...backend),
      });
      this.#explainer = { plan: this.#plan, explainer };
    }
    return this.#explainer.explainer.explain(question);
  }

  notReady(): string | undefined {
    if (this.#draining) return 'draining';
    return this.#gateway === undefined ? 'the listeners are not open yet' : this.#gateway.trouble;
  }

  /** Rereads the file. Serialised: a pending reload also covers this request. */
  reload(): Promise<void> {
    this.#nextReload ??= this.#reloading.then(() => {
      this.#nextReload = undefined;
      return this.#reload();
    });
    this.#reloading = this.#nextReload;
    return this.#reloading;
  }

  /** Fails readyz at once and stops accepting after `drainDelay`; resolves when all connections have ended. */
  drain(): Promise<void> {
    if (!this.#draining) {
      this.#draining = true;
      this.#drain().then(this.#drained.resolve, this.#drained.reject);
    }
    return this.drained;
  }

  async #drain(): Promise<void> {
    this.#watch?.[Symbol.dispose]();
    const { drainDelayMs, drainMs } = this.#config.timeouts;
    this.#options.log.info({ connections: this.gateway.connections, drainDelayMs, drainMs }, 'draining');
    // Unreferenced, so that a second signal can end the process without waiting.
    if (drainDelayMs > 0) await new Promise(done => setTimeout(done, drainDelayMs).unref());
    await this.gateway.drain(drainMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watch?.[Symbol.dispose]();
    this.#secrets[Symbol.dispose]();
    this.#tunnel[Symbol.dispose]();
    await this.#gateway?.stop();
    this.#badSignatures[Symbol.dispose]();
    await this.#admin?.[Symbol.asyncDispose]();
  }

  async #start(): Promise<void> {
    const { file, log, config } = this.#options;
    const loaded = await this.#load(config);
    await this.#process.chooseEngine();
    await this.#startAdmin();
    const events = {
      onRecord: (record: NamedRecord) => this.#ended(record),
      onRequest: (record: NamedRequest) => logRequest(log, record),
      onHealth: (change: HealthChange) => this.#healthChanged(change),
      onTlsTrouble: (what: string, why: string) => log.warn({ why }, what),
    };
    this.#gateway = await this.#timed(() => this.#process.start(events, this.#gatewayConfig(config, loaded)));
    await this.#follow(loaded);
    this.gateway.watchRefusals(this.events.size > 0);
    this.#logFindings();
    this.#logIgnored(config);
    await this.#logExposed(config);
    this.#logOpenFiles(config);
    this.#watch = await FileWatch.start(file, () => void this.reload());
    // Covers an edit between the first read and now.
    if (await changedSince(file, this.#options.readAt)) void this.reload();
  }

  async #startAdmin(): Promise<void> {
    const { admin } = this.#options.config;
    if (admin.on === 'off') return;
    const folder = dirname(this.#options.file);
    const { hosts, tls } = admin;
    const auth = admin.auth.map(user => ({ ...user, passwordFile: resolve(folder, user.passwordFile) }));
    const pair = tls && { certFile: resolve(folder, tls.certFile), keyFile: resolve(folder, tls.keyFile) };
    const { log, file } = this.#options;
    try {
      this.#admin = await AdminServer.start(
        { ...admin.on, hosts, auth, log, ...(pair !== undefined && { tls: pair }) },
        this,
      );
    } catch (error) {
      if (error instanceof KeyPairError) throw new ConfigError([`${file}: admin.tls.${error.message}`]);
      const on = `${admin.on.host}:${admin.on.port}`;
      throw new ListenError(`${on} (admin.on)`, reactorErrorOf(error as NodeJS.ErrnoException));
    }
  }

  async #reload(): Promise<void> {
    const { file, log } = this.#options;
    if (this.#draining) return;
    try {
      const { config, positions } = await loadConfigAside(file, this.#options.overrides, this.#config);
      const next = plan(config.clusters);
      const loaded = await this.#load(config);
      await this.#timed(() => this.gateway.apply(this.#gatewayConfig(config, loaded, next))).catch(error => {
        throw error instanceof ListenError ? cannotListen(file, config, positions, error) : error;
      });
      await this.#follow(loaded);
      this.#config = config;
      this.#plan = next;
      this.#error = null;
      this.#restartNeeded = restartKeys.filter(
        key => JSON.stringify(config[key]) !== JSON.stringify(this.#options.config[key]),
      );
      this.#options.useLog?.(config.log);
      log.info(
        { generation: this.gateway.generation, ...next.counts, restartNeeded: this.#restartNeeded },
        'applied',
      );
      this.#tellTable();
      this.#logFindings();
      this.#logIgnored(config);
      await this.#logExposed(config);
      this.#logOpenFiles(config);
    } catch (error) {
      // Whatever the error is, the gateway must survive it until the next edit.
      const expected = [ConfigError, ListenError, StartError].some(kind => error instanceof kind);
      this.#error = error instanceof Error ? error.message : String(error);
      log.error({ error: this.#error, ...(!expected && { err: error }) }, FILE_REFUSED);
      this.#tellTable();
    }
  }

  #healthChanged(change: HealthChange): void {
    this.#options.log[change.up === false ? 'warn' : 'info'](change, 'health');
    this.#gatewayEvents.health(change);
  }

  #ended(record: NamedRecord): void {
    if (record.logged) {
      logConnection(this.#options.log, record);
      this.#badSignatures.take(record);
    }
    this.#gatewayEvents.ended(record);
  }

  #tellTable(): void {
    const { generation } = this.gateway;
    const error = this.#error;
    this.#gatewayEvents.table({ generation, ...this.#plan.counts, ok: error === null, error });
  }

  async #timed<T>(work: () => Promise<T>): Promise<T> {
    const start = performance.now();
    const result = await work();
    const seconds = (performance.now() - start) / 1000;
    const bucket = secondsBuckets.findIndex(bound => seconds <= bound);
    this.#apply.counts[bucket < 0 ? secondsBuckets.length : bucket]++;
    this.#apply.sum += seconds;
    return result;
  }

  #logFindings(): void {
    for (const finding of this.#plan.findings) this.#options.log.warn(finding, 'finding');
  }

  #logIgnored(config: Config): void {
    const { ignored } = notThereYet(config);
    if (ignored.length > 0) this.#options.log.warn({ ignored }, 'this version ignores some settings');
  }

  /** Logs each file once, until its mode changes. */
  async #logExposed(config: Config): Promise<void> {
    const exposed = await exposedFiles(this.#options.file, config, this.#options.host.uid);
    for (const one of exposed) {
      if (this.#exposed.get(one.file) !== one.mode)
        this.#options.log.warn(one, 'secret file can be read by others');
    }
    this.#exposed = new Map(exposed.map(({ file, mode }) => [file, mode]));
  }

  #logOpenFiles({ limits }: Config): void {
    const { openFiles } = this.#options.host;
    const why = openFilesWarning(limits.connections, openFiles);
    const connections = limits.connections ?? this.#process.room.connections;
    if (why !== undefined)
      this.#options.log.warn({ connections, openFiles, why }, 'limits.connections does not fit');
  }

  /** Reads the files that the configuration names. */
  async #load(config: Config): Promise<Loaded> {
    return { secrets: await this.#secrets.load(config), tunnel: await this.#tunnel.load(config) };
  }

  async #follow({ secrets, tunnel }: Loaded): Promise<void> {
    await this.#secrets.follow(secrets);
    await this.#tunnel.follow(tunnel);
  }

  #gatewayConfig(config: Config, { secrets, tunnel }: Loaded, { clusters } = this.#plan): GatewayConfig {
    const settings = { ...this.#settings(config), ...(secrets && { secrets: secrets.secrets }) };
    return { listeners: listenersOf(config), clusters, settings, ...(tunnel && { tls: tunnelEnd(tunnel) }) };
  }

  #settings(config: Config): Settings {
    const { timeouts, limits, retries, log } = config;
    return {
      helloMs: timeouts.helloMs,
      connectMs: timeouts.connectMs,
      idleMs: timeouts.idleMs,
      halfClosedMs: timeouts.halfClosedMs,
      keepaliveMs: timeouts.keepaliveMs,
      stalledMs: timeouts.stalledMs,
      retries,
      ...this.#process.limits(limits.connections),
      pending: limits.pending,
      pendingPerSource: limits.pendingPerSource,
      perSource: limits.perSource,
      log: log.connections,
    };
  }
}
