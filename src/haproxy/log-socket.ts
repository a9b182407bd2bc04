// The unix socket to which HAProxy sends its log lines, through a ring of its own (Configuration Manual, 3.9). A log that
// HAProxy writes itself loses a line when two of its threads write at the same moment, and with the line the count of a
// connection; a ring makes them wait.

import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export const LOG_SOCKET = 'log.sock';
/** Longer ones are dropped; the configuration limits HAProxy's to 8 KiB. */
const LONGEST_LINE = 16_384;

export class LogSocket {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(onLine: (line: string) => void) {
    this.#server = createServer(socket => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      readLines(socket, onLine);
    });
    this.#server.on('error', () => {});
  }

  /** In that private folder. */
  static async open(folder: string, onLine: (line: string) => void): Promise<LogSocket> {
    const log = new LogSocket(onLine);
    await new Promise<void>((resolve, reject) => {
      log.#server.once('error', reject);
      log.#server.listen(join(folder, LOG_SOCKET), () => {
        log.#server.off('error', reject);
        resolve();
      });
    });
    log.#server.unref();
    return log;
  }

  /** After the end of HAProxy: reads what it has sent, for at most that long. */
  async end(mostMs: number): Promise<void> {
    // Not once() of node:events, which rejects on an error.
    const closed = [...this.#sockets].map(socket => new Promise(resolve => socket.once('close', resolve)));
    await Promise.race([Promise.all(closed), sleep(mostMs)]);
    this.close();
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

function readLines(socket: Socket, each: (line: string) => void): void {
  let rest = '';
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString('latin1')).split('\n');
    rest = (lines.pop() as string).slice(-LONGEST_LINE);
    for (const line of lines) each(line);
  });
}
