// The parts behind a gateway's workers, HTTP and TLS: their threads, the folder of unix sockets in between, and the fronts,
// one internal listener in each worker, where connections come back from them.

import { rm } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { ListenerEntry } from '../table/listener-table.ts';
import type { TlsConfig } from '../tls/tls-config.ts';
import { ListenError } from './listen-error.ts';
import type { OpenListeners } from './open-listeners.ts';
import { SocketFolder } from './socket-folder.ts';
import type { ThreadGroup, ThreadGroupOptions } from './thread-group.ts';
import type { WorkerThread } from './worker-thread.ts';

/** What is written there counts for nothing: connections bring their own. */
const internalEntry: ListenerEntry = { on: '', balancers: [], agents: [], idTlv: [], isInternal: true };

export interface ThreadGroupsOptions {
  readonly workers: readonly WorkerThread[];
  readonly listeners: OpenListeners;
  readonly http: ThreadGroup;
  readonly tls: ThreadGroup;
  /** What a name resolves to now. */
  readonly addressesOf: (name: string) => readonly string[];
}

/** The internal listener's index, and where it is, by worker. */
interface InternalListeners {
  readonly index: number;
  readonly paths: readonly string[];
}

export class ThreadGroups implements AsyncDisposable {
  readonly #options: ThreadGroupsOptions;
  #tlsConfig: TlsConfig | undefined;
  #folder: SocketFolder | undefined;
  #internalListeners: InternalListeners | undefined;

  constructor(options: ThreadGroupsOptions) {
    this.#options = options;
  }

  get http(): ThreadGroup {
    return this.#options.http;
  }

  get tls(): ThreadGroup {
    return this.#options.tls;
  }

  /** What workers are to know of their fronts. */
  get entries(): readonly (readonly [index: number, entry: ListenerEntry])[] {
    return this.#internalListeners === undefined ? [] : [[this.#internalListeners.index, internalEntry]];
  }

  /** The name of an agent's gateway, where the TLS part dials it. */
  get gatewayHost(): string | undefined {
    const config = this.#tlsConfig;
    return config === undefined || config.kind === 'tunnel-end' ? undefined : config.gateway.host;
  }

  /** Its threads have no table yet. */
  async start(part: ThreadGroup, options: ThreadGroupOptions): Promise<Error | undefined> {
    await this.#openInternalListeners();
    const failure = await part.start(await this.#path(), options);
    for (const thread of part.threads) this.#tellInternalListeners(thread);
    return failure;
  }

  /** Answers why it could not be done. */
  async restart(thread: WorkerThread, options: ThreadGroupOptions): Promise<Error | undefined> {
    const part = thread.kind === 'http' ? this.http : this.tls;
    const failure = await part.restart(thread, options);
    if (failure === undefined) this.#tellInternalListeners(thread);
    return failure;
  }

  /** Whether threads can still reach each other by their sockets. */
  async isConnected(): Promise<boolean> {
    const sockets = [...this.http.sockets, ...this.tls.sockets, ...(this.#internalListeners?.paths ?? [])];
    return this.#folder === undefined || this.#folder.isThere(sockets);
  }

  /**
   * Makes the folder of sockets anew and moves everybody there. What is open goes on. Throws where that cannot be done.
   * Workers get connections at their new fronts once they have the entries, and the old ones are to be closed then:
   * it answers their index.
   */
  async moveFolder(): Promise<readonly number[]> {
    const [before, internalListeners] = [this.#folder, this.#internalListeners];
    this.#folder = undefined;
    this.#internalListeners = undefined;
    try {
      await this.#openInternalListeners();
      const folder = await this.#path();
      for (const part of [this.http, this.tls]) if (part.threads.length > 0) await part.move(folder);
    } catch (error) {
      const opened = this.#internalListeners as InternalListeners | undefined;
      if (opened !== undefined) this.#options.listeners.close([opened.index]);
      await (this.#folder as SocketFolder | undefined)?.[Symbol.asyncDispose]();
      this.#folder = before;
      this.#internalListeners = internalListeners;
      throw error;
    }
    await before?.[Symbol.asyncDispose]();
    for (const part of [this.http, this.tls])
      for (const thread of part.threads) this.#tellInternalListeners(thread);
    this.tellHttp();
    this.tellTls();
    return internalListeners === undefined ? [] : [internalListeners.index];
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
  async openInternalListener(worker: WorkerThread): Promise<ListenError | undefined> {
    if (this.#internalListeners === undefined) return undefined;
    const { index, paths } = this.#internalListeners;
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

  async #openInternalListeners(): Promise<void> {
    if (this.#internalListeners !== undefined) return;
    const folder = await this.#path();
    const { workers, listeners } = this.#options;
    const index = listeners.reserve('');
    this.#internalListeners = {
      index,
      paths: workers.map(({ number }) => join(folder, `internal-${number}`)),
    };
    const failures = await Promise.all(workers.map(worker => this.openInternalListener(worker)));
    const failure = failures.find(one => one !== undefined);
    if (failure === undefined) return;
    listeners.close([index]);
    this.#internalListeners = undefined;
    throw failure;
  }

  #tellInternalListeners(thread: WorkerThread): void {
    thread.send({ kind: 'internal-listeners', internalListeners: this.#internalListeners?.paths ?? [] });
  }

  #resolved(config: TlsConfig): TlsConfig {
    if (config.kind === 'tunnel-end' || config.gateway.addresses.length > 0) return config;
    const { host } = config.gateway;
    const addresses = isIP(host) === 0 ? this.#options.addressesOf(host) : [host];
    return { ...config, gateway: { ...config.gateway, addresses } };
  }
}
