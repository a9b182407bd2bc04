// The output that every configuration has: the gateway's own table. Reads the files that the configuration names, starts
// the gateway, and applies each change as a whole or not at all.

import type { Logger } from 'pino';
import type { Histogram } from '../admin/metrics.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Config } from '../config/config.ts';
import type { GatewayConfig, GatewayPort } from '../gateway/control/gateway-port.ts';
import type { InheritedSockets } from '../gateway/control/inherited-sockets.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { secondsBuckets } from '../gateway/shared/shared-memory.ts';
import type { Settings } from '../gateway/stages/data-path.ts';
import { clusterKey } from '../identity/cluster-key.ts';
import type { GatewayEvents, GatewayProcess } from './gateway-process.ts';
import { cannotListen, listenersOf } from './listeners.ts';
import type { LoadedConfig } from './load-config.ts';
import { type LoadedSecrets, SecretWatch } from './secret-watch.ts';
import { type LoadedTunnel, TunnelWatch, tunnelEnd } from './tunnel-watch.ts';

interface Loaded {
  readonly secrets: LoadedSecrets | undefined;
  readonly tunnel: LoadedTunnel | undefined;
}

export class GatewayTable implements AsyncDisposable {
  readonly #file: string;
  readonly #process: GatewayProcess;
  readonly #secrets: SecretWatch;
  readonly #tunnel: TunnelWatch;
  readonly #seconds = { counts: [...secondsBuckets, Infinity].map(() => 0), sum: 0 };
  #loaded: Loaded = { secrets: undefined, tunnel: undefined };
  /** No listener is opened yet. */
  #isHeld = false;
  #gateway: GatewayPort | undefined;

  /** `onSecrets`: clusterKeys() gives other keys now. */
  constructor(file: string, log: Logger, process: GatewayProcess, onSecrets: () => void) {
    this.#file = file;
    this.#process = process;
    this.#secrets = new SecretWatch(file, log, async secrets => {
      await this.gateway.useSecrets(secrets);
      onSecrets();
    });
    this.#tunnel = new TunnelWatch(file, log, tunnel => this.gateway.useTls(tunnel));
  }

  get isStarted(): boolean {
    return this.#gateway !== undefined;
  }

  get gateway(): GatewayPort {
    if (this.#gateway === undefined) throw new Error('The gateway is not started');
    return this.#gateway;
  }

  /** How long changes took. */
  get applySeconds(): Histogram {
    return this.#seconds;
  }

  /** When the first certificate of `tunnel` expires, in ms since 1970. */
  get tunnelEnd(): number | undefined {
    return this.#tunnel.end;
  }

  /** Derives the keys of clusters from the first secret; undefined without one. */
  clusterKeys(): ((id: string) => string) | undefined {
    const secret = this.#secrets.current?.secrets[0];
    return secret && (id => Buffer.from(clusterKey(secret, id)).toString('base64url'));
  }

  /** Reads the files that the configuration names. Throws a ConfigError. */
  async load(config: Config): Promise<void> {
    this.#loaded = await this.#load(config);
  }

  /**
   * After load(). Serves when it resolves, with listeners that may be among `inherited`; `isHeld`: without listeners
   * until release(). Throws a ListenError or a StartError.
   */
  async start(
    config: Config,
    clusters: readonly Cluster[],
    events: GatewayEvents,
    { inherited, isHeld }: { readonly inherited: InheritedSockets; readonly isHeld: boolean },
  ): Promise<void> {
    this.#isHeld = isHeld;
    const gatewayConfig = this.#gatewayConfig(config, this.#loaded, clusters);
    this.#gateway = await this.#timed(() => this.#process.start(events, gatewayConfig, inherited));
    await this.#follow(this.#loaded);
  }

  /** Opens the listeners that start() held back. */
  async release(config: Config, clusters: readonly Cluster[]): Promise<void> {
    this.#isHeld = false;
    await this.applyClusters(config, clusters);
  }

  /** A new configuration: everything changes, or it throws and nothing has. */
  async applyConfig({ config, positions }: LoadedConfig, clusters: readonly Cluster[]): Promise<void> {
    const loaded = await this.#load(config);
    try {
      await this.#apply(config, loaded, clusters);
    } catch (error) {
      throw error instanceof ListenError ? cannotListen(this.#file, config, positions, error) : error;
    }
    this.#loaded = loaded;
    await this.#follow(loaded);
  }

  /** Other clusters under the same configuration. */
  applyClusters(config: Config, clusters: readonly Cluster[]): Promise<void> {
    return this.#apply(config, this.#current(), clusters);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#secrets[Symbol.dispose]();
    this.#tunnel[Symbol.dispose]();
    await this.#gateway?.stop();
  }

  /** The files' contents as they are in use: they may have changed since they were loaded. */
  #current(): Loaded {
    return { secrets: this.#secrets.current, tunnel: this.#tunnel.current };
  }

  #apply(config: Config, loaded: Loaded, clusters: readonly Cluster[]): Promise<void> {
    return this.#timed(() => this.gateway.apply(this.#gatewayConfig(config, loaded, clusters)));
  }

  async #load(config: Config): Promise<Loaded> {
    return { secrets: await this.#secrets.load(config), tunnel: await this.#tunnel.load(config) };
  }

  async #follow({ secrets, tunnel }: Loaded): Promise<void> {
    await this.#secrets.follow(secrets);
    await this.#tunnel.follow(tunnel);
  }

  async #timed<T>(work: () => Promise<T>): Promise<T> {
    const start = performance.now();
    const result = await work();
    const seconds = (performance.now() - start) / 1000;
    const bucket = secondsBuckets.findIndex(bound => seconds <= bound);
    this.#seconds.counts[bucket < 0 ? secondsBuckets.length : bucket]++;
    this.#seconds.sum += seconds;
    return result;
  }

  #gatewayConfig(config: Config, { secrets, tunnel }: Loaded, clusters: readonly Cluster[]): GatewayConfig {
    const settings = { ...this.#settings(config), ...(secrets && { secrets: secrets.secrets }) };
    const listeners = this.#isHeld ? [] : listenersOf(config);
    const { drainMs } = config.timeouts;
    return { listeners, clusters, settings, drainMs, ...(tunnel && { tls: tunnelEnd(tunnel) }) };
  }

  #settings({ timeouts, limits, retries, log }: Config): Settings {
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
