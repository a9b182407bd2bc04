// Reads one causeway.yaml again and again. A large file keeps its thread, which remembers the clusters: then an edit costs
// what it changes, and clusters that have not changed stay the same objects.

import type { Worker } from 'node:worker_threads';
import type { Cluster } from '../cluster/cluster.ts';
import type { AcceptedConfig } from './accept-config.ts';
import { applyDelta, type ClusterDelta } from './cluster-delta.ts';
import { nextMessage, readConfigAside, startReading } from './read-aside.ts';
import type { ReadConfigFile } from './read-config-file.ts';

/** Hosts and routes of a large file. For a smaller one it is not worth the memory that a thread takes. */
const LARGE = 1000;

/**
 * From the thread: the file without its clusters, and what has changed in these; or the whole file as it was read with
 * positions. Undefined: it needs positions, for which the thread would grow.
 */
export type FollowedConfig =
  | { readonly read: AcceptedConfig; readonly delta: ClusterDelta }
  | { readonly read: ReadConfigFile; readonly delta?: undefined }
  | undefined;

export class ConfigReader implements AsyncDisposable {
  readonly #file: string;
  #thread: Worker | undefined;
  #clusters: readonly Cluster[] = [];

  constructor(file: string) {
    this.#file = file;
  }

  /** One at a time. Rejects if there is no thread to read it in. */
  async read(): Promise<ReadConfigFile> {
    const followed = await this.#follow();
    if (followed === undefined) return readConfigAside(this.#file);
    const { read, delta } = followed;
    const clusters = delta === undefined ? [] : applyDelta(this.#clusters, delta);
    if (sizeOf(clusters) < LARGE) await this[Symbol.asyncDispose]();
    else this.#clusters = clusters;
    return delta === undefined ? read : { ...read, config: { ...read.config, clusters } };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    this.#clusters = [];
    await thread?.terminate();
  }

  async #follow(): Promise<FollowedConfig> {
    const thread = this.#thread ?? startReading({ kind: 'follow', file: this.#file });
    this.#thread = thread;
    thread.ref();
    try {
      thread.postMessage('read');
      return (await nextMessage(thread)) as FollowedConfig;
    } catch (error) {
      await this[Symbol.asyncDispose]();
      throw error;
    } finally {
      // Waiting for the next edit, it must not keep the process alive.
      thread.unref();
    }
  }
}

function sizeOf(clusters: readonly Cluster[]): number {
  let size = 0;
  for (const { routes } of clusters) for (const { hosts } of routes) size += 1 + hosts.length;
  return size;
}
