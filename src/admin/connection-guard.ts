// Bounds what admin clients may hold. When there are too many connections, the newest is let in and the one that
// deserves it least goes: so that slow or silent clients never keep out a probe or a scrape.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const SILENT = 0;
const IDLE = 1;
const BUSY = 2;

interface Held {
  readonly socket: Socket;
  /** Silent before its first request; busy while it is answered. */
  state: typeof SILENT | typeof IDLE | typeof BUSY;
}

export interface ConnectionGuard {
  /** Bytes of answers that clients have not taken yet. */
  waiting(): number;
}

export function guardConnections(server: Server, most: number): ConnectionGuard {
  // By the client's address and port: with TLS a request has another socket object than the connection.
  const held = new Map<string, Held>();
  const answering = new Set<ServerResponse>();

  server.on('connection', (socket: Socket) => {
    const key = keyOf(socket);
    held.set(key, { socket, state: SILENT });
    socket.once('close', () => {
      if (held.get(key)?.socket === socket) held.delete(key);
    });
    if (held.size > most) letGo(held, key);
  });

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const one = held.get(keyOf(request.socket));
    answering.add(response);
    if (one !== undefined) one.state = BUSY;
    response.once('close', () => {
      answering.delete(response);
      if (one !== undefined) one.state = IDLE;
    });
  });

  return {
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
