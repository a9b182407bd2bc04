// Bounds what admin clients may hold. When there are too many connections, the newest is let in and the one that
// deserves it least goes: so that slow or silent clients never keep out a probe or a scrape.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const SILENT = 0;
const IDLE = 1;
const BUSY = 2;

/** Requests of one connection that wait for their answers. Nobody who means well sends several at a time. */
const MOST_AT_A_TIME = 8;

interface Held {
  readonly socket: Socket;
  /** Silent before its first request; busy while it is answered. */
  state: typeof SILENT | typeof IDLE | typeof BUSY;
  unanswered: number;
}

export interface ConnectionGuard {
  /** Takes note of a request before it is answered. False when it must not be. */
  admit(request: IncomingMessage, response: ServerResponse): boolean;
  /** Bytes of answers that clients have not taken yet. */
  waiting(): number;
}

export function guardConnections(server: Server, most: number): ConnectionGuard {
  // By the client's address and port: with TLS a request has another socket object than the connection.
  const held = new Map<string, Held>();
  const answering = new Set<ServerResponse>();

  server.on('connection', (socket: Socket) => {
    const key = keyOf(socket);
    held.set(key, { socket, state: SILENT, unanswered: 0 });
    socket.once('close', () => {
      if (held.get(key)?.socket === socket) held.delete(key);
    });
    if (held.size > most) letGo(held, key);
  });

  return {
    admit(request, response) {
      const one = held.get(keyOf(request.socket));
      // One that was let go may still have requests in what was read before.
      if (one === undefined || one.unanswered >= MOST_AT_A_TIME) {
        request.socket.destroy();
        return false;
      }
      one.state = BUSY;
      one.unanswered++;
      answering.add(response);
      response.once('close', () => {
        answering.delete(response);
        one.unanswered--;
        if (one.unanswered === 0) one.state = IDLE;
      });
      return true;
    },
    waiting() {
      let bytes = 0;
      for (const response of answering) bytes += response.writableLength;
      return bytes;
    },
  };
}

/** Of those that did least, the oldest. Not the newcomer. */
function letGo(held: Map<string, Held>, newcomer: string): void {
  for (const state of [SILENT, IDLE, BUSY]) {
    for (const [key, one] of held) {
      if (one.state !== state || key === newcomer) continue;
      held.delete(key);
      one.socket.destroy();
      return;
    }
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
