// `stateDir`: the clusters of the sources, so that a cold start can serve them while every API server is away (perhaps
// because it is behind this very gateway). One file, replaced atomically, with a checksum.

import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Cluster } from '../cluster/cluster.ts';

const FILE = 'clusters.json';
/** Changes when Cluster changes in a way that old files do not fit. */
const FORMAT = 1;
/** A table that changes all the time is written at most this often. */
const EVERY_MS = 5000;

/** By source: see sourceKey(). */
export type SavedClusters = ReadonlyMap<string, readonly Cluster[]>;

interface Envelope {
  readonly format: number;
  readonly sha256: string;
  readonly sources: string;
}

/** Undefined if nothing was saved. A file that cannot be used is logged and ignored. */
export async function readSavedClusters(directory: string, log: Logger): Promise<SavedClusters | undefined> {
  const file = join(directory, FILE);
  try {
    const { format, sha256, sources } = JSON.parse(await readFile(file, 'utf8')) as Envelope;
    if (format !== FORMAT) throw new Error(`it has format ${format}, and this version reads ${FORMAT}`);
    if (hashOf(sources) !== sha256) throw new Error('its checksum does not match');
    return new Map(JSON.parse(sources) as [string, Cluster[]][]);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      log.warn({ file, error: (error as Error).message }, 'saved clusters ignored');
    return undefined;
  }
}

/** Writes in the background; a failure is logged once until a write succeeds. */
export class ClusterSaver implements AsyncDisposable {
  readonly #directory: string;
  readonly #log: Logger;
  readonly #current: () => SavedClusters;
  #timer: NodeJS.Timeout | undefined;
  #saved = '';
  #hasFailed = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(directory: string, log: Logger, current: () => SavedClusters) {
    this.#directory = directory;
    this.#log = log;
    this.#current = current;
  }

  changed(): void {
    this.#timer ??= setTimeout(() => this.#save(), EVERY_MS).unref();
  }

  /** Saves what has changed since. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#timer !== undefined) this.#save();
    await this.#writing;
  }

  #save(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const sources = JSON.stringify([...this.#current()]);
    const sha256 = hashOf(sources);
    if (sha256 === this.#saved) return;
    this.#saved = sha256;
    this.#writing = this.#writing.then(() => this.#write({ format: FORMAT, sha256, sources }));
  }

  async #write(envelope: Envelope): Promise<void> {
    const file = join(this.#directory, FILE);
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      await writeFile(`${file}.new`, JSON.stringify(envelope), { mode: 0o600 });
      await rename(`${file}.new`, file);
      this.#hasFailed = false;
    } catch (error) {
      this.#saved = '';
      if (!this.#hasFailed)
        this.#log.error({ file, error: (error as Error).message }, 'clusters cannot be saved');
      this.#hasFailed = true;
    }
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
