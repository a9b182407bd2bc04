// The tenant side: forwards connections without a usable SNI to the gateway, marked with the cluster's id. An agent is
// a gateway with one route and an uplink: it has the same workers, tunnels, drain, metrics and close reasons.

import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Histogram, MetricsView } from '../admin/metrics.ts';
import type { Status } from '../admin/status.ts';
import type { Cluster, Uplink } from '../cluster/cluster.ts';
import { logConnection } from '../controller/connection-log.ts';
import { FILE_REFUSED, GatewayProcess, type Host } from '../controller/gateway-process.ts';
import type { GatewayConfig, GatewayPort, NamedRecord } from '../gateway/control/gateway-port.ts';
import { openFilesWarning } from '../gateway/open-files.ts';
import { NO_PROTOCOL } from '../gateway/shared/rows.ts';
import { secondsBuckets } from '../gateway/shared/shared-memory.ts';
import type { Settings } from '../gateway/stages/data-path.ts';
import { CERTIFICATE_LOST, type TlsConfig } from '../gateway/streams/tls-config.ts';
import { type AgentFiles, exposedAgentFiles, readAgentFiles, watchAgentFiles } from './agent-files.ts';
import { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions, Place } from './agent-options.ts';
import { explainRefusal, hintOf } from './explain-refusal.ts';
import { TenantSide } from './tenant-side.ts';

export interface AgentHost extends Host {
  readonly version: string;
  /** Node and pod; unique among the agents of the cluster. */
  readonly identity: string;
}

/** The values of HyperShift's node proxy; a watch may be idle for a long time. */
const HELLO_MS = 10_000;
const CONNECT_MS = 10_000;
const HALF_CLOSED_MS = 60_000;
/** Below the 55 s after which some networks drop a silent connection. */
const KEEPALIVE_MS = 30_000;
/** The default of the gateway. */
const STALLED_MS = 300_000;
const RETRIES = 3;
/** How long open connections may continue after SIGTERM. */
const DRAIN_MS = 600_000;
/**
 * Between leaving the endpoints and the end of accepting: kube-proxy writes its rules at most once a second, and with
 * thousands of Services it takes a few seconds. Connections that it still sends here are served.
 */
const LEFT_MS = 5000;
/** The only route. In metrics and the log its cluster is named by id, because an agent does not know the name. */
const ROUTE = 'api';
/** The traffic of one node is small, even if the node has a hundred cores. */
const WORKERS = 2;
/** Each kind of hint is logged at most once per this time. */
const HINT_MS = 10_000;

export class Agent implements MetricsView, AsyncDisposable {
  readonly #options: AgentOptions;
  readonly #host: AgentHost;
  readonly #log: Logger;
  readonly #startedAt = performance.now();
  #files: AgentFiles;
  #gateway: GatewayPort | undefined;
  #metrics: AgentMetrics | undefined;
  readonly #tenant: TenantSide;
  #watch: Disposable | undefined;
  readonly #process: GatewayProcess;
  #draining = false;
  readonly #drained = Promise.withResolvers<void>();
  readonly #ending = new AbortController();
  #changing: Promise<void> = Promise.resolve();
  readonly #hinted = new Map<string, number>();
  readonly applySeconds: Histogram = { counts: [...secondsBuckets, Infinity].map(() => 0), sum: 0 };

  private constructor(
    options: AgentOptions,
    host: AgentHost,
    log: Logger,
    files: AgentFiles,
    countDropped: ((count: number) => void) | undefined,
  ) {
    this.#options = options;
    this.#host = host;
    this.#log = log;
    this.#files = files;
    this.#tenant = new TenantSide(options, log);
    const { engine, workers = Math.min(WORKERS, host.cores) } = options;
    this.#process = new GatewayProcess({
      host,
      log,
      engine,
      workers,
      onName: (name, error) => {
        if (error === undefined) log.info({ name }, "the gateway's name resolves again");
        else log.warn({ name, error }, "the gateway's name does not resolve");
      },
      countDropped,
    });
  }

  /**
   * Serves when it returns. Throws a ListenError or an AgentFileError if it cannot. `countDropped` counts lines that
   * were dropped before they reached the log.
   */
  static async start(
    options: AgentOptions,
    host: AgentHost,
    log: Logger,
    countDropped?: (count: number) => void,
  ): Promise<Agent> {
    const agent = new Agent(options, host, log, await readAgentFiles(options), countDropped);
    try {
      await agent.#start();
      return agent;
    } catch (error) {
      await agent[Symbol.asyncDispose]();
      throw error;
    }
  }

  get gateway(): GatewayPort {
    if (this.#gateway === undefined) throw new Error('The agent is not started');
    return this.#gateway;
  }

  get node(): string {
    return this.#host.node;
  }

  /** The URL of the metrics, or null. */
  get metricsUrl(): string | null {
    return this.#metrics?.url ?? null;
  }

  /** Findings of the tenant, and one if a client sent a certificate that `terminate` cannot forward. */
  findings(): ReadonlyMap<string, number> {
    const bySeverity = new Map([['warning', this.#hinted.has(CERTIFICATE_LOST) ? 1 : 0]]);
    for (const { severity } of this.#tenant.findings)
      bySeverity.set(severity, (bySeverity.get(severity) ?? 0) + 1);
    return bySeverity;
  }

  connectionLimits(): ReadonlyMap<string, number> {
    return new Map([['', this.#process.limits().connections]]);
  }

  certificates(): readonly [] {
    return [];
  }

  notReady(): string | undefined {
    if (this.#draining) return 'draining';
    return this.#gateway === undefined ? 'the listener is not open yet' : this.#gateway.trouble;
  }

  status(): Status {
    return {
      version: this.#host.version,
      engine: this.#process.engine,
      workers: this.#process.workers,
      uptimeSeconds: Math.round(performance.now() - this.#startedAt) / 1000,
      generation: this.#gateway?.generation ?? 0,
      listeners: this.#gateway?.listeners ?? [],
      config: { ok: true, error: null, restartNeeded: [] },
      sources: [],
      leader: false,
      findings: [],
      counts: { clusters: 1, routes: 1, hosts: 0, connections: this.#gateway?.connections ?? 0, draining: 0 },
      health: this.#gateway?.health ?? { backends: 1, down: 0, stretch: 1 },
    };
  }

  /** Resolves when a drain is over. */
  get drained(): Promise<void> {
    return this.#drained.promise;
  }

  /** Leaves the endpoints, then stops accepting; resolves when all connections have ended. */
  drain(): Promise<void> {
    if (!this.#draining) {
      this.#draining = true;
      this.#drain().then(this.#drained.resolve, this.#drained.reject);
    }
    return this.drained;
  }

  async #drain(): Promise<void> {
    if (this.#options.endpoints) {
      await this.#tenant.leaveEndpoints();
      await delay(LEFT_MS, undefined, { signal: this.#ending.signal }).catch(() => {});
      if (this.#ending.signal.aborted) return;
    }
    this.#log.info({ connections: this.gateway.connections }, 'draining');
    await this.gateway.drain(DRAIN_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    this.#watch?.[Symbol.dispose]();
    await this.#tenant.leaveEndpoints();
    await this.#gateway?.stop();
    await this.#tenant[Symbol.asyncDispose]();
    await this.#metrics?.[Symbol.asyncDispose]();
  }

  async #start(): Promise<void> {
    const { metricsOn } = this.#options;
    await this.#process.chooseEngine();
    for (const exposed of await exposedAgentFiles(this.#options, this.#host.uid))
      this.#log.warn(exposed, 'secret file can be read by others');
    await this.#tenant.addAddress();
    if (metricsOn !== undefined) this.#metrics = await AgentMetrics.start(metricsOn, this);
    this.#gateway = await this.#process.start(
      {
        onRecord: record => this.#record(record),
        onRequest: () => {},
        onHealth: change => this.#log[change.up === false ? 'warn' : 'info'](change, 'health'),
        onUplinkRefused: (status, reported) =>
          this.#hint('gateway refused', explainRefusal(status, reported), `${status}`),
        onTlsTrouble: (what, trouble) => this.#hint(what, trouble),
      },
      this.#config(),
    );
    const why = openFilesWarning(undefined, this.#host.openFiles);
    if (why !== undefined) this.#log.warn({ openFiles: this.#host.openFiles, why }, 'few open files');
    this.#watch = await watchAgentFiles(this.#options, {
      changed: files => this.#use(files),
      bad: error => this.#log.error({ error: error.message }, FILE_REFUSED),
    });
    await this.#tenant.joinEndpoints(this.#listener(), this.#host.identity);
  }

  /** The address for this agent's own API client. */
  #listener(): Place {
    const { host } = this.#options.on;
    const port = Number(this.gateway.listeners[0].address.split(':').at(-1));
    if (host === '::') return { host: '::1', port };
    return { host: host === '' || host === '0.0.0.0' || host === 'localhost' ? '127.0.0.1' : host, port };
  }

  #use(files: AgentFiles): void {
    if (JSON.stringify(files) === JSON.stringify(this.#files)) return;
    this.#files = files;
    this.#changing = this.#changing
      .then(() => this.gateway.apply(this.#config()))
      .then(
        () => this.#log.info('key, CA or certificate changed'),
        (error: unknown) => this.#log.error({ err: error }, 'key, CA or certificate could not be changed'),
      );
  }

  #record(record: NamedRecord): void {
    // An agent does not identify protocols; the data path sees one only by chance, when the gateway is slow to answer.
    logConnection(this.#log, { ...record, protocol: NO_PROTOCOL });
    const hint = hintOf(record, this.#options.uplink);
    if (hint !== undefined) this.#hint('gateway closed at once', hint, hint);
  }

  /** Hints of different kinds are rate-limited separately, so that none suppresses another. */
  #hint(what: string, why: string, kind = ''): void {
    const now = performance.now();
    const key = what + kind;
    if (now - (this.#hinted.get(key) ?? Number.NEGATIVE_INFINITY) < HINT_MS) return;
    this.#hinted.set(key, now);
    this.#log.warn({ why }, what);
  }

  #config(): GatewayConfig {
    const { on } = this.#options;
    const place = isIP(on.host) === 6 ? `[${on.host}]:${on.port}` : `${on.host}:${on.port}`;
    const tls = this.#tls();
    return {
      listeners: [
        { ...on, on: place, balancers: [], agents: [], idTlv: [], direct: this.#options.clusterId },
      ],
      clusters: [this.#cluster()],
      settings: this.#settings(),
      ...(tls !== undefined && { tls }),
    };
  }

  #uplink(): Uplink {
    const { uplink, clusterId } = this.#options;
    const { key } = this.#files;
    return { kind: uplink, clusterId, ...(key !== undefined && { key }) };
  }

  #cluster(): Cluster {
    const { clusterId, gateway, gatewayAddresses } = this.#options;
    const hosts = gatewayAddresses.length > 0 ? gatewayAddresses : [gateway.host];
    const backends = hosts.map(host => {
      const text = isIP(host) === 6 ? `[${host}]:${gateway.port}` : `${host}:${gateway.port}`;
      return { text, host, port: gateway.port };
    });
    const hasTls = this.#tls() !== undefined;
    return {
      name: clusterId,
      origin: { source: 'agent' },
      limits: {},
      identityRequired: false,
      routes: [
        {
          kind: ROUTE,
          hosts: [],
          connect: [],
          alpn: [],
          proxyProtocol: 'none',
          redirect: false,
          uplink: this.#uplink(),
          pool: {
            // Uplinks over TLS have the addresses themselves, and remember which one works.
            backends: hasTls ? backends.slice(0, 1) : backends,
            balance: 'source',
            // With a single backend, checks from thousands of nodes would only load the gateway.
            health: {
              check: hasTls || backends.length === 1 ? 'none' : 'tcp',
              everyMs: 5000,
              timeoutMs: 2000,
              rise: 1,
              fall: 2,
            },
          },
        },
      ],
    };
  }

  #tls(): TlsConfig | undefined {
    const { uplink, gateway, gatewayAddresses, serverName } = this.#options;
    const { ca, certificate } = this.#files;
    const place = { ...gateway, addresses: gatewayAddresses, serverName, ...(ca !== undefined && { ca }) };
    if (uplink === 'tunnel') return { kind: 'tunnel', gateway: place, uplink: this.#uplink() };
    if (uplink === 'terminate' && certificate !== undefined)
      return { kind: 'terminate', gateway: place, certificate };
    return undefined;
  }

  #settings(): Settings {
    return {
      helloMs: HELLO_MS,
      connectMs: CONNECT_MS,
      idleMs: undefined,
      halfClosedMs: HALF_CLOSED_MS,
      keepaliveMs: KEEPALIVE_MS,
      stalledMs: STALLED_MS,
      retries: RETRIES,
      ...this.#process.limits(),
      pending: 10_000,
      // An agent has one route, so no client waits to be routed.
      pendingPerSource: undefined,
      perSource: undefined,
      log: 'all',
    };
  }
}
