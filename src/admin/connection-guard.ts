// Bounds the connections of admin clients. When there are too many, the newest is kept and the least useful other one is
// closed, so that slow or silent clients never keep out a probe or a scrape.

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const SILENT = 0;
const IDLE = 1;
const BUSY = 2;

/** Unanswered requests of one connection. Ordinary clients do not pipeline. */
const MAX_UNANSWERED = 8;

interface AdminConnection {
  readonly socket: Socket;
  /** Silent before its first request; busy while a request is being answered. */
  state: typeof SILENT | typeof IDLE | typeof BUSY;
  unanswered: number;
}

export interface ConnectionGuard {
  /** Registers a request. Returns false if it must not be answered. */
  admit(request: IncomingMessage, response: ServerResponse): boolean;
  /** Bytes of answers that clients have not read yet. */
  waiting(): number;
}

export function guardConnections(server: Server, most: number): ConnectionGuard {
  // By the client's address and port: with TLS a request has another socket object than the connection.
  const connections = new Map<string, AdminConnection>();
  const answering = new Set<ServerResponse>();

  server.on('connection', (socket: Socket) => {
    const key = keyOf(socket);
    connections.set(key, { socket, state: SILENT, unanswered: 0 });
    socket.once('close', () => {
      if (connections.get(key)?.socket === socket) connections.delete(key);
    });
    if (connections.size > most) closeOne(connections, key);
  });

  return {
    admit(request, response) {
      const one = connections.get(keyOf(request.socket));
      // A connection that was closed may still have parsed requests.
      if (one === undefined || one.unanswered >= MAX_UNANSWERED) {
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

/** Closes the oldest of the least useful ones, but not the new one. */
function closeOne(connections: Map<string, AdminConnection>, newest: string): void {
  for (const state of [SILENT, IDLE, BUSY]) {
    for (const [key, one] of connections) {
      if (one.state !== state || key === newest) continue;
      connections.delete(key);
      one.socket.destroy();
      return;
    }
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
