// The portable adapter of the I/O port, over node:net. Paused sockets provide readiness (`readable`, `drain`). Bytes
// that the kernel does not take at once wait in the socket's own buffer, at most a high-water mark plus one write. It
// copies every byte once more than the epoll adapter does.

import * as net from 'node:net';
import type { Duplex } from 'node:stream';
import type { MessagePort } from 'node:worker_threads';
import { formatIp, parseIp } from '../../wire/ip-address.ts';
import {
  AGAIN,
  BROKEN,
  DENIED,
  EXHAUSTED,
  FAILED,
  HUNG_UP,
  IN_USE,
  NOT_AVAILABLE,
  READABLE,
  REFUSED,
  RESET,
  type Reactor,
  type ReactorHandlers,
  type SocketAddress,
  TIMED_OUT,
  UNREACHABLE,
  WRITABLE,
} from './reactor.ts';

/** As much as libuv reads at a time. */
const HIGH_WATER_MARK = 64 * 1024;
/** Below this, a copy of its own is cheaper. */
const SMALL = 4096;
/** Copies kept for later writes: 4 MiB. */
const MOST_FREE = 64;
/** How long close() waits for a peer that does not take the written bytes. The kernel does the same. */
const LINGER_MS = 30_000;
/** How often, within the stall limit, waiting sockets are checked. */
const CHECKS = 4;
/** Beyond this, setTimeout() does not wait at all. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** The kernel caps it at net.core.somaxconn. */
const BACKLOG = 4096;

/** libuv supports SO_REUSEPORT with load balancing only here; elsewhere a single worker serves. */
export function canShareListeners(platform: NodeJS.Platform): boolean {
  return platform === 'linux' || platform === 'freebsd';
}

/** A connection that is more than a socket: TLS of our own on one, or a stream within one. */
export interface Stream {
  readonly duplex: Duplex;
  /** The socket that this connection has to itself. */
  readonly socket?: net.Socket;
  /** Calls `taken` when the bytes are no longer needed. */
  write(bytes: Uint8Array, taken: () => void): void;
  /** Sends FIN after the written bytes. */
  end(): void;
  /** As Reactor.reset() and Reactor.close(). */
  reset(): void;
  close(): void;
  /** Whether its end is a reset. */
  wasReset(): boolean;
}

interface OwnedSocket extends net.Socket {
  owner: NetReactor;
  handle: number;
  stream: Stream | undefined;
  /** Node's internal handle; see wasReset(), StallWatch and descriptorOf(). */
  readonly _handle?: NodeHandle | null;
}

interface NodeHandle {
  getpeername?(out: object): number;
  readonly writeQueueSize?: number;
  readonly fd?: number;
}

interface OpenListener {
  readonly server: net.Server;
  readonly waiting: net.Socket[];
}

interface NetOptions {
  readonly capacity: number;
  readonly share: boolean;
  /** Sets whether closing that descriptor sends a reset, as it should if this thread dies. */
  readonly setLinger?: (descriptor: number, isReset: boolean) => void;
}

export class NetReactor implements Reactor {
  /** A larger copy would be mapped and unmapped each time, and so would what TLS makes of it. */
  readonly readSize = HIGH_WATER_MARK;
  readonly capacity: number;
  readonly #share: boolean;
  readonly #setLinger: NonNullable<NetOptions['setLinger']>;
  readonly #sockets: (OwnedSocket | undefined)[] = [];
  readonly #listeners: (OpenListener | undefined)[] = [];
  /** The rest of a chunk that did not fit the reader's space. */
  readonly #rests: (Buffer | undefined)[] = [];
  readonly #ended: Uint8Array;
  readonly #failures: Int8Array;
  readonly #copies = new Copies();
  readonly #free: number[] = [];
  #fresh = 0;
  #handlers: ReactorHandlers | undefined;
  #control: MessagePort | undefined;
  #keepaliveMs = 0;
  readonly #stalls = new StallWatch(socket => {
    this.failed(socket.handle, TIMED_OUT);
    // destroy() would send FIN behind what the kernel has: to the peer, a stream cut in the middle would end in order.
    if (socket.stream === undefined) resetNow.call(socket);
    else socket.stream.reset();
    this.emit(socket.handle, FAILED | READABLE);
  });
  #alarm: NodeJS.Timeout | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;
  #turnAsked = false;
  #stopped = false;

  constructor(options: NetOptions) {
    this.capacity = options.capacity;
    this.#share = options.share;
    this.#setLinger = options.setLinger ?? (() => {});
    this.#ended = new Uint8Array(options.capacity);
    this.#failures = new Int8Array(options.capacity);
  }

  run(handlers: ReactorHandlers, control: MessagePort): void {
    this.#handlers = handlers;
    this.#control = control;
    control.on('message', message => handlers.message(message));
  }

  stop(): void {
    this.wakeAt(Number.POSITIVE_INFINITY);
    this.#handlers = undefined;
    this.#stopped = true;
    this.#stalls.limit(0);
    for (let handle = 0; handle < this.#fresh; handle++) this.close(handle);
    this.#control?.close();
  }

  now(): number {
    return performance.timeOrigin + performance.now();
  }

  wakeAt(time: number): void {
    if (time === this.#alarmAt || this.#stopped) return;
    clearTimeout(this.#alarm);
    this.#alarmAt = time;
    if (time === Number.POSITIVE_INFINITY) return;
    const delay = Math.max(1, Math.ceil(time - this.now()));
    this.#alarm = setTimeout(() => this.#ring(), Math.min(delay, LONGEST_TIMER_MS));
  }

  soon(): void {
    if (this.#turnAsked || this.#stopped) return;
    this.#turnAsked = true;
    setImmediate(() => {
      this.#turnAsked = false;
      this.#handlers?.turn();
    });
  }

  listen(address: SocketAddress, opened: (result: number) => void): void {
    if (address.descriptor === undefined) this.#listen(address, opened);
    else void this.#adopt(address, address.descriptor, opened);
  }

  /** libuv takes a descriptor over, so this reactor needs one of its own. */
  async #adopt(address: SocketAddress, shared: number, opened: (result: number) => void): Promise<void> {
    let descriptor: number;
    try {
      const { duplicate } = await import('./duplicate.ts');
      descriptor = duplicate(shared);
    } catch {
      return opened(BROKEN);
    }
    this.#listen({ ...address, descriptor }, opened);
  }

  #listen(address: SocketAddress, opened: (result: number) => void): void {
    const handle = this.#take();
    if (handle < 0) return opened(EXHAUSTED);
    const server = net.createServer({
      allowHalfOpen: true,
      pauseOnConnect: true,
      highWaterMark: HIGH_WATER_MARK,
    });
    const waiting: net.Socket[] = [];
    const failed = (error: NodeJS.ErrnoException) => {
      if (error.code === 'EAFNOSUPPORT' && address.dualStack) {
        // On a machine without IPv6, dual-stack means IPv4.
        this.#give(handle);
        return this.#listen({ address: ANY_IPV4, port: address.port }, opened);
      }
      this.#give(handle);
      opened(reactorErrorOf(error));
    };
    server.once('error', failed);
    server.on('connection', socket => {
      waiting.push(socket);
      this.#handlers?.event(handle, READABLE);
    });
    const place =
      address.descriptor !== undefined
        ? { fd: address.descriptor }
        : {
            host: formatIp(address.address, 0),
            port: address.port,
            ipv6Only: !address.dualStack,
            reusePort: this.#share,
          };
    server.listen({ ...place, backlog: BACKLOG }, () => {
      server.off('error', failed);
      if (this.#stopped) return void server.close();
      // Out of descriptors, libuv itself accepts and closes the surplus; the listener stays open.
      server.on('error', () => {});
      this.#listeners[handle] = { server, waiting };
      opened(handle);
    });
  }

  listeningPort(listener: number): number {
    const address = this.#listeners[listener]?.server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  accept(listener: number): number {
    const open = this.#listeners[listener];
    const socket = open?.waiting.shift();
    if (open === undefined || socket === undefined) return AGAIN;
    const handle = this.#take();
    if (handle < 0) {
      socket.destroy();
      return EXHAUSTED;
    }
    this.#watch(handle, socket);
    this.keepAlive(handle);
    return handle;
  }

  /** Node cannot reject handshakes: connections that complete after the last accept are reset. */
  quiesce(_listener: number): void {}

  connect(address: SocketAddress): number {
    const handle = this.#take();
    if (handle < 0) return EXHAUSTED;
    const socket = new net.Socket(socketOptions);
    this.#watch(handle, socket);
    socket.on('connect', onConnect);
    try {
      socket.connect({ host: formatIp(address.address, 0), port: address.port, autoSelectFamily: false });
    } catch {
      this.close(handle);
      return BROKEN;
    }
    return handle;
  }

  failure(handle: number): number {
    return this.#failures[handle] || BROKEN;
  }

  descriptor(handle: number): number {
    const socket = this.#sockets[handle];
    return descriptorOf(this.#listeners[handle]?.server ?? socket?.stream?.socket ?? socket);
  }

  peerAddress(handle: number, into: Uint8Array, at: number): number {
    const socket = this.#sockets[handle];
    return putAddress(socket?.remoteAddress, socket?.remotePort, into, at);
  }

  localAddress(handle: number, into: Uint8Array, at: number): number {
    const socket = this.#sockets[handle];
    return putAddress(socket?.localAddress, socket?.localPort, into, at);
  }

  keepalive(ms: number): void {
    this.#keepaliveMs = ms;
  }

  stalled(ms: number): void {
    this.#stalls.limit(ms);
  }

  keepAlive(handle: number): void {
    const socket = this.#sockets[handle];
    if (this.#keepaliveMs > 0) (socket?.stream ?? { socket }).socket?.setKeepAlive(true, this.#keepaliveMs);
  }

  /** Continues until the space is full or nothing is left: stopping after one chunk would look like the latter. */
  read(handle: number, into: Uint8Array, from: number, to: number): number {
    const socket = this.#sockets[handle];
    let at = from;
    while (at < to) {
      const chunk: Buffer | null | undefined = this.#rests[handle] ?? socket?.read();
      if (!chunk) break;
      const count = Math.min(chunk.length, to - at);
      chunk.copy(into, at, 0, count);
      this.#rests[handle] = count < chunk.length ? chunk.subarray(count) : undefined;
      at += count;
    }
    if (at > from) return at - from;
    if (this.#failures[handle] !== 0) return this.#failures[handle];
    return this.#ended[handle] === 1 ? 0 : AGAIN;
  }

  write(handle: number, bytes: Uint8Array, from: number, to: number): number {
    const socket = this.#sockets[handle];
    if (socket === undefined || !socket.writable) return this.#failures[handle] || BROKEN;
    if (socket.writableNeedDrain || socket.connecting) return AGAIN;
    this.#copies.write(socket.stream ?? socket, bytes, from, to);
    if (socket.writableLength > 0) this.#stalls.watch(socket);
    return to - from;
  }

  shutdown(handle: number): void {
    const socket = this.#sockets[handle];
    if (socket === undefined) return;
    this.#orderly(socket);
    (socket.stream ?? socket).end();
  }

  reset(handle: number): void {
    const socket = this.#disown(handle);
    if (socket === undefined) return;
    if (socket.stream !== undefined) {
      unwatch(socket);
      return socket.stream.reset();
    }
    // While connecting there is no peer to reset, and resetAndDestroy() would wait for the connection first.
    if (socket.connecting) socket.destroy();
    // libuv cannot reset during its shutdown, one turn of its loop: it fails with EINVAL and leaks the descriptor.
    else if (isShutting(socket)) socket.once('finish', resetNow);
    else resetNow.call(socket);
  }

  close(handle: number): void {
    const listener = this.#listeners[handle];
    if (listener !== undefined) {
      this.#listeners[handle] = undefined;
      this.#give(handle);
      listener.server.close();
      for (const socket of listener.waiting) socket.destroy();
      return;
    }
    const socket = this.#disown(handle);
    if (socket === undefined) return;
    this.#orderly(socket);
    if (socket.stream !== undefined) {
      unwatch(socket);
      return socket.stream.close();
    }
    if (socket.writableLength === 0 || socket.destroyed) {
      socket.destroy();
      return;
    }
    // Counted from now, whatever the peer still sends.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once('close', () => clearTimeout(timer));
    // Drop further input: left unread, it would turn the close into a reset. resume() has no effect while there is a
    // 'readable' listener.
    socket.off('readable', onReadable);
    socket.resume();
    socket.destroySoon();
  }

  give(handle: number): net.Socket {
    const rest = this.#rests[handle];
    const socket = this.#disown(handle) as OwnedSocket;
    unwatch(socket);
    if (rest !== undefined) socket.unshift(rest);
    return socket;
  }

  /** Takes over a connection; `first` is what was read from it. Returns the handle or EXHAUSTED. */
  adopt(connection: net.Socket | Stream, first?: Buffer): number {
    const handle = this.#take();
    if (handle < 0) return handle;
    this.#watch(handle, connection);
    if (first !== undefined && first.length > 0) this.#rests[handle] = first;
    return handle;
  }

  /** Takes over a connection whose bytes others read and write. Returns the handle or EXHAUSTED. */
  hold(socket: net.Socket): number {
    const handle = this.#take();
    if (handle >= 0) this.#own(handle, socket);
    return handle;
  }

  /** The bytes of that connection pass through a stream from now on, which owns the socket. `first` is read again. */
  wrap(handle: number, first: Uint8Array, open: (socket: net.Socket) => Stream): void {
    const socket = this.#sockets[handle] as OwnedSocket;
    unwatch(socket);
    socket.handle = -1;
    const rest = this.#rests[handle] ?? new Uint8Array(0);
    this.#rests[handle] = undefined;
    socket.unshift(Buffer.concat([first, rest]));
    this.#watch(handle, open(socket));
  }

  /** Lets go of a connection that others close. */
  leave(handle: number): void {
    const socket = this.#disown(handle);
    if (socket !== undefined) this.#orderly(socket);
  }

  /** What is closed from now on was meant to be. */
  #orderly(socket: OwnedSocket): void {
    const descriptor = descriptorOf(socket.stream === undefined ? socket : socket.stream.socket);
    if (descriptor >= 0) this.#setLinger(descriptor, false);
  }

  #watch(handle: number, connection: net.Socket | Stream): void {
    const isStream = 'duplex' in connection;
    const socket = (isStream ? connection.duplex : connection) as net.Socket;
    this.#own(handle, socket, isStream ? connection : undefined);
    socket.on('readable', onReadable);
    socket.on('end', onEnd);
    socket.on('drain', onDrain);
    socket.on('close', onClose);
    this.connected(handle);
  }

  /** What arrived while the thread was held up is reported first: it may put off the alarm. */
  #ring(): void {
    this.#alarm = undefined;
    setImmediate(() => this.#rung());
  }

  /** Timers count whole milliseconds of another clock, so they may fire early; and their delay is limited. */
  #rung(): void {
    const time = this.#alarmAt;
    if (this.#alarm !== undefined || time === Number.POSITIVE_INFINITY) return;
    this.#alarmAt = Number.POSITIVE_INFINITY;
    if (this.now() < time) this.wakeAt(time);
    else this.#handlers?.turn();
  }

  #own(handle: number, plain: net.Socket, stream?: Stream): void {
    const socket = plain as OwnedSocket;
    socket.owner = this;
    socket.stream = stream;
    socket.handle = handle;
    this.#sockets[handle] = socket;
    this.#ended[handle] = 0;
    this.#failures[handle] = 0;
    if (stream === undefined) socket.setNoDelay(true);
    socket.on('error', onError);
  }

  /** From here on events of that socket are dropped. */
  #disown(handle: number): OwnedSocket | undefined {
    const socket = this.#sockets[handle];
    if (socket === undefined) return undefined;
    socket.handle = -1;
    this.#sockets[handle] = undefined;
    this.#rests[handle] = undefined;
    this.#give(handle);
    return socket;
  }

  #take(): number {
    return this.#free.pop() ?? (this.#fresh < this.capacity ? this.#fresh++ : EXHAUSTED);
  }

  #give(handle: number): void {
    this.#free.push(handle);
  }

  /** For the socket listeners below only: they are shared functions, so that a socket needs no closures. */
  emit(handle: number, events: number): void {
    if (handle >= 0) this.#handlers?.event(handle, events);
  }

  connected(handle: number): void {
    const descriptor = this.descriptor(handle);
    if (descriptor >= 0) this.#setLinger(descriptor, true);
  }

  ended(handle: number): void {
    if (handle >= 0) this.#ended[handle] = 1;
  }

  hasFailed(handle: number): boolean {
    return handle < 0 || this.#failures[handle] !== 0;
  }

  failed(handle: number, error: number): void {
    if (handle >= 0) this.#failures[handle] = error;
  }
}

/**
 * Finds sockets whose kernel buffer has taken none of the waiting bytes for the limit: Node reports nothing else about
 * a peer that does not read. One timer checks only the sockets that have bytes waiting.
 */
class StallWatch {
  readonly #failed: (socket: OwnedSocket) => void;
  /** The waiting bytes at the last check, and since when that number is unchanged. */
  readonly #waiting = new Map<OwnedSocket, { left: number; since: number }>();
  #limitMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(failed: (socket: OwnedSocket) => void) {
    this.#failed = failed;
  }

  /** 0 turns it off. */
  limit(ms: number): void {
    this.#limitMs = ms;
    if (ms > 0) return;
    this.#waiting.clear();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  watch(socket: OwnedSocket): void {
    if (this.#limitMs === 0 || this.#waiting.has(socket)) return;
    this.#waiting.set(socket, { left: -1, since: 0 });
    this.#timer ??= setTimeout(() => this.#check(), this.#limitMs / CHECKS).unref();
  }

  #check(): void {
    const now = performance.now();
    for (const [socket, seen] of this.#waiting) {
      // writableLength includes the whole chunk being written; libuv knows how much of it is left.
      const left = socket.writableLength + (socket._handle?.writeQueueSize ?? 0);
      if (left === 0 || socket.handle < 0 || socket.destroyed) this.#waiting.delete(socket);
      else if (left !== seen.left) Object.assign(seen, { left, since: now });
      else if (now - seen.since >= this.#limitMs) {
        this.#waiting.delete(socket);
        this.#failed(socket);
      }
    }
    this.#timer =
      this.#waiting.size === 0 ? undefined : setTimeout(() => this.#check(), this.#limitMs / CHECKS).unref();
  }
}

/** Copies of bytes that wait in Node, since callers reuse theirs. Large ones are used again, so that no garbage grows. */
class Copies {
  readonly #free: Buffer[] = [];

  write(
    to: { write(bytes: Uint8Array, taken: () => void): unknown },
    bytes: Uint8Array,
    from: number,
    end: number,
  ): void {
    const length = end - from;
    if (length < SMALL || length > HIGH_WATER_MARK) {
      to.write(Uint8Array.prototype.slice.call(bytes, from, end), nothing);
      return;
    }
    const copy = this.#free.pop() ?? Buffer.allocUnsafeSlow(HIGH_WATER_MARK);
    copy.set(from === 0 && end === bytes.length ? bytes : bytes.subarray(from, end));
    to.write(copy.subarray(0, length), () => {
      if (this.#free.length < MOST_FREE) this.#free.push(copy);
    });
  }
}

const nothing = () => {};

/** `highWaterMark` is passed on to the stream, although the types of net.Socket omit it. */
const socketOptions: net.SocketConstructorOpts & { readonly highWaterMark: number } = {
  allowHalfOpen: true,
  highWaterMark: HIGH_WATER_MARK,
};

const ANY_IPV4 = new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0]);

function onReadable(this: net.Socket): void {
  const socket = this as OwnedSocket;
  socket.owner.emit(socket.handle, READABLE);
}

function onEnd(this: net.Socket): void {
  const socket = this as OwnedSocket;
  if (socket.stream?.wasReset() ?? wasReset(socket)) {
    socket.owner.failed(socket.handle, RESET);
    return socket.owner.emit(socket.handle, FAILED | READABLE);
  }
  socket.owner.ended(socket.handle);
  // HUNG_UP, since a rest may be unread: the read that takes it is short, and no event would follow.
  socket.owner.emit(socket.handle, READABLE | HUNG_UP);
}

/** It closed without an end or an error, or before it took all bytes: then its session has ended. */
function onClose(this: net.Socket): void {
  const socket = this as OwnedSocket;
  if (!socket.readableEnded || !socket.writableFinished) onError.call(socket, closedEarly);
}

function onConnect(this: net.Socket): void {
  const socket = this as OwnedSocket;
  if (socket.handle >= 0) socket.owner.connected(socket.handle);
  socket.owner.emit(socket.handle, WRITABLE);
}

function onDrain(this: net.Socket): void {
  const socket = this as OwnedSocket;
  socket.owner.emit(socket.handle, WRITABLE);
}

function onError(this: net.Socket, error: NodeJS.ErrnoException): void {
  const socket = this as OwnedSocket;
  if (socket.owner.hasFailed(socket.handle)) return;
  socket.owner.failed(socket.handle, reactorErrorOf(error));
  socket.owner.emit(socket.handle, FAILED | READABLE);
}

const closedEarly: NodeJS.ErrnoException = Object.assign(new Error('closed'), { code: 'ECONNRESET' });

function unwatch(socket: net.Socket): void {
  socket.off('readable', onReadable).off('end', onEnd).off('drain', onDrain).off('close', onClose);
}

/**
 * libuv reports a reset that comes together with bytes as an end (uv__stream_io() treats POLLHUP as the end after a
 * short read). After a real end the socket still has a peer, as long as we have not sent FIN as well.
 */
function wasReset(socket: OwnedSocket): boolean {
  return !socket.writableEnded && isCutOff(socket);
}

export function isCutOff(socket: net.Socket): boolean {
  return ((socket as OwnedSocket)._handle?.getpeername?.({}) ?? 0) !== 0;
}

function isShutting(socket: net.Socket): boolean {
  return socket.writableEnded && !socket.writableFinished && socket.writableLength === 0 && !socket.destroyed;
}

function resetNow(this: net.Socket): void {
  try {
    this.resetAndDestroy();
  } catch {
    // Node throws where libuv refuses, as it does while a socket is being shut down.
    this.destroy();
  }
}

function putAddress(
  text: string | undefined,
  port: number | undefined,
  into: Uint8Array,
  at: number,
): number {
  if (text === undefined || port === undefined) return -1;
  const zone = text.indexOf('%');
  const bytes = parseIp(zone < 0 ? text : text.slice(0, zone));
  if (bytes === undefined) return -1;
  into.set(bytes, at);
  return port;
}

/** The descriptor number of a Node socket or server; -1 if it has none, as before it connects. */
export function descriptorOf(socket: net.Socket | net.Server | undefined): number {
  return (socket as Pick<OwnedSocket, '_handle'> | undefined)?._handle?.fd ?? -1;
}

const errorCodes: Record<string, number> = {
  ECONNRESET: RESET,
  EPIPE: RESET,
  ECONNABORTED: RESET,
  ECONNREFUSED: REFUSED,
  EHOSTUNREACH: UNREACHABLE,
  ENETUNREACH: UNREACHABLE,
  ENETDOWN: UNREACHABLE,
  EHOSTDOWN: UNREACHABLE,
  ENONET: UNREACHABLE,
  ETIMEDOUT: TIMED_OUT,
  EMFILE: EXHAUSTED,
  ENFILE: EXHAUSTED,
  ENOBUFS: EXHAUSTED,
  ENOMEM: EXHAUSTED,
  EADDRINUSE: IN_USE,
  EACCES: DENIED,
  EPERM: DENIED,
  EADDRNOTAVAIL: NOT_AVAILABLE,
};

/** The reactor's code for a Node error. */
export function reactorErrorOf(error: NodeJS.ErrnoException): number {
  return errorCodes[error.code ?? ''] ?? BROKEN;
}
