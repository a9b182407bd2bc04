// Counts the connections that old processes in the same runDir still have.

import * as net from 'node:net';
import { type Reply, sendMessage, takeMessages } from './messages.ts';
import { peersIn } from './predecessor.ts';

export class DrainingPeers implements Disposable {
  /** By socket: what it said last. */
  readonly #counts = new Map<net.Socket, number>();

  get connections(): number {
    let sum = 0;
    for (const count of this.#counts.values()) sum += count;
    return sum;
  }

  /** Begins to follow all processes with a socket in the folder. Call it when none of them serves. */
  async follow(folder: string, ownPid: number): Promise<void> {
    for (const { path } of await peersIn(folder, ownPid)) this.#follow(path);
  }

  [Symbol.dispose](): void {
    for (const socket of this.#counts.keys()) socket.destroy();
  }

  #follow(path: string): void {
    const socket = net.connect(path).unref();
    this.#counts.set(socket, 0);
    takeMessages<Reply>(socket, reply => {
      if (reply.kind === 'connections' && this.#counts.has(socket)) this.#counts.set(socket, reply.count);
    });
    socket.on('error', () => {});
    socket.on('close', () => this.#counts.delete(socket));
    sendMessage(socket, { kind: 'watch' });
  }
}
