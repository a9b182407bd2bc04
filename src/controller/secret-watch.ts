// The secrets of `identity.secretFile`: read together with causeway.yaml, and again when they change. A bad file
// refuses the start, or the edit that names it; later the previous secrets stay in use and the log reports the error.

import { dirname, resolve } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { changedSince, FileWatch } from '../config/watch-file.ts';
import { readSecretFile } from '../identity/secret-file.ts';
import { ConfigError } from './config-error.ts';

/** The kernel stamps files with the time of its last tick, which may be this long before the change. */
const TICK_MS = 20;

export interface LoadedSecrets {
  readonly path: string;
  readonly secrets: readonly Uint8Array[];
  readonly readAt: number;
}

export class SecretWatch implements Disposable {
  readonly #configFile: string;
  readonly #log: Logger;
  readonly #use: (secrets: readonly Uint8Array[]) => Promise<void>;
  #loaded: LoadedSecrets | undefined;
  #watch: FileWatch | undefined;
  #rereading: Promise<void> = Promise.resolve();
  #closed = false;

  /** `use` is called with changed secrets. */
  constructor(configFile: string, log: Logger, use: (secrets: readonly Uint8Array[]) => Promise<void>) {
    this.#configFile = configFile;
    this.#log = log;
    this.#use = use;
  }

  /** In use now. */
  get current(): LoadedSecrets | undefined {
    return this.#loaded;
  }

  /** For a new configuration that is not served yet. Throws a ConfigError if there are no secrets to fall back to. */
  async load({ identity }: Config): Promise<LoadedSecrets | undefined> {
    if (identity === undefined) return undefined;
    const path = resolve(dirname(this.#configFile), identity.secretFile);
    const readAt = Date.now();
    const read = await readSecretFile(path);
    if (read.ok) return { path, secrets: read.secrets, readAt };
    if (this.#loaded?.path === path) return this.#loaded;
    throw new ConfigError([`${this.#configFile}: identity.secretFile: ${path}: ${read.fault}`]);
  }

  /** Call this when the configuration is served: watches its file instead of the previous one. */
  async follow(loaded: LoadedSecrets | undefined): Promise<void> {
    const before = this.#loaded;
    this.#loaded = loaded;
    if (before?.path !== loaded?.path) {
      this.#watch?.[Symbol.dispose]();
      this.#watch = undefined;
      if (loaded !== undefined && !this.#closed) {
        this.#watch = await FileWatch.start(loaded.path, () => void this.#again());
        if (this.#closed) this.#watch[Symbol.dispose]();
      }
    }
    if (loaded !== undefined && (await changedSince(loaded.path, loaded.readAt - TICK_MS)))
      await this.#again();
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    this.#watch?.[Symbol.dispose]();
  }

  /** Serialised, so that the last read wins. */
  #again(): Promise<void> {
    this.#rereading = this.#rereading.then(() => this.#reread());
    return this.#rereading;
  }

  async #reread(): Promise<void> {
    const path = this.#loaded?.path;
    if (path === undefined || this.#closed) return;
    const readAt = Date.now();
    const read = await readSecretFile(path);
    const before = this.#loaded;
    if (before?.path !== path || this.#closed) return;
    if (!read.ok) {
      this.#log.error({ file: path, error: read.fault }, 'secret file refused; keeping the previous secrets');
      return;
    }
    this.#loaded = { path, secrets: read.secrets, readAt };
    if (areSame(before.secrets, read.secrets)) return;
    await this.#use(read.secrets);
    this.#log.info({ file: path, secrets: read.secrets.length }, 'secrets changed');
  }
}

function areSame(some: readonly Uint8Array[], others: readonly Uint8Array[]): boolean {
  return (
    some.length === others.length && some.every((one, index) => Buffer.compare(one, others[index]) === 0)
  );
}
