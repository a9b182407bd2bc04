// Reports when a file, or any of the files in a directory, changes: written in place, replaced by rename, or swapped by
// a symlink somewhere on its path, as with a mounted ConfigMap. It watches the folders, because a rename replaces the
// inode that a watch on the file holds.

import { type FSWatcher, watch } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

/** Editors truncate before they write: a change is reported after this long without events. */
const QUIET_MS = 100;
/** The longest delay: another file in the folder that is written all the time, such as a log, never goes quiet. */
const MAX_QUIET_MS = 500;
/** Used where the kernel cannot watch (no inotify instances left, some network file systems). */
const POLL_MS = 1000;

interface Watched {
  /** Changes whenever the content may have changed. */
  readonly identity: () => Promise<string>;
  /** The folders whose events concern it. */
  readonly folders: () => Promise<Iterable<string>>;
}

export class FileWatch implements Disposable {
  readonly #watched: Watched;
  readonly #onChange: () => void;
  readonly #watchers: FSWatcher[] = [];
  #quiet: NodeJS.Timeout | undefined;
  #firstEventAt: number | undefined;
  #poll: NodeJS.Timeout | undefined;
  #seen: string;
  #closed = false;

  private constructor(watched: Watched, seen: string, onChange: () => void) {
    this.#watched = watched;
    this.#seen = seen;
    this.#onChange = onChange;
  }

  static start(path: string, onChange: () => void): Promise<FileWatch> {
    return FileWatch.#start(oneFile(resolve(path)), onChange);
  }

  /** Watches all files in that directory whose names are `wanted`, and those that will be added. */
  static startDirectory(
    path: string,
    wanted: (name: string) => boolean,
    onChange: () => void,
  ): Promise<FileWatch> {
    return FileWatch.#start(filesIn(resolve(path), wanted), onChange);
  }

  static async #start(watched: Watched, onChange: () => void): Promise<FileWatch> {
    const file = new FileWatch(watched, await watched.identity(), onChange);
    await file.#arm();
    return file;
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    clearTimeout(this.#quiet);
    clearInterval(this.#poll);
    this.#disarm();
  }

  /** Again after each change: the path may resolve to another folder now. */
  async #arm(): Promise<void> {
    const folders = new Set(await this.#watched.folders());
    if (this.#closed) return;
    this.#disarm();
    try {
      for (const folder of folders) {
        const watcher = watch(folder, () => this.#onEvent());
        watcher.on('error', () => this.#pollInstead());
        this.#watchers.push(watcher);
      }
    } catch {
      this.#pollInstead();
    }
  }

  #disarm(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
  }

  #pollInstead(): void {
    if (!this.#closed) this.#poll ??= setInterval(() => void this.#check(), POLL_MS);
  }

  #onEvent(): void {
    const now = performance.now();
    this.#firstEventAt ??= now;
    clearTimeout(this.#quiet);
    const wait = Math.max(0, Math.min(QUIET_MS, this.#firstEventAt + MAX_QUIET_MS - now));
    this.#quiet = setTimeout(() => void this.#check(), wait);
  }

  async #check(): Promise<void> {
    this.#firstEventAt = undefined;
    const identity = await this.#watched.identity();
    if (this.#closed || identity === this.#seen) return;
    this.#seen = identity;
    await this.#arm();
    if (!this.#closed) this.#onChange();
  }
}

export async function changedSince(path: string, time: number): Promise<boolean> {
  try {
    const { ctimeMs } = await stat(path);
    return ctimeMs > time;
  } catch {
    return true;
  }
}

function oneFile(path: string): Watched {
  return {
    identity: () => identityOf(path),
    folders: async () => [dirname(path), dirname(await realpath(path).catch(() => path))],
  };
}

function filesIn(path: string, wanted: (name: string) => boolean): Watched {
  return {
    async identity() {
      const names = (await readdir(path).catch(() => [])).filter(wanted).toSorted();
      const files = await Promise.all(
        names.map(async name => `${name} ${await identityOf(join(path, name))}`),
      );
      return [await identityOf(path), ...files].join('\n');
    },
    // Its parent, since the directory itself may be replaced or not exist yet.
    async folders() {
      const existing = await stat(path).then(
        () => [path],
        () => [],
      );
      return [dirname(path), ...existing];
    },
  };
}

/** Changes whenever the content may have changed. */
export async function identityOf(path: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'missing';
  }
}
