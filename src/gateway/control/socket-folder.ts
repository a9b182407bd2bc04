// The folder of unix sockets between a gateway's threads: no other user can enter it, and the gateway removes it when
// it stops. A killed process leaves its folder behind, and the next gateway removes that. A socket that only the owner
// listens on shows whether the owner lives: process ids mean nothing in another container with the same /tmp.

import { lstat, mkdtemp, readdir, rename, rm, rmdir, unlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ListenError } from './listen-error.ts';

const PREFIX = 'causeway-sockets-';
const OWNER = 'owner';

export class SocketFolder implements AsyncDisposable {
  readonly path: string;
  readonly #owner: Server;

  private constructor(path: string, owner: Server) {
    this.path = path;
    this.#owner = owner;
  }

  /** Throws a ListenError if the folder cannot be made. */
  static async make(parent: string = tmpdir()): Promise<SocketFolder> {
    try {
      // Created with mode 0700.
      const path = await mkdtemp(join(parent, PREFIX));
      const folder = new SocketFolder(path, await listenAsOwner(path));
      await removeAbandoned(parent, (await lstat(path)).uid);
      return folder;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const fix = 'the gateway needs a folder with a short path that it can write to; TMPDIR names one';
      throw new ListenError(join(parent, `${PREFIX}…`), `${code}: ${fix}`, { cause: error });
    }
  }

  /** False when somebody has deleted sockets: without its path, a socket cannot be connected to. */
  async isThere(sockets: readonly string[]): Promise<boolean> {
    const found = await Promise.all(
      [join(this.path, OWNER), ...sockets].map(path => lstat(path).then(stats => stats.isSocket())),
    ).catch(() => [false]);
    return found.every(Boolean);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#owner.close();
    await rm(this.path, { recursive: true, force: true });
  }
}

async function listenAsOwner(folder: string): Promise<Server> {
  const owner = createServer(socket => socket.destroy()).unref();
  const early = join(folder, `${OWNER}-early`);
  try {
    await new Promise<void>((resolve, reject) => owner.once('error', reject).listen(early, resolve));
    // Renamed only now: between bind and listen, the owner would look dead.
    await rename(early, join(folder, OWNER));
    return owner;
  } catch (error) {
    owner.close();
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Only those of this user. Failures are ignored: other processes may clean up at the same time. */
async function removeAbandoned(parent: string, uid: number): Promise<void> {
  const names = await readdir(parent).catch(() => []);
  for (const name of names.filter(candidate => candidate.startsWith(PREFIX)))
    await removeIfAbandoned(join(parent, name), uid).catch(() => {});
}

/** Removes the sockets and the empty folder, and nothing else: links are not followed. */
async function removeIfAbandoned(folder: string, uid: number): Promise<void> {
  const stats = await lstat(folder);
  if (!stats.isDirectory() || stats.uid !== uid || (stats.mode & 0o777) !== 0o700) return;
  const sockets = (await readdir(folder)).map(name => join(folder, name));
  for (const socket of sockets) if (!(await lstat(socket)).isSocket()) return;
  const owner = join(folder, OWNER);
  if (!(await isDead(owner))) return;
  // The owner's socket last: if we are interrupted here, the folder is still recognised as abandoned.
  for (const socket of sockets) if (socket !== owner) await unlink(socket);
  await unlink(owner);
  await rmdir(folder);
}

function isDead(socket: string): Promise<boolean> {
  return new Promise(resolve => {
    const connection = connect(socket, () => connection.destroy());
    connection.on('error', error => resolve('code' in error && error.code === 'ECONNREFUSED'));
    connection.on('close', () => resolve(false));
  });
}
