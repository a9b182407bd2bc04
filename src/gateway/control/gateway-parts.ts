// The parts behind a gateway's workers, HTTP and TLS: their threads, the folder of unix sockets in between, and the fronts,
// one internal listener in each worker, where connections come back from them.

import { rm } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { ListenerEntry } from '../table/listener-table.ts';
import type { TlsConfig } from '../tls/tls-config.ts';
import { ListenError } from './listen-error.ts';
import type { OpenListeners } from './open-listeners.ts';
import type { PartThreadOptions, PartThreads } from './part-threads.ts';
import { SocketFolder } from './socket-folder.ts';
import type { WorkerThread } from './worker-thread.ts';

/** What is written there counts for nothing: connections bring their own. */
const frontEntry: ListenerEntry = { on: '', balancers: [], agents: [], idTlv: [], isInternal: true };

export interface GatewayPartsOptions {
  readonly workers: readonly WorkerThread[];
  readonly listeners: OpenListeners;
  readonly http: PartThreads;
  readonly tls: PartThreads;
  /** What a name resolves to now. */
  readonly addressesOf: (name: string) => readonly string[];
}

/** The internal listener's index, and where it is, by worker. */
interface Fronts {
  readonly index: number;
  readonly paths: readonly string[];
}

export class GatewayParts implements AsyncDisposable {
  readonly #options: GatewayPartsOptions;
  #tlsConfig: TlsConfig | undefined;
  #folder: SocketFolder | undefined;
  #fronts: Fronts | undefined;

  constructor(options: GatewayPartsOptions) {
    this.#options = options;
  }

  get http(): PartThreads {
    return this.#options.http;
  }

  get tls(): PartThreads {
    return this.#options.tls;
  }

  /** What workers are to know of their fronts. */
  get entries(): readonly (readonly [index: number, entry: ListenerEntry])[] {
    return this.#fronts === undefined ? [] : [[this.#fronts.index, frontEntry]];
  }

  /** The name of an agent's gateway, where the TLS part dials it. */
  get gatewayHost(): string | undefined {
    const config = this.#tlsConfig;
    return config === undefined || config.kind === 'tunnel-end' ? undefined : config.gateway.host;
  }

  /** Its threads have no table yet. */
  async start(part: PartThreads, options: PartThreadOptions): Promise<Error | undefined> {
    await this.#openFronts();
    const failure = await part.start(await this.#path(), options);
    for (const thread of part.threads) this.#tellFronts(thread);
    return failure;
  }

  /** Answers why it could not be done. */
  async restart(thread: WorkerThread, options: PartThreadOptions): Promise<Error | undefined> {
    const part = thread.kind === 'http' ? this.http : this.tls;
    const failure = await part.restart(thread, options);
    if (failure === undefined) this.#tellFronts(thread);
    return failure;
  }

  /** Whether threads can still reach each other by their sockets. */
  async isConnected(): Promise<boolean> {
    const sockets = [...this.http.sockets, ...this.tls.sockets, ...(this.#fronts?.paths ?? [])];
    return this.#folder === undefined || this.#folder.isThere(sockets);
  }

  /**
   * Makes the folder of sockets anew and moves everybody there. What is open goes on. Throws where that cannot be done.
   * Workers get connections at their new fronts once they have the entries, and the old ones are to be closed then:
   * it answers their index.
   */
  async moveFolder(): Promise<readonly number[]> {
    const [before, fronts] = [this.#folder, this.#fronts];
    this.#folder = undefined;
    this.#fronts = undefined;
    try {
      await this.#openFronts();
      const folder = await this.#path();
      for (const part of [this.http, this.tls]) if (part.threads.length > 0) await part.move(folder);
    } catch (error) {
      const opened = this.#fronts as Fronts | undefined;
      if (opened !== undefined) this.#options.listeners.close([opened.index]);
      await (this.#folder as SocketFolder | undefined)?.[Symbol.asyncDispose]();
      this.#folder = before;
      this.#fronts = fronts;
      throw error;
    }
    await before?.[Symbol.asyncDispose]();
    for (const part of [this.http, this.tls]) for (const thread of part.threads) this.#tellFronts(thread);
    this.tellHttp();
    this.tellTls();
    return fronts === undefined ? [] : [fronts.index];
  }

  /** Where HTTP goes from now on. */
  tellHttp(workers: readonly WorkerThread[] = this.#options.workers): void {
    const { sockets } = this.http;
    if (sockets.length > 0) for (const worker of workers) worker.send({ kind: 'http', sockets });
  }

  /** What the TLS part is to do, once tellTls() says so. */
  useTls(config: TlsConfig | undefined): void {
    this.#tlsConfig = config;
  }

  /** To the TLS threads what they are to do, and to the workers which names lead there. */
  tellTls(): void {
    const config = this.#tlsConfig;
    const { threads, sockets } = this.tls;
    if (config !== undefined) {
      for (const thread of threads) thread.send({ kind: 'tls', config: this.#resolved(config) });
    }
    const hosts = config?.kind === 'tunnel-end' ? config.hosts : [];
    for (const worker of this.#options.workers) worker.send({ kind: 'tunnels', hosts, sockets });
  }

  /** In a worker that starts, or starts anew. Answers why it could not be done. */
  async openFront(worker: WorkerThread): Promise<ListenError | undefined> {
    if (this.#fronts === undefined) return undefined;
    const { index, paths } = this.#fronts;
    const path = paths[worker.number];
    // That of one that died stands in the way.
    await rm(path, { force: true });
    const address = { address: new Uint8Array(16), port: 0, path };
    const result = await worker.open({ kind: 'open', index, address });
    return result !== undefined && result < 0 ? new ListenError(path, result) : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.http[Symbol.asyncDispose]();
    await this.tls[Symbol.asyncDispose]();
    await this.#folder?.[Symbol.asyncDispose]();
  }

  async #path(): Promise<string> {
    this.#folder ??= await SocketFolder.make();
    return this.#folder.path;
  }

  async #openFronts(): Promise<void> {
    if (this.#fronts !== undefined) return;
    const folder = await this.#path();
    const { workers, listeners } = this.#options;
    const index = listeners.reserve('');
    this.#fronts = { index, paths: workers.map(({ number }) => join(folder, `front-${number}`)) };
    const failures = await Promise.all(workers.map(worker => this.openFront(worker)));
    const failure = failures.find(one => one !== undefined);
    if (failure === undefined) return;
    listeners.close([index]);
    this.#fronts = undefined;
    throw failure;
  }

  #tellFronts(thread: WorkerThread): void {
    thread.send({ kind: 'fronts', fronts: this.#fronts?.paths ?? [] });
  }

  #resolved(config: TlsConfig): TlsConfig {
    if (config.kind === 'tunnel-end' || config.gateway.addresses.length > 0) return config;
    const { host } = config.gateway;
    const addresses = isIP(host) === 0 ? this.#options.addressesOf(host) : [host];
    return { ...config, gateway: { ...config.gateway, addresses } };
  }
}
