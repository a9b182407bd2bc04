// The peers of the reactor under test: plain node:net sockets that read only on demand. Both sides of every connection
// send the same bytes from the start, so a lost, repeated or swapped byte shows at its position.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import * as net from 'node:net';
import { formatIpPort, parseIp } from '../../../wire/ip-address.ts';

/** A prime, so that no piece of the stream looks like its neighbour. */
const PERIOD = 262_139;
const period = Buffer.alloc(PERIOD);
for (let i = 0, state = 1; i < PERIOD; i++) {
  state = Math.imul(state, 1_664_525) + 1_013_904_223;
  period[i] = state >>> 24;
}

/** `length` bytes of the stream, from position `at`. */
export function pattern(at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let done = 0; done < length; ) done += period.copy(bytes, done, (at + done) % PERIOD);
  return bytes;
}

export function isPattern(bytes: Uint8Array, at: number): void {
  assert.ok(pattern(at, bytes.length).equals(bytes), `${bytes.length} bytes differ, from ${at}`);
}

export class Peer {
  readonly socket: net.Socket;
  /** `end`, or the error code, once that was read. */
  over: string | undefined;
  sent = 0;
  taken = 0;

  /** The owner closes it at the end. */
  constructor(socket: net.Socket, owner: DisposableStack) {
    this.socket = owner.adopt(socket, () => void socket.destroy());
    socket.on('end', () => this.#ended('end'));
    socket.on('error', (error: NodeJS.ErrnoException) => this.#ended(error.code ?? 'error'));
    socket.on('close', () => this.#ended('closed'));
  }

  /** Its own address, as the reactor must see it. */
  get local(): string {
    return endpoint(this.socket.localAddress, this.socket.localPort);
  }

  /** The reactor's address. */
  get remote(): string {
    return endpoint(this.socket.remoteAddress, this.socket.remotePort);
  }

  /** Waits until the kernel has the bytes. */
  async send(count: number): Promise<void> {
    const bytes = pattern(this.sent, count);
    this.sent += count;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.socket.write(bytes, error => (error ? reject(error) : resolve()));
    await promise;
  }

  /** Over IPv4: the fields that proc(5) describes for /proc/net/tcp, of both ends of the connection. */
  procTcp(): { readonly reactor: readonly string[]; readonly peer: readonly string[] } {
    const { localPort, remotePort } = this.socket;
    const hex = (port = 0) => `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
    const rows = readFileSync('/proc/net/tcp', 'latin1').split('\n');
    const fieldsOf = (from?: number, to?: number) =>
      (rows.find(row => row.includes(` ${hex(from)} ${hex(to)} `)) ?? assert.fail()).trim().split(/\s+/);
    return { reactor: fieldsOf(remotePort, localPort), peer: fieldsOf(localPort, remotePort) };
  }

  /** Reads that many bytes, or everything to the end. */
  async take(count = Infinity): Promise<void> {
    for (const goal = this.taken + count; this.taken < goal; ) {
      const most = Math.min(goal - this.taken, Math.max(1, this.socket.readableLength));
      const part: Buffer | null = this.socket.read(most);
      if (part !== null) {
        isPattern(part, this.taken);
        this.taken += part.length;
      } else if (this.over === undefined) {
        await this.#change();
      } else {
        return assert.equal(goal, Infinity, `${this.over} after ${this.taken} bytes`);
      }
    }
  }

  /** Sends RST and drops unread bytes. */
  async reset(): Promise<void> {
    this.socket.resetAndDestroy();
    await this.close();
  }

  async close(): Promise<void> {
    this.socket.destroy();
    if (!this.socket.closed) await once(this.socket, 'close');
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

/** A socket that is closed has no address. */
function endpoint(host = '::', port = 0): string {
  return formatIpPort(parseIp(host) ?? assert.fail(host), 0, port);
}

/** Rejects if the connection fails. */
export async function dial(place: net.NetConnectOpts, owner: DisposableStack): Promise<Peer> {
  const peer = new Peer(net.connect({ ...place, allowHalfOpen: true }), owner);
  await once(peer.socket, 'connect');
  return peer;
}

export type Server = Awaited<ReturnType<typeof serve>>;

/** next() waits for the next connection. */
export async function serve(place: net.ListenOptions, owner: DisposableStack) {
  const queue: Peer[] = [];
  const server = net.createServer({ allowHalfOpen: true, pauseOnConnect: true }, socket => {
    queue.push(new Peer(socket, owner));
    server.emit('queued');
  });
  owner.defer(() => void server.close());
  server.listen(place);
  await once(server, 'listening');
  const next = async (): Promise<Peer> => {
    while (queue.length === 0) await once(server, 'queued');
    return queue.shift() as Peer;
  };
  return { port: (server.address() as net.AddressInfo).port, next };
}
