// This process's place in its runDir: whom it replaces, the socket on which it can be replaced itself, and the processes
// that still drain. All of it works through descriptors that processes pass to each other, so it needs Linux.

import type { Logger } from 'pino';
import { ControlSocket, type Replaceable } from './control-socket.ts';
import { DrainingPeers } from './draining-peers.ts';
import { beginReplacement, type Predecessor, servingPeer } from './predecessor.ts';
import { openRunDir, type RunDirChoice, RunDirError } from './run-dir.ts';

/** Enough for a process that is alive. */
const ASK_MS = 500;
const CANNOT_BE_REPLACED = 'no private socket; this gateway cannot be replaced';

export interface ReplacementOptions extends RunDirChoice {
  readonly pid: number;
  /** --replace */
  readonly isWanted: boolean;
  readonly log: Logger;
}

export class Replacement implements AsyncDisposable {
  /** The process that this one replaces. */
  readonly predecessor: Predecessor | undefined;
  readonly #options: ReplacementOptions;
  /** Undefined if there is none, as on a system that cannot be written to. */
  readonly #folder: string | undefined;
  readonly #draining = new DrainingPeers();
  #control: ControlSocket | undefined;

  private constructor(
    options: ReplacementOptions,
    folder: string | undefined,
    predecessor: Predecessor | undefined,
  ) {
    this.#options = options;
    this.#folder = folder;
    this.predecessor = predecessor;
  }

  /** Throws a RunDirError or a ReplaceError. */
  static async begin(options: ReplacementOptions): Promise<Replacement> {
    const folder = await openFolder(options);
    const { pid, isWanted, log } = options;
    const predecessor = isWanted && folder !== undefined ? await beginReplacement(folder, pid) : undefined;
    if (isWanted && predecessor === undefined)
      log.info({ runDir: folder }, 'no gateway to replace; starting as the first');
    return new Replacement(options, folder, predecessor);
  }

  /** Connections that are still with old processes. */
  get draining(): number {
    return this.#draining.connections;
  }

  /**
   * From now on this process can be replaced, unless another gateway serves with the same folder. To serve is more
   * important than to be replaced: that it cannot be, as with a full disk, is a line in the log.
   */
  async open(gateway: Replaceable, onFault: (error: unknown) => void): Promise<void> {
    const { pid, log } = this.#options;
    const runDir = this.#folder;
    if (runDir === undefined) return;
    try {
      const other = this.predecessor === undefined ? await servingPeer(runDir, pid, ASK_MS) : undefined;
      if (other !== undefined) {
        const text = 'another gateway has this runDir; this one cannot be replaced while it runs';
        // Of interest to few: on a machine with several gateways only those that are upgraded need a folder of their own.
        return log.debug({ runDir, pid: other.pid }, text);
      }
      this.#control = await ControlSocket.open(runDir, pid, gateway, onFault);
      if (this.predecessor === undefined) await this.#draining.follow(runDir, pid);
    } catch (error) {
      log.warn({ runDir, error: (error as Error).message }, CANNOT_BE_REPLACED);
    }
  }

  /** This process accepts: the old one stops accepting and drains. */
  async complete(): Promise<void> {
    if (this.predecessor === undefined || this.#folder === undefined) return;
    const { pid } = this.predecessor;
    if (!(await this.predecessor.stop()))
      this.#options.log.warn({ pid }, 'the old process does not answer; it may still accept connections');
    await this.#draining.follow(this.#folder, this.#options.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.predecessor?.[Symbol.dispose]();
    this.#draining[Symbol.dispose]();
    await this.#control?.[Symbol.asyncDispose]();
  }
}

/** A default folder that cannot be made is no reason not to serve. */
async function openFolder(options: ReplacementOptions): Promise<string | undefined> {
  try {
    return await openRunDir(options);
  } catch (error) {
    const isFatal = !(error instanceof RunDirError) || error.isUnsafe || options.configured !== undefined;
    if (isFatal) throw error;
    options.log.warn({ error: error.message }, CANNOT_BE_REPLACED);
    return undefined;
  }
}
