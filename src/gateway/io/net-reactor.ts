// The portable adapter of the I/O port, over node:net. Paused sockets give readiness (`readable`, `drain`);
// what a write cannot hand to the kernel at once waits in the socket's own buffer, at most a high-water mark
// and one write more. It copies once more than the kernel would: portable first, fast is another adapter's job.

import * as net from 'node:net';
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
/** How long close() waits for a peer that does not take what was written before. The kernel does the same. */
const LINGER_MS = 30_000;
/** How often it is looked, within the time that a peer may take nothing, whether it does. */
const LOOKS = 4;
/** More, and setTimeout() does not wait at all. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** The kernel cuts it to net.core.somaxconn. */
const BACKLOG = 4096;

/** libuv has SO_REUSEPORT with load balancing only here; elsewhere one worker serves. */
export function canShareListeners(platform: NodeJS.Platform): boolean {
  return platform === 'linux' || platform === 'freebsd';
}

interface OwnedSocket extends net.Socket {
  owner: NetReactor;
  handle: number;
  /** Without an address, and not gone for that. */
  isUnix: boolean;
  /** Node's own; see wasReset(), StallWatch and descriptorOf(). */
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
  readonly isUnix: boolean;
}

export class NetReactor implements Reactor {
  readonly capacity: number;
  readonly #share: boolean;
  readonly #sockets: (OwnedSocket | undefined)[] = [];
  readonly #listeners: (OpenListener | undefined)[] = [];
  /** The part of a chunk that did not fit the reader's space. */
  readonly #rests: (Buffer | undefined)[] = [];
  readonly #ended: Uint8Array;
  readonly #failures: Int8Array;
  readonly #free: number[] = [];
  #fresh = 0;
  #handlers: ReactorHandlers | undefined;
  #control: MessagePort | undefined;
  #keepaliveMs = 0;
  readonly #stalls = new StallWatch(socket => {
    this.failed(socket.handle, TIMED_OUT);
    socket.destroy();
    this.emit(socket.handle, FAILED | READABLE);
  });
  #alarm: NodeJS.Timeout | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;
  #turnAsked = false;
  #stopped = false;

  constructor(options: { readonly capacity: number; readonly share: boolean }) {
    this.capacity = options.capacity;
    this.#share = options.share;
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
        // A machine without IPv6: dual-stack is IPv4 there.
        this.#give(handle);
        return this.listen({ address: ANY_IPV4, port: address.port }, opened);
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
      address.path === undefined
        ? {
            host: formatIp(address.address, 0),
            port: address.port,
            ipv6Only: !address.dualStack,
            reusePort: this.#share,
          }
        : { path: address.path };
    server.listen({ ...place, backlog: BACKLOG }, () => {
      server.off('error', failed);
      if (this.#stopped) return void server.close();
      // Out of descriptors libuv accepts and closes the surplus by itself; the listener stays.
      server.on('error', () => {});
      this.#listeners[handle] = { server, waiting, isUnix: address.path !== undefined };
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
    this.#own(handle, socket, open.isUnix);
    this.keepAlive(handle);
    return handle;
  }

  /** Node has no way to turn handshakes away: what comes after the last accept is reset, as everywhere. */
  quiesce(_listener: number): void {}

  connect(address: SocketAddress): number {
    const handle = this.#take();
    if (handle < 0) return EXHAUSTED;
    const place =
      address.path === undefined
        ? { host: formatIp(address.address, 0), port: address.port, autoSelectFamily: false }
        : { path: address.path };
    const socket = new net.Socket(socketOptions);
    this.#own(handle, socket, address.path !== undefined);
    socket.on('connect', onConnect);
    try {
      socket.connect(place);
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
    return descriptorOf(this.#sockets[handle]);
  }

  peerAddress(handle: number, into: Uint8Array, at: number): number {
    const socket = this.#sockets[handle];
    return putAddress(socket, socket?.remoteAddress, socket?.remotePort, into, at);
  }

  localAddress(handle: number, into: Uint8Array, at: number): number {
    const socket = this.#sockets[handle];
    return putAddress(socket, socket?.localAddress, socket?.localPort, into, at);
  }

  keepalive(ms: number): void {
    this.#keepaliveMs = ms;
  }

  stalled(ms: number): void {
    this.#stalls.limit(ms);
  }

  keepAlive(handle: number): void {
    if (this.#keepaliveMs > 0) this.#sockets[handle]?.setKeepAlive(true, this.#keepaliveMs);
  }

  /** Goes on until the space is full or nothing is left: a chunk or a rest alone would look like the latter. */
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
    socket.write(Uint8Array.prototype.slice.call(bytes, from, to));
    if (socket.writableLength > 0) this.#stalls.watch(socket);
    return to - from;
  }

  shutdown(handle: number): void {
    this.#sockets[handle]?.end();
  }

  /** Node gives no descriptor away that it goes on using. */
  lend(): number {
    return BROKEN;
  }

  discard(): void {}

  reset(handle: number): void {
    const socket = this.#disown(handle);
    if (socket === undefined) return;
    // While connecting there is nobody to reset, and resetAndDestroy() would wait for the connection first.
    if (socket.connecting) socket.destroy();
    // libuv cannot reset (EINVAL, and the descriptor leaks) while its shutdown is under way: a turn of its loop.
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
    if (socket.writableLength === 0 || socket.destroyed) {
      socket.destroy();
      return;
    }
    socket.setTimeout(LINGER_MS, () => socket.destroy());
    // What still comes is dropped: left unread it would turn the close into a reset. As long as somebody listens
    // for 'readable', resume() does nothing.
    socket.off('readable', onReadable);
    socket.resume();
    socket.destroySoon();
  }

  /** Timers count whole milliseconds of another clock, so they may be early; and they cannot wait for long. */
  #ring(): void {
    const time = this.#alarmAt;
    this.#alarmAt = Number.POSITIVE_INFINITY;
    if (this.now() < time) this.wakeAt(time);
    else this.#handlers?.turn();
  }

  #own(handle: number, plain: net.Socket, isUnix: boolean): void {
    const socket = plain as OwnedSocket;
    socket.owner = this;
    socket.isUnix = isUnix;
    socket.handle = handle;
    this.#sockets[handle] = socket;
    this.#ended[handle] = 0;
    this.#failures[handle] = 0;
    socket.setNoDelay(true);
    socket.on('readable', onReadable);
    socket.on('end', onEnd);
    socket.on('drain', onDrain);
    socket.on('error', onError);
  }

  /** From here on events of that socket go nowhere. */
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

  /** For the socket listeners below only: they are shared functions, so that a socket costs no closures. */
  emit(handle: number, events: number): void {
    if (handle >= 0) this.#handlers?.event(handle, events);
  }

  ended(handle: number): void {
    if (handle >= 0) this.#ended[handle] = 1;
  }

  failed(handle: number, word: number): void {
    if (handle >= 0) this.#failures[handle] = word;
  }
}

/**
 * Finds sockets whose kernel has taken nothing for so long of what waits for it: that is all that Node tells of a peer that
 * does not read. One timer looks at those that have something waiting, and at no others.
 */
class StallWatch {
  readonly #failed: (socket: OwnedSocket) => void;
  /** How much waited when it was last looked at, and since when it has been as much. */
  readonly #waiting = new Map<OwnedSocket, { left: number; since: number }>();
  #limitMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(failed: (socket: OwnedSocket) => void) {
    this.#failed = failed;
  }

  /** 0 is none. */
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
    this.#timer ??= setTimeout(() => this.#look(), this.#limitMs / LOOKS).unref();
  }

  #look(): void {
    const now = performance.now();
    for (const [socket, seen] of this.#waiting) {
      // The chunk that is under way counts until all of it is taken; what is left of it libuv knows.
      const left = socket.writableLength + (socket._handle?.writeQueueSize ?? 0);
      if (left === 0 || socket.handle < 0 || socket.destroyed) this.#waiting.delete(socket);
      else if (left !== seen.left) Object.assign(seen, { left, since: now });
      else if (now - seen.since >= this.#limitMs) {
        this.#waiting.delete(socket);
        this.#failed(socket);
      }
    }
    this.#timer =
      this.#waiting.size === 0 ? undefined : setTimeout(() => this.#look(), this.#limitMs / LOOKS).unref();
  }
}

/** `highWaterMark` is passed on to the stream, though the types of net.Socket do not know it. */
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
  if (wasReset(socket)) {
    socket.owner.failed(socket.handle, RESET);
    return socket.owner.emit(socket.handle, FAILED | READABLE);
  }
  socket.owner.ended(socket.handle);
  // HUNG_UP, for a rest may be unread: the read that takes it is short, and no event would follow that.
  socket.owner.emit(socket.handle, READABLE | HUNG_UP);
}

function onConnect(this: net.Socket): void {
  const socket = this as OwnedSocket;
  socket.owner.emit(socket.handle, WRITABLE);
}

function onDrain(this: net.Socket): void {
  const socket = this as OwnedSocket;
  socket.owner.emit(socket.handle, WRITABLE);
}

function onError(this: net.Socket, error: NodeJS.ErrnoException): void {
  const socket = this as OwnedSocket;
  socket.owner.failed(socket.handle, reactorErrorOf(error));
  socket.owner.emit(socket.handle, FAILED | READABLE);
}

/**
 * libuv tells of a reset as of an end when it comes together with bytes (uv__stream_io() takes POLLHUP for the end
 * after a short read). After a real end the socket still has a peer, as long as we have not sent FIN as well.
 */
function wasReset(socket: OwnedSocket): boolean {
  return !socket.writableEnded && (socket._handle?.getpeername?.({}) ?? 0) !== 0;
}

function isShutting(socket: net.Socket): boolean {
  return socket.writableEnded && !socket.writableFinished && socket.writableLength === 0 && !socket.destroyed;
}

function resetNow(this: net.Socket): void {
  try {
    this.resetAndDestroy();
  } catch {
    // A unix socket knows no reset.
    this.destroy();
  }
}

function putAddress(
  socket: OwnedSocket | undefined,
  text: string | undefined,
  port: number | undefined,
  into: Uint8Array,
  at: number,
): number {
  if (socket?.isUnix) {
    into.fill(0, at, at + 16);
    return 0;
  }
  if (text === undefined || port === undefined) return -1;
  const zone = text.indexOf('%');
  const bytes = parseIp(zone < 0 ? text : text.slice(0, zone));
  if (bytes === undefined) return -1;
  into.set(bytes, at);
  return port;
}

/** The process's number for a socket of Node's; -1 where it has none, as before it connects. */
export function descriptorOf(socket: net.Socket | undefined): number {
  return (socket as OwnedSocket | undefined)?._handle?.fd ?? -1;
}

const words: Record<string, number> = {
  ECONNRESET: RESET,
  EPIPE: RESET,
  ECONNABORTED: RESET,
  ECONNREFUSED: REFUSED,
  ENOENT: REFUSED,
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

/** The reactor's word for an error of Node's. */
export function reactorErrorOf(error: NodeJS.ErrnoException): number {
  return words[error.code ?? ''] ?? BROKEN;
}
