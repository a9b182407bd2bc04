// The directory source: files with a `clusters:` list each, for estates where many teams write their own. A mistake in one
// file is a finding with its position; that file's last good clusters stay, and the other files go on.

import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { SourceOptions } from '../config/config.ts';
import { formatMistake } from '../config/mistake.ts';
import { readClustersAside } from '../config/read-aside.ts';
import type { ReadClusters } from '../config/read-clusters.ts';
import { FileWatch, identityOf } from '../config/watch-file.ts';
import type { Observation, OpenSource, Source } from './source.ts';

/** Findings per file; one broken file could otherwise have thousands. */
const MAX_FINDINGS = 20;
/** A directory that cannot be read is tried again after this long. */
const RETRY_MS = 5000;

interface DirectoryFile {
  /** Of the content that was read last. */
  readonly identity: string;
  readonly clusters: readonly Cluster[];
  readonly findings: readonly Finding[];
}

export const openDirectory: OpenSource<SourceOptions['directory']> = ({ path }, { name, folder }, changed) =>
  new DirectorySource(name, resolve(folder, path), changed);

class DirectorySource implements Source {
  readonly name: string;
  readonly #path: string;
  readonly #changed: () => void;
  #files: ReadonlyMap<string, DirectoryFile> = new Map();
  #synced = false;
  #error: string | undefined;
  #watch: FileWatch | undefined;
  #retry: NodeJS.Timeout | undefined;
  #scanning: Promise<void>;
  #closed = false;

  constructor(name: string, path: string, changed: () => void) {
    this.name = name;
    this.#path = path;
    this.#changed = changed;
    this.#scanning = this.#start();
  }

  observe(): Observation {
    const files = [...this.#files.values()];
    return {
      clusters: files.flatMap(file => file.clusters),
      findings: files.flatMap(file => file.findings),
      synced: this.#synced,
      complete: this.#synced && this.#error === undefined,
      ...(this.#error !== undefined && { error: this.#error }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#scanning;
    this.#watch?.[Symbol.dispose]();
  }

  async #start(): Promise<void> {
    this.#watch = await FileWatch.startDirectory(this.#path, isWanted, () => this.#scanAgain());
    await this.#scan();
  }

  /** Serialised, so that the last read wins. */
  #scanAgain(): void {
    this.#scanning = this.#scanning.then(() => this.#scan());
  }

  async #scan(): Promise<void> {
    if (this.#closed) return;
    clearTimeout(this.#retry);
    try {
      const files = await this.#read();
      if (this.#closed) return;
      this.#files = files;
      this.#synced = true;
      this.#error = undefined;
    } catch (error) {
      if (this.#closed) return;
      this.#error = `Cannot read '${this.#path}': ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
      this.#retry = setTimeout(() => this.#scanAgain(), RETRY_MS);
    }
    this.#changed();
  }

  async #read(): Promise<ReadonlyMap<string, DirectoryFile>> {
    // In the order of their names, so that conflicts between files are always settled the same way.
    const names = (await readdir(this.#path)).filter(isWanted).toSorted();
    const identities = await Promise.all(names.map(name => identityOf(join(this.#path, name))));
    const isNew = (name: string, index: number) => this.#files.get(name)?.identity !== identities[index];
    const toRead = names.filter(isNew);
    const results = toRead.length === 0 ? [] : await this.#readAll(toRead);
    const files = new Map<string, DirectoryFile>();
    for (const [index, name] of names.entries()) {
      const before = this.#files.get(name);
      const read = results[toRead.indexOf(name)];
      const file = read === undefined ? before : this.#fileOf(name, identities[index], read, before);
      if (file !== undefined) files.set(name, file);
    }
    return files;
  }

  #readAll(names: readonly string[]): Promise<readonly ReadClusters[]> {
    return readClustersAside(names.map(name => join(this.#path, name)));
  }

  #fileOf(
    name: string,
    identity: string,
    read: ReadClusters,
    before: DirectoryFile | undefined,
  ): DirectoryFile {
    if (read.ok) {
      const clusters = read.clusters.map(cluster => ({ ...cluster, origin: { source: this.name } }));
      return { identity, clusters: sameAs(before?.clusters ?? [], clusters), findings: [] };
    }
    const kept = before?.clusters ?? [];
    const fix =
      kept.length === 0
        ? 'Correct the file'
        : 'Correct the file; until then its last good clusters are served';
    const findings = read.mistakes.slice(0, MAX_FINDINGS).map(
      (mistake): Finding => ({
        origin: { source: this.name },
        severity: 'error',
        code: 'FileInvalid',
        text: formatMistake(join(this.#path, name), mistake),
        fix,
      }),
    );
    return { identity, clusters: kept, findings };
  }
}

/** `*.yaml` and `*.yml`, no hidden files. */
function isWanted(name: string): boolean {
  return !name.startsWith('.') && /\.ya?ml$/.test(name);
}

/** The old object for each cluster that has not changed. */
function sameAs(before: readonly Cluster[], after: readonly Cluster[]): readonly Cluster[] {
  const known = new Map(before.map(cluster => [cluster.name, cluster]));
  return after.map(cluster => {
    const old = known.get(cluster.name);
    return old !== undefined && JSON.stringify(old) === JSON.stringify(cluster) ? old : cluster;
  });
}
