// The HTTP and TLS threads behind a gateway's workers: both groups, the folder of unix sockets between them and the
// workers, and the internal listeners, one in each worker, on which connections come back.

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

/** These values are not used: each connection's hand-off names its real listener. */
const internalEntry: ListenerEntry = { on: '', balancers: [], agents: [], idTlv: [], isInternal: true };

export interface ThreadGroupsOptions {
  readonly workers: readonly WorkerThread[];
  readonly listeners: OpenListeners;
  readonly http: ThreadGroup;
  readonly tls: ThreadGroup;
  /** The current addresses of a name. */
  readonly addressesOf: (name: string) => readonly string[];
}

/** Their common index, and their paths by worker. */
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

  /** The table entry of the internal listeners. */
  get entries(): readonly (readonly [index: number, entry: ListenerEntry])[] {
    return this.#internalListeners === undefined ? [] : [[this.#internalListeners.index, internalEntry]];
  }

  /** The name of an agent's gateway, if the TLS threads dial it. */
  get gatewayHost(): string | undefined {
    const config = this.#tlsConfig;
    return config === undefined || config.kind === 'tunnel-end' ? undefined : config.gateway.host;
  }

  /** Resolves to the error if it fails. The threads have no table yet. */
  async start(group: ThreadGroup, options: ThreadGroupOptions): Promise<Error | undefined> {
    await this.#openInternalListeners();
    const failure = await group.start(await this.#path(), options);
    for (const thread of group.threads) this.#sendInternalListeners(thread);
    return failure;
  }

  /** Resolves to the error if it fails. */
  async restart(thread: WorkerThread, options: ThreadGroupOptions): Promise<Error | undefined> {
    const group = thread.kind === 'http' ? this.http : this.tls;
    const failure = await group.restart(thread, options);
    if (failure === undefined) this.#sendInternalListeners(thread);
    return failure;
  }

  /** Whether threads can still reach each other by their sockets. */
  async isConnected(): Promise<boolean> {
    const sockets = [...this.http.sockets, ...this.tls.sockets, ...(this.#internalListeners?.paths ?? [])];
    return this.#folder === undefined || this.#folder.isThere(sockets);
  }

  /**
   * Makes a new folder and moves all sockets there. Open connections go on. Throws if that fails. The new internal
   * listeners serve once the workers have the entries; the caller then closes the old ones, whose index is returned.
   */
  async moveFolder(): Promise<readonly number[]> {
    const [before, internalListeners] = [this.#folder, this.#internalListeners];
    this.#folder = undefined;
    this.#internalListeners = undefined;
    try {
      await this.#openInternalListeners();
      const folder = await this.#path();
      for (const group of [this.http, this.tls]) if (group.threads.length > 0) await group.move(folder);
    } catch (error) {
      const opened = this.#internalListeners as InternalListeners | undefined;
      if (opened !== undefined) this.#options.listeners.closeIndexes([opened.index]);
      await (this.#folder as SocketFolder | undefined)?.[Symbol.asyncDispose]();
      this.#folder = before;
      this.#internalListeners = internalListeners;
      throw error;
    }
    await before?.[Symbol.asyncDispose]();
    for (const group of [this.http, this.tls])
      for (const thread of group.threads) this.#sendInternalListeners(thread);
    this.sendHttpSockets();
    this.sendTls();
    return internalListeners === undefined ? [] : [internalListeners.index];
  }

  /** Sends workers the sockets of the HTTP threads. */
  sendHttpSockets(workers: readonly WorkerThread[] = this.#options.workers): void {
    const { sockets } = this.http;
    if (sockets.length > 0) for (const worker of workers) worker.send({ kind: 'http', sockets });
  }

  /** Sets the configuration of the TLS threads; sendTls() sends it. */
  useTls(config: TlsConfig | undefined): void {
    this.#tlsConfig = config;
  }

  /** Sends the TLS threads their configuration, and the workers the names of tunnel hosts. */
  sendTls(): void {
    const config = this.#tlsConfig;
    const { threads, sockets } = this.tls;
    if (config !== undefined) {
      for (const thread of threads) thread.send({ kind: 'tls', config: this.#resolved(config) });
    }
    const hosts = config?.kind === 'tunnel-end' ? config.hosts : [];
    for (const worker of this.#options.workers) worker.send({ kind: 'tunnels', hosts, sockets });
  }

  /** In a worker that starts or restarts. Resolves to the error if it fails. */
  async openInternalListener(worker: WorkerThread): Promise<ListenError | undefined> {
    if (this.#internalListeners === undefined) return undefined;
    const { index, paths } = this.#internalListeners;
    const path = paths[worker.number];
    // The socket of the worker that died is in the way.
    await rm(path, { force: true });
    const address = { address: new Uint8Array(16), port: 0, path };
    const open = await worker.open({ kind: 'open', index, address });
    return open !== undefined && open.result < 0 ? new ListenError(path, open.result) : undefined;
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
    listeners.closeIndexes([index]);
    this.#internalListeners = undefined;
    throw failure;
  }

  #sendInternalListeners(thread: WorkerThread): void {
    thread.send({ kind: 'internal-listeners', internalListeners: this.#internalListeners?.paths ?? [] });
  }

  #resolved(config: TlsConfig): TlsConfig {
    if (config.kind === 'tunnel-end' || config.gateway.addresses.length > 0) return config;
    const { host } = config.gateway;
    const addresses = isIP(host) === 0 ? this.#options.addressesOf(host) : [host];
    return { ...config, gateway: { ...config.gateway, addresses } };
  }
}
