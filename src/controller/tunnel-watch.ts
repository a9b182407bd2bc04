// The certificates of `tunnel`: read together with causeway.yaml, and again when they change. A bad pair refuses the
// start, or the edit that names it; later the previous certificates stay in use and the log reports the error.

import { X509Certificate } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import type { Logger } from 'pino';
import type { Config, KeyPairFiles } from '../config/config.ts';
import { type KeyPair, type KeyPairError, KeyPairWatch, readKeyPair } from '../config/key-pair.ts';
import type { TunnelEnd } from '../gateway/streams/tls-config.ts';
import { ConfigError } from './config-error.ts';

export interface LoadedTunnel {
  readonly hosts: readonly string[];
  readonly files: readonly KeyPairFiles[];
  readonly pairs: readonly KeyPair[];
}

export class TunnelWatch implements Disposable {
  readonly #configFile: string;
  readonly #log: Logger;
  readonly #use: (tunnel: TunnelEnd) => Promise<void>;
  #loaded: LoadedTunnel | undefined;
  #pairs: KeyPair[] = [];
  #watches: KeyPairWatch[] = [];
  #closed = false;

  /** `use` is called when certificates change. */
  constructor(configFile: string, log: Logger, use: (tunnel: TunnelEnd) => Promise<void>) {
    this.#configFile = configFile;
    this.#log = log;
    this.#use = use;
  }

  /** In use now. */
  get current(): LoadedTunnel | undefined {
    return this.#loaded && { ...this.#loaded, pairs: this.#pairs };
  }

  /** When the first of the certificates in use expires, in ms since 1970. */
  get end(): number | undefined {
    const ends = this.#pairs.map(({ cert }) => new X509Certificate(cert).validToDate.getTime());
    return ends.length === 0 ? undefined : Math.min(...ends);
  }

  /**
   * For a new configuration that is not served yet. A pair in use stays in use if its files have gone bad; any other
   * bad pair throws a ConfigError.
   */
  async load({ tunnel }: Config): Promise<LoadedTunnel | undefined> {
    if (tunnel === undefined) return undefined;
    const folder = dirname(this.#configFile);
    const files = tunnel.certificates.map(({ certFile, keyFile }) => ({
      certFile: resolve(folder, certFile),
      keyFile: resolve(folder, keyFile),
    }));
    const mistakes: string[] = [];
    const pairs: KeyPair[] = [];
    for (const [index, pair] of files.entries()) {
      try {
        pairs.push(await readKeyPair(pair));
      } catch (error) {
        const inUse = this.#inUse(pair);
        if (inUse !== undefined) {
          pairs.push(inUse);
          continue;
        }
        mistakes.push(
          `${this.#configFile}: tunnel.certificates[${index}].${(error as KeyPairError).message}`,
        );
      }
    }
    if (mistakes.length > 0) throw new ConfigError(mistakes);
    return { hosts: tunnel.hosts, files, pairs };
  }

  /** Call this when the configuration is served: watches its files instead of the previous ones. */
  async follow(loaded: LoadedTunnel | undefined): Promise<void> {
    this.#stop();
    this.#loaded = loaded;
    this.#pairs = [...(loaded?.pairs ?? [])];
    if (loaded === undefined || this.#closed) return;
    const watches = await Promise.all(
      loaded.files.map((files, index) =>
        KeyPairWatch.start(files, loaded.pairs[index], {
          changed: pair => void this.#changed(loaded, index, pair),
          bad: error =>
            this.#log.error({ error: error.message }, 'tunnel certificate refused; keeping the previous one'),
        }),
      ),
    );
    // By now another configuration may be served, or none.
    if (this.#loaded === loaded && !this.#closed) this.#watches = watches;
    else for (const watch of watches) watch[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    this.#stop();
  }

  #inUse({ certFile, keyFile }: KeyPairFiles): KeyPair | undefined {
    const isSame = (pair: KeyPairFiles) => pair.certFile === certFile && pair.keyFile === keyFile;
    const index = this.#loaded?.files.findIndex(isSame) ?? -1;
    return this.#pairs[index];
  }

  #stop(): void {
    for (const watch of this.#watches) watch[Symbol.dispose]();
    this.#watches = [];
  }

  async #changed(loaded: LoadedTunnel, index: number, pair: KeyPair): Promise<void> {
    if (this.#loaded !== loaded || this.#closed) return;
    this.#pairs[index] = pair;
    const { certFile } = loaded.files[index];
    try {
      await this.#use(tunnelEnd({ ...loaded, pairs: this.#pairs }));
      this.#log.info({ certFile }, 'tunnel certificate renewed');
    } catch (error) {
      this.#log.error({ certFile, err: error }, 'tunnel certificate could not be renewed');
    }
  }
}

/** In the form that the gateway takes. */
export function tunnelEnd({ hosts, pairs }: LoadedTunnel): TunnelEnd {
  const certificates = pairs.map(({ cert, key }) => ({
    cert: cert.toString('latin1'),
    key: key.toString('latin1'),
  }));
  return { kind: 'tunnel-end', hosts, certificates };
}
