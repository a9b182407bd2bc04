// The folder with this process's private socket. Whoever can connect to that socket can take over the gateway's
// listeners, so the folder must belong to this user and be closed to all others.

import { lstat, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

const PRIVATE = 0o700;
/** The longest path of a unix socket, less `/` and the name that sockets get here. */
const LONGEST = 107 - '/4194304.sock.new'.length;

export class RunDirError extends Error {
  override readonly name = 'RunDirError';
  /** There is such a folder, but it is open to others. */
  readonly isUnsafe: boolean;

  constructor(path: string, why: string, isUnsafe: boolean) {
    super(
      `Cannot use '${path}' as runDir: ${why}. It must be a folder of this user with mode 0700; choose another with runDir in the file or --run-dir`,
    );
    this.isUnsafe = isUnsafe;
  }
}

export interface RunDirChoice {
  /** From the flag or the file. */
  readonly configured: string | undefined;
  /** $XDG_RUNTIME_DIR */
  readonly runtimeDirectory: string | undefined;
  readonly temporaryDirectory: string;
  readonly uid: number;
}

/** Creates the folder if it is missing, and returns its path. Throws a RunDirError. */
export async function openRunDir(choice: RunDirChoice): Promise<string> {
  const { configured, runtimeDirectory, temporaryDirectory, uid } = choice;
  if (configured !== undefined) return makePrivate(configured, uid);
  const parents = [...(runtimeDirectory ? [runtimeDirectory] : []), '/run'];
  for (const parent of parents) {
    try {
      return await makePrivate(join(parent, 'causeway'), uid);
    } catch {
      // Not for this user: the next one.
    }
  }
  return makePrivate(join(temporaryDirectory, `causeway-run-${uid}`), uid);
}

async function makePrivate(path: string, uid: number): Promise<string> {
  const fail = (why: string, isUnsafe = false): never => {
    throw new RunDirError(path, why, isUnsafe);
  };
  if (Buffer.byteLength(path) > LONGEST) fail('paths of sockets in it would be longer than 107 bytes');
  try {
    await mkdir(path, { mode: PRIVATE });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') fail('the folder that it should be in does not exist');
    if (code !== 'EEXIST') fail(message);
  }
  // Not stat(): a link may lead to a folder of ours today, and to another tomorrow.
  const found = await lstat(path);
  if (!found.isDirectory()) fail('it is not a folder', true);
  if (found.uid !== uid) fail(`it belongs to the user with id ${found.uid}, and this is ${uid}`, true);
  const mode = found.mode & 0o777;
  if (mode !== PRIVATE) fail(`its mode is ${mode.toString(8).padStart(4, '0')}`, true);
  return path;
}
