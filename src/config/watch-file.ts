// Reports when a file changes: written in place, replaced by rename, or swapped by a symlink somewhere on its path, as
// with a mounted ConfigMap. It watches the folders, because a rename replaces the inode that a watch on the file holds.

import { type FSWatcher, watch } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/** Editors truncate before they write: a change is reported after this long without events. */
const QUIET_MS = 100;
/** The longest delay: another file in the folder that is written all the time, such as a log, never goes quiet. */
const MAX_QUIET_MS = 500;
/** Used where the kernel cannot watch (no inotify instances left, some network file systems). */
const POLL_MS = 1000;

export class FileWatch implements Disposable {
  readonly #path: string;
  readonly #onChange: () => void;
  readonly #watchers: FSWatcher[] = [];
  #quiet: NodeJS.Timeout | undefined;
  #firstEventAt: number | undefined;
  #poll: NodeJS.Timeout | undefined;
  #seen: string;
  #closed = false;

  private constructor(path: string, seen: string, onChange: () => void) {
    this.#path = path;
    this.#seen = seen;
    this.#onChange = onChange;
  }

  static async start(path: string, onChange: () => void): Promise<FileWatch> {
    const file = new FileWatch(resolve(path), await identityOf(path), onChange);
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
    const target = await realpath(this.#path).catch(() => this.#path);
    if (this.#closed) return;
    this.#disarm();
    try {
      for (const folder of new Set([dirname(this.#path), dirname(target)])) {
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
    this.#poll ??= setInterval(() => void this.#check(), POLL_MS);
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
    const identity = await identityOf(this.#path);
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

/** Changes whenever the content may have changed. */
async function identityOf(path: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'missing';
  }
}
