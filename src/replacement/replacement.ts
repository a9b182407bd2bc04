// This process's place in its runDir: whom it replaces, the socket on which it can be replaced itself, and the processes
// that still drain. All of it works through descriptors that processes pass to each other, so it needs Linux.

import type { Logger } from 'pino';
import { ControlSocket, type Replaceable } from './control-socket.ts';
import { DrainingPeers } from './draining-peers.ts';
import { beginReplacement, type Predecessor, servingPeer } from './predecessor.ts';
import { openRunDir, type RunDirChoice } from './run-dir.ts';

/** Enough for a process that is alive. */
const ASK_MS = 500;

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
  readonly #folder: string;
  readonly #draining = new DrainingPeers();
  #control: ControlSocket | undefined;

  private constructor(options: ReplacementOptions, folder: string, predecessor: Predecessor | undefined) {
    this.#options = options;
    this.#folder = folder;
    this.predecessor = predecessor;
  }

  /** Throws a RunDirError or a ReplaceError. */
  static async begin(options: ReplacementOptions): Promise<Replacement> {
    const folder = await openRunDir(options);
    const { pid, isWanted, log } = options;
    const predecessor = isWanted ? await beginReplacement(folder, pid) : undefined;
    if (isWanted && predecessor === undefined)
      log.info({ runDir: folder }, 'no gateway to replace; starting as the first');
    return new Replacement(options, folder, predecessor);
  }

  /** Connections that are still with old processes. */
  get draining(): number {
    return this.#draining.connections;
  }

  /** From now on this process can be replaced, unless another gateway serves with the same folder. */
  async open(gateway: Replaceable, onFault: (error: unknown) => void): Promise<void> {
    const { pid, log } = this.#options;
    const other = this.predecessor === undefined ? await servingPeer(this.#folder, pid, ASK_MS) : undefined;
    if (other !== undefined) {
      const text = 'another gateway has this runDir; this one cannot be replaced while it runs';
      return log.info({ runDir: this.#folder, pid: other.pid }, text);
    }
    this.#control = await ControlSocket.open(this.#folder, pid, gateway, onFault);
    if (this.predecessor === undefined) await this.#draining.follow(this.#folder, pid);
  }

  /** This process accepts: the old one stops accepting and drains. */
  async complete(): Promise<void> {
    if (this.predecessor === undefined) return;
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
