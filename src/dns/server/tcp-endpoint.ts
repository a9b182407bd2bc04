// One TCP listener of the DNS server (RFC 7766): messages behind their lengths, several on a connection and several at
// once. What a client can hold is bounded: connections in all and by source, time, and bytes that it does not read.

import { createServer, type Server, type Socket } from 'node:net';
import type { EndpointOptions, Serving } from './udp-endpoint.ts';

/** A query must be complete within this time after the last one: neither an idle nor a slow client stays. */
const IDLE_MS = 10_000;
/** On all addresses. BIND's default is 150. */
const MOST_CONNECTIONS = 512;
const MOST_PER_SOURCE = 32;
/** Unread answers of one connection; until they are read, no further query is. */
const MOST_UNSENT_BYTES = 64 << 10;
const LENGTH_BYTES = 2;
/** One question and its OPT with padding: what is longer is no query. */
const MOST_QUERY_BYTES = 4096;

/** Counts over all listeners of a server. */
export class TcpClients {
  readonly #sockets = new Set<Socket>();
  readonly #bySource = new Map<string, number>();

  /** False if there are too many already. */
  add(socket: Socket): boolean {
    const source = socket.remoteAddress;
    if (source === undefined || this.#sockets.size >= MOST_CONNECTIONS) return false;
    const count = this.#bySource.get(source) ?? 0;
    if (count >= MOST_PER_SOURCE) return false;
    this.#sockets.add(socket);
    this.#bySource.set(source, count + 1);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      const left = (this.#bySource.get(source) ?? 1) - 1;
      if (left === 0) this.#bySource.delete(source);
      else this.#bySource.set(source, left);
    });
    return true;
  }

  closeAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

export async function openTcp(
  { address, port, reusePort }: EndpointOptions,
  serving: Serving,
  clients: TcpClients,
): Promise<Server> {
  const server = createServer({ noDelay: true }, socket => {
    socket.on('error', () => {});
    if (clients.add(socket)) serve(socket, serving);
    else socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: address, port, ipv6Only: true, reusePort, exclusive: true }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // Out of descriptors: the next connection may succeed.
  server.on('error', () => {});
  return server;
}

function serve(socket: Socket, serving: Serving): void {
  const timer = setTimeout(() => socket.destroy(), IDLE_MS);
  socket.once('close', () => clearTimeout(timer));
  let held: Buffer = Buffer.alloc(0);
  const answerAll = () => {
    let at = 0;
    while (held.length - at >= LENGTH_BYTES && socket.writableLength < MOST_UNSENT_BYTES) {
      const queryBytes = held.readUInt16BE(at);
      if (queryBytes > MOST_QUERY_BYTES) return void socket.destroy();
      const end = at + LENGTH_BYTES + queryBytes;
      if (held.length < end) break;
      timer.refresh();
      const { length } = serving.answer(held, at + LENGTH_BYTES, end, true, serving.scratch);
      // Not even a header, or an answer: this is no client.
      if (length === 0) return void socket.destroy();
      socket.write(framed(serving.scratch.subarray(0, length)));
      at = end;
    }
    held = held.subarray(at);
    if (socket.writableLength >= MOST_UNSENT_BYTES) socket.pause();
  };
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    answerAll();
  });
  socket.on('drain', () => {
    answerAll();
    if (socket.writableLength < MOST_UNSENT_BYTES) socket.resume();
  });
}

function framed(message: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(LENGTH_BYTES + message.length);
  bytes.writeUInt16BE(message.length, 0);
  bytes.set(message, LENGTH_BYTES);
  return bytes;
}
