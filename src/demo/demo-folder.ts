// ./demo-out: what a demo writes for people to use, and takes away again. A marker lists what is ours, so that nothing
// else is ever deleted, and what a killed demo left behind is known. Synchronous, as the end of the process needs it.

import { lstatSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Cannot use the folder. The message is a sentence for the person at the terminal. */
export class FolderError extends Error {
  readonly code = 'ERR_DEMO_FOLDER';

  constructor(message: string) {
    super(message);
    this.name = 'FolderError';
  }
}

/** The process that claims a folder, and who else runs. */
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
/** Names as we give them: nothing that leads out of the folder. */
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

  /** Makes ./demo-out in that directory. Throws a FolderError when something that is not ours is there. */
  static claim(directory: string, claimant: Claimant): DemoFolder {
    const path = join(directory, NAME);
    clearLeftovers(path, claimant);
    try {
      // It has keys in it.
      mkdirSync(path, { mode: 0o700 });
    } catch (error) {
      throw new FolderError(whyNoFolder(error as NodeJS.ErrnoException));
    }
    const folder = new DemoFolder(path, claimant.pid);
    folder.#mark();
    return folder;
  }

  /** Writes a file and answers its path. */
  write(name: string, text: string): string {
    const path = this.reserve(name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  /** The path of a file or folder that somebody else will write; it is taken away with the rest. */
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

  /** As a person in the directory types it. */
  typed(name: string): string {
    return `${NAME}/${name}`;
  }

  /** Takes away what is ours; the folder too, unless somebody put something of their own there. */
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

/** What a demo that was killed could not take away. */
function clearLeftovers(path: string, { pid, isRunning }: Claimant): void {
  const marker = readMarker(path);
  if (marker === undefined) return;
  // In a container that was started again it may have had the same id.
  if (marker.pid !== pid && isRunning(marker.pid)) {
    throw new FolderError(
      `Cannot use ./${NAME}: a demo with process id ${marker.pid} is using it. End that one, or start this one in another directory`,
    );
  }
  removeEntries(path, marker.entries);
}

function whyNoFolder({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'EEXIST') {
    return `Cannot use ./${NAME}: it is there already and not from a demo. Rename or remove it, or start the demo elsewhere`;
  }
  const denied = code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
  return denied
    ? `Cannot make ./${NAME}: this directory cannot be written to. Start the demo in one that can`
    : `Cannot make ./${NAME}: ${message}`;
}

function readMarker(path: string): Marker | undefined {
  try {
    // Not through a link: what it leads to is not ours.
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
    // Not empty: what is left is somebody else's. Or gone already.
  }
}
