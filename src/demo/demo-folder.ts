// ./demo-out: the files that a demo writes for people to use, and removes at the end. A marker lists our files, so that
// nothing else is ever deleted, and leftovers of a killed demo are known. Synchronous, because it runs at process exit.

import { lstatSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The folder cannot be used. The message is for the user. */
export class FolderError extends Error {
  readonly code = 'ERR_DEMO_FOLDER';

  constructor(message: string) {
    super(message);
    this.name = 'FolderError';
  }
}

/** The process that claims the folder. */
export interface Claimant {
  readonly pid: number;
  readonly isRunning: (pid: number) => boolean;
}

interface Marker {
  readonly pid: number;
  /** Names of files and folders beside the marker. */
  readonly entries: readonly string[];
}

const NAME = 'demo-out';
const MARKER = '.causeway-demo.json';
/** The names we use; none of them can lead out of the folder. */
const ENTRY = /^[a-z0-9][a-z0-9.-]*$/;

export class DemoFolder implements Disposable {
  readonly path: string;
  readonly #pid: number;
  #entries: readonly string[] = [];
  #removed = false;

  private constructor(path: string, pid: number) {
    this.path = path;
    this.#pid = pid;
  }

  /** Creates ./demo-out in `directory`. Throws a FolderError if it exists and is not ours. */
  static claim(directory: string, claimant: Claimant): DemoFolder {
    const path = join(directory, NAME);
    clearLeftovers(path, claimant);
    try {
      // It will contain keys.
      mkdirSync(path, { mode: 0o700 });
    } catch (error) {
      throw new FolderError(whyNoFolder(error as NodeJS.ErrnoException));
    }
    const folder = new DemoFolder(path, claimant.pid);
    folder.#mark();
    return folder;
  }

  /** Writes a file and returns its path. */
  write(name: string, text: string): string {
    const path = this.reserve(name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  /** The path of a file or folder that other code will write; it is removed with the rest. */
  reserve(name: string): string {
    if (!this.#entries.includes(name)) {
      this.#entries = [...this.#entries, name];
      this.#mark();
    }
    return this.file(name);
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** The path as typed in a shell in that directory. */
  typed(name: string): string {
    return `${NAME}/${name}`;
  }

  /** Removes our files, and the folder too unless it contains other files. */
  [Symbol.dispose](): void {
    if (this.#removed) return;
    this.#removed = true;
    removeEntries(this.path, this.#entries);
  }

  #mark(): void {
    const marker: Marker = { pid: this.#pid, entries: this.#entries };
    writeFileSync(join(this.path, MARKER), JSON.stringify(marker), { mode: 0o600 });
  }
}

/** Removes what a killed demo left behind. */
function clearLeftovers(path: string, { pid, isRunning }: Claimant): void {
  const marker = readMarker(path);
  if (marker === undefined) return;
  // In a restarted container it may have had the same process id.
  if (marker.pid !== pid && isRunning(marker.pid)) {
    throw new FolderError(
      `Cannot use ./${NAME}: a demo with process id ${marker.pid} is using it. End that demo, or start this one in another directory`,
    );
  }
  removeEntries(path, marker.entries);
}

function whyNoFolder({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'EEXIST') {
    return `Cannot use ./${NAME}: it already exists and is not from a demo. Rename or remove it, or start the demo elsewhere`;
  }
  const denied = code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
  return denied
    ? `Cannot create ./${NAME}: this directory is not writable. Start the demo in another one`
    : `Cannot create ./${NAME}: ${message}`;
}

function readMarker(path: string): Marker | undefined {
  try {
    // Do not follow a symlink: its target is not ours.
    if (!lstatSync(path).isDirectory()) return undefined;
    const { pid, entries } = JSON.parse(readFileSync(join(path, MARKER), 'utf8')) as Partial<Marker>;
    if (typeof pid !== 'number' || !Array.isArray(entries)) return undefined;
    return { pid, entries: entries.filter(entry => typeof entry === 'string' && ENTRY.test(entry)) };
  } catch {
    return undefined;
  }
}

function removeEntries(path: string, entries: readonly string[]): void {
  for (const entry of [...entries, MARKER]) rmSync(join(path, entry), { recursive: true, force: true });
  try {
    rmdirSync(path);
  } catch {
    // Not empty: the rest is not ours. Or already gone.
  }
}
