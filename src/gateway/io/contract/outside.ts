// The peers of the reactor under test: plain node:net sockets that read only on demand.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import * as net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { parseIp } from '../../../wire/ip-address.ts';
import type { SocketAddress } from '../reactor.ts';
import { pattern } from './messages.ts';

const PIECE = 64 * 1024;
/** On a busy machine a turn of the event loop takes milliseconds. */
const MAX_PAUSE_MS = 10;

/** Everything the current test has open. */
let open = new Set<{ destroy(): void }>();

/** Call at the start of a test. The returned function closes everything the test left open, also after a time-out. */
export function beginOutside(): () => void {
  const mine = new Set<{ destroy(): void }>();
  open = mine;
  return () => {
    for (const each of mine) each.destroy();
  };
}

export function ip(text: string, port = 0, dualStack = false): SocketAddress {
  const address = parseIp(text);
  assert.ok(address !== undefined, text);
  return { address, port, dualStack };
}

export function unix(path: string): SocketAddress {
  return { address: new Uint8Array(16), port: 0, path };
}

/** A directory for unix sockets. */
export async function socketDirectory(): Promise<{ path(name: string): string } & AsyncDisposable> {
  const directory = await mkdtemp(join(tmpdir(), 'reactor-'));
  return {
    path: name => join(directory, name),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

export class Peer implements Disposable {
  readonly socket: net.Socket;
  /** `end`, or the error code, once that was read. */
  over: string | undefined;

  constructor(socket: net.Socket) {
    const mine = open;
    mine.add(socket);
    this.socket = socket;
    socket.on('end', () => this.#ended('end'));
    socket.on('error', (error: NodeJS.ErrnoException) => this.#ended(error.code ?? 'error'));
    socket.on('close', () => {
      this.#ended('closed');
      mine.delete(socket);
    });
  }

  async send(bytes: Uint8Array | string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.socket.write(bytes, error => (error ? reject(error) : resolve()));
    });
  }

  /** Sends `size` bytes of the pattern, followed by FIN by default. */
  async sendPattern(size: number, fin = true): Promise<void> {
    for (let at = 0; at < size; at += PIECE) {
      if (!this.socket.write(pattern(at, Math.min(PIECE, size - at)))) await once(this.socket, 'drain');
    }
    if (fin) this.socket.end();
  }

  /** Exactly `count` bytes, or fewer if the stream ends before. */
  async take(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = count; left > 0; ) {
      const part: Buffer | null = this.socket.read(Math.min(left, Math.max(1, this.socket.readableLength)));
      if (part !== null) {
        parts.push(part);
        left -= part.length;
      } else if (this.over === undefined) {
        await this.#change();
      } else {
        break;
      }
    }
    return Buffer.concat(parts);
  }

  /** Reads to the end; `slowness` is the number of event-loop turns between two chunks, 10 ms at most. */
  async takeAll(slowness = 0): Promise<{ count: number; digest: string; end: string }> {
    const hash = createHash('sha256');
    let count = 0;
    for (;;) {
      const part: Buffer | null = this.socket.read();
      if (part !== null) {
        hash.update(part);
        count += part.length;
        const late = performance.now() + MAX_PAUSE_MS;
        for (let i = 0; i < slowness && performance.now() < late; i++) await turn();
      } else if (this.over !== undefined) {
        return { count, digest: hash.digest('hex'), end: this.over };
      } else {
        await this.#change();
      }
    }
  }

  /** Sends RST and drops unread bytes. */
  async reset(): Promise<void> {
    const closed = once(this.socket, 'close');
    this.socket.resetAndDestroy();
    await closed;
  }

  async close(): Promise<void> {
    if (this.socket.closed) return;
    const closed = once(this.socket, 'close');
    this.socket.destroy();
    await closed;
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }

  #ended(how: string): void {
    this.over ??= how;
  }

  async #change(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const events = ['readable', 'end', 'error', 'close'] as const;
    for (const event of events) this.socket.once(event, resolve);
    await promise;
    for (const event of events) this.socket.off(event, resolve);
  }
}

/** A connected peer; throws if the connection fails. */
export async function dial(place: net.NetConnectOpts): Promise<Peer> {
  const socket = net.connect({ ...place, allowHalfOpen: true });
  const peer = new Peer(socket);
  await once(socket, 'connect');
  return peer;
}

/** The error code of a failed connection, or `connected`. */
export async function dialRefused(place: net.NetConnectOpts): Promise<string> {
  const peer = new Peer(net.connect(place));
  const { promise, resolve } = Promise.withResolvers<void>();
  peer.socket.once('connect', resolve).once('close', resolve);
  await promise;
  peer.socket.destroy();
  return peer.over ?? 'connected';
}

export interface OutsideServer extends AsyncDisposable {
  readonly port: number;
  /** The next connection; waits for it. */
  next(): Promise<Peer>;
}

export async function serveOutside(place: net.ListenOptions = { host: '127.0.0.1' }): Promise<OutsideServer> {
  const queue: Peer[] = [];
  const all: Peer[] = [];
  const server = net.createServer({ allowHalfOpen: true, pauseOnConnect: true }, socket => {
    const peer = new Peer(socket);
    all.push(peer);
    queue.push(peer);
    server.emit('queued');
  });
  server.listen(place.path === undefined ? { port: 0, ...place } : place);
  await once(server, 'listening');
  const mine = open;
  const closing = { destroy: () => server.close() };
  mine.add(closing);
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    async next() {
      while (queue.length === 0) await once(server, 'queued');
      return queue.shift() as Peer;
    },
    async [Symbol.asyncDispose]() {
      mine.delete(closing);
      for (const peer of all) peer.socket.destroy();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

export function digestOf(size: number): string {
  const hash = createHash('sha256');
  for (let at = 0; at < size; at += PIECE) hash.update(pattern(at, Math.min(PIECE, size - at)));
  return hash.digest('hex');
}
