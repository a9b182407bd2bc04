// The fast adapter of the I/O port: an edge-triggered epoll loop over libc. A handle is a file descriptor, and a call
// is a system call. run() blocks its thread until stop() or until the control thread sets the stop flag
// (thread-control.ts); an eventfd announces that flag and messages.
//
// - A descriptor is registered once, for all events, when waiting for it first makes sense: after the first read, or right
//   after connect(). Bytes that arrive before that need no event.
// - An event carries the descriptor's generation: events for a descriptor that was closed and reused are dropped.

import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { ThreadControl } from '../shared/thread-control.ts';
import { errorOfErrno } from './errno-error.ts';
import {
  AF_INET6,
  EAFNOSUPPORT,
  EAGAIN,
  EFD_CLOEXEC,
  EFD_NONBLOCK,
  EINPROGRESS,
  EINTR,
  EPOLL_CTL_ADD,
  EPOLL_CTL_DEL,
  EPOLL_CTL_MOD,
  EPOLLERR,
  EPOLLET,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLRDHUP,
  F_DUPFD_CLOEXEC,
  F_SETFL,
  filterProgram,
  IPPROTO_IPV6,
  IPPROTO_TCP,
  IPV6_V6ONLY,
  type Libc,
  MSG_NOSIGNAL,
  SHUT_WR,
  SO_ATTACH_FILTER,
  SO_ERROR,
  SO_KEEPALIVE,
  SO_REUSEADDR,
  SO_REUSEPORT,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_NODELAY,
  TCP_USER_TIMEOUT,
} from './libc.ts';
import {
  AGAIN,
  BROKEN,
  EXHAUSTED,
  FAILED,
  HUNG_UP,
  READABLE,
  type Reactor,
  type ReactorHandlers,
  type SocketAddress,
  WRITABLE,
} from './reactor.ts';
import { setLinger } from './set-linger.ts';
import { readSockaddr, SOCKADDR_BYTES, type Sockaddr, sockaddrOf } from './sockaddr.ts';

/** The kernel caps it at net.core.somaxconn. */
const BACKLOG = 4096;
/** Events taken from the kernel at a time. */
const EVENTS = 512;
/** struct epoll_event is packed on x86-64 only: 12 bytes there, 16 elsewhere. */
const PACKED_WORDS = 3;
const ALIGNED_WORDS = 4;
const EVERYTHING = (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) >>> 0;
/** epoll_wait() takes an int; a day is as good as forever. */
const FOREVER_MS = 86_400_000;

/** States of a descriptor in this reactor. */
const NOT_OURS = 0;
/** Open, not registered for events yet. */
const OPEN = 1;
const REGISTERED = 2;
const LISTENING = 3;

export interface EpollOptions {
  readonly capacity: number;
  /** Other threads open the same listeners. */
  readonly share: boolean;
  readonly libc: Libc;
  /** `process.arch`: the layout of struct epoll_event depends on it. */
  readonly arch: string;
  readonly control: ThreadControl;
}

export class EpollReactor implements Reactor {
  readonly readSize = Infinity;
  readonly capacity: number;
  /** The eventfd that wakes run(). */
  readonly wakeFd: number;
  readonly epollFd: number;
  readonly #libc: Libc;
  readonly #thread: ThreadControl;
  readonly #share: boolean;
  readonly #generations: Uint32Array;
  /**
   * Shared, so that the control thread knows which descriptors a dead thread has left open. It changes right beside the
   * system call that opens or closes one, with no call between: see thread-control.ts.
   */
  readonly #kinds: Uint8Array;
  readonly #words: number;
  readonly #eventBytes: Uint8Array;
  readonly #events: Uint32Array;
  readonly #controlBytes: Uint8Array;
  readonly #control: Uint32Array;
  readonly #address = Buffer.alloc(SOCKADDR_BYTES);
  // Arguments passed by address, each with a view for libc and one for us.
  readonly #length = new Int32Array(1);
  readonly #lengthBytes = new Uint8Array(this.#length.buffer);
  readonly #error = new Int32Array(1);
  readonly #errorBytes = new Uint8Array(this.#error.buffer);
  readonly #option = new Int32Array(1);
  readonly #optionBytes = new Uint8Array(this.#option.buffer);
  readonly #wakeBytes = Buffer.alloc(8);
  readonly #listeners = new Set<number>();
  readonly #sockaddrs = new WeakMap<SocketAddress, Sockaddr>();
  /** The descriptor whose peer address is still in #address. */
  #lastAccepted = -1;
  #handlers: ReactorHandlers | undefined;
  #port: MessagePort | undefined;
  #now = 0;
  /** Seconds. */
  #keepalive = 0;
  #stalledMs = 0;
  #alarmAt = Number.POSITIVE_INFINITY;
  #turnAsked = false;

  constructor({ capacity, share, libc, arch, control }: EpollOptions) {
    this.capacity = capacity;
    this.#thread = control;
    this.#share = share;
    this.#libc = libc;
    this.#generations = new Uint32Array(capacity);
    this.#kinds = control.held;
    this.#words = arch === 'x64' ? PACKED_WORDS : ALIGNED_WORDS;
    this.#events = new Uint32Array(EVENTS * this.#words);
    this.#eventBytes = new Uint8Array(this.#events.buffer);
    this.#control = new Uint32Array(this.#words);
    this.#controlBytes = new Uint8Array(this.#control.buffer);
    this.epollFd = must(libc, libc.epoll_create1(EFD_CLOEXEC), 'epoll_create1');
    this.wakeFd = must(libc, libc.eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), 'eventfd');
    // Level-triggered, so that a wake-up during the previous one is not lost.
    must(libc, this.#epoll(EPOLL_CTL_ADD, this.wakeFd, EPOLLIN), 'epoll_ctl');
    control.publish(this.wakeFd, this.epollFd);
    this.#tick();
  }

  run(handlers: ReactorHandlers, control: MessagePort): void {
    this.#handlers = handlers;
    this.#port = control;
    this.#receive();
    while (this.#handlers !== undefined) this.#turn();
  }

  /** Leaves `wakeFd` and `epollFd` open, since others may still write to `wakeFd`: a closed number could be reused. */
  stop(): void {
    this.#handlers = undefined;
    for (let fd = 0; fd < this.capacity; fd++) if (this.#kinds[fd] !== NOT_OURS) this.close(fd);
    this.#port?.close();
  }

  now(): number {
    return this.#now;
  }

  wakeAt(time: number): void {
    this.#alarmAt = time;
  }

  soon(): void {
    this.#turnAsked = true;
  }

  listen(address: SocketAddress, opened: (result: number) => void): void {
    opened(this.#listen(address));
  }

  listeningPort(listener: number): number {
    this.#length[0] = SOCKADDR_BYTES;
    this.#lastAccepted = -1;
    if (this.#libc.getsockname(listener, this.#address, this.#lengthBytes) < 0) return 0;
    return readSockaddr(this.#address, scratch, 0);
  }

  accept(listener: number): number {
    for (;;) {
      this.#length[0] = SOCKADDR_BYTES;
      const fd = this.#libc.accept4(listener, this.#address, this.#lengthBytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        if (fd >= this.capacity) {
          this.#libc.close(fd);
          return EXHAUSTED;
        }
        this.#kinds[fd] = OPEN;
        this.#lastAccepted = fd;
        return fd;
      }
      const errno = this.#libc.errno();
      if (errno === EAGAIN) return AGAIN;
      const error = errorOfErrno(errno);
      if (error === EXHAUSTED) return EXHAUSTED;
      // accept(2) also reports errors of connections that are already gone; the next one may be fine.
      if (error === BROKEN && errno !== EINTR) return AGAIN;
    }
  }

  quiesce(listener: number): void {
    this.#libc.setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, filterProgram(noHandshakes), 16);
  }

  connect(address: SocketAddress): number {
    const target = this.#sockaddr(address);
    const fd = this.#libc.socket(target.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errorOfErrno(this.#libc.errno());
    if (fd >= this.capacity) {
      this.#libc.close(fd);
      return EXHAUSTED;
    }
    this.#kinds[fd] = OPEN;
    this.#set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (this.#libc.connect(fd, target.bytes, target.bytes.length) < 0) {
      const errno = this.#libc.errno();
      if (errno !== EINPROGRESS && errno !== EINTR) {
        this.close(fd);
        return errno === EAGAIN ? EXHAUSTED : errorOfErrno(errno);
      }
    }
    if (this.#register(fd)) return fd;
    this.close(fd);
    return EXHAUSTED;
  }

  failure(handle: number): number {
    this.#length[0] = 4;
    const failed =
      this.#libc.getsockopt(handle, SOL_SOCKET, SO_ERROR, this.#errorBytes, this.#lengthBytes) < 0;
    return failed ? BROKEN : errorOfErrno(this.#error[0]);
  }

  descriptor(handle: number): number {
    return handle;
  }

  peerAddress(handle: number, into: Uint8Array, at: number): number {
    if (handle !== this.#lastAccepted) {
      this.#length[0] = SOCKADDR_BYTES;
      this.#lastAccepted = -1;
      if (this.#libc.getpeername(handle, this.#address, this.#lengthBytes) < 0) return -1;
    }
    return readSockaddr(this.#address, into, at);
  }

  localAddress(handle: number, into: Uint8Array, at: number): number {
    this.#length[0] = SOCKADDR_BYTES;
    this.#lastAccepted = -1;
    if (this.#libc.getsockname(handle, this.#address, this.#lengthBytes) < 0) return -1;
    return readSockaddr(this.#address, into, at);
  }

  keepalive(ms: number): void {
    this.#keepalive = Math.ceil(ms / 1000);
    for (const fd of this.#listeners) this.#setKeepalive(fd);
  }

  /**
   * tcp(7): the time counts from the first unacknowledged byte and, since Linux 5.11, also from the first probe of a
   * closed window. It also overrides the number of keepalive probes after which a peer is considered dead.
   */
  stalled(ms: number): void {
    this.#stalledMs = ms;
    // Accepted connections inherit from their listener.
    for (const fd of this.#listeners) this.#set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms);
  }

  keepAlive(handle: number): void {
    if (this.#keepalive > 0) this.#setKeepalive(handle);
    if (this.#stalledMs > 0) this.#set(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, this.#stalledMs);
  }

  read(handle: number, into: Uint8Array, from: number, to: number): number {
    const count = this.#libc.recv(handle, from === 0 ? into : into.subarray(from), to - from, 0);
    if (count === 0) return 0;
    if (count < 0) {
      const errno = this.#libc.errno();
      if (errno === EINTR) return this.read(handle, into, from, to);
      if (errno !== EAGAIN) return errorOfErrno(errno);
    }
    // An event is needed from here on, if only for a reset: the caller may read no further, although there is more.
    // Registering reports bytes that arrived in between.
    if (this.#kinds[handle] !== REGISTERED && !this.#register(handle)) return EXHAUSTED;
    return count < 0 ? AGAIN : count;
  }

  write(handle: number, bytes: Uint8Array, from: number, to: number): number {
    const count = this.#libc.send(handle, from === 0 ? bytes : bytes.subarray(from), to - from, MSG_NOSIGNAL);
    if (count === to - from) return count;
    if (count < 0) {
      const errno = this.#libc.errno();
      if (errno === EINTR) return this.write(handle, bytes, from, to);
      if (errno !== EAGAIN) return errorOfErrno(errno);
    }
    if (this.#kinds[handle] !== REGISTERED && !this.#register(handle)) return EXHAUSTED;
    return count < 0 ? AGAIN : count;
  }

  shutdown(handle: number): void {
    this.#libc.shutdown(handle, SHUT_WR);
  }

  reset(handle: number): void {
    if (this.#kinds[handle] === NOT_OURS) return;
    setLinger(this.#libc, handle, true);
    this.close(handle);
  }

  give(handle: number, owned: Uint8Array): number {
    if (this.#kinds[handle] === REGISTERED) this.#epoll(EPOLL_CTL_DEL, handle, 0);
    if (handle === this.#lastAccepted) this.#lastAccepted = -1;
    this.#generations[handle]++;
    setLinger(this.#libc, handle, true);
    this.#kinds[handle] = NOT_OURS;
    owned[handle] = 1;
    return handle;
  }

  /** Closing removes the descriptor from the epoll set; events already fetched carry an older generation. */
  close(handle: number): void {
    if (this.#kinds[handle] === NOT_OURS) return;
    if (this.#kinds[handle] === LISTENING) this.#forget(handle);
    if (handle === this.#lastAccepted) this.#lastAccepted = -1;
    this.#generations[handle]++;
    const { close } = this.#libc;
    this.#kinds[handle] = NOT_OURS;
    close(handle);
  }

  #turn(): void {
    const count = this.#libc.epoll_wait(this.epollFd, this.#eventBytes, EVENTS, this.#timeout());
    // Any error except a signal means that the epoll set is broken: the thread ends and is restarted.
    if (count < 0 && this.#libc.errno() !== EINTR) must(this.#libc, count, 'epoll_wait');
    this.#tick();
    const events = this.#events;
    const words = this.#words;
    for (let at = 0; at < count * words; at += words) {
      const fd = events[at + words - 2];
      if (fd === this.wakeFd) {
        this.#receive();
      } else if (this.#generations[fd] === events[at + words - 1]) {
        this.#handlers?.event(fd, readinessOf(events[at]));
      }
    }
    if (!this.#turnAsked && this.#now < this.#alarmAt) return;
    this.#turnAsked = false;
    this.#alarmAt = Number.POSITIVE_INFINITY;
    this.#handlers?.turn();
  }

  #timeout(): number {
    if (this.#turnAsked) return 0;
    const wait = this.#alarmAt - this.#now;
    return wait > FOREVER_MS ? -1 : Math.max(0, Math.ceil(wait));
  }

  #tick(): void {
    this.#now = performance.timeOrigin + performance.now();
  }

  #receive(): void {
    this.#libc.read(this.wakeFd, this.#wakeBytes, this.#wakeBytes.length);
    if (this.#thread.isStopping) {
      // The control thread closes all open connections once this thread has ended.
      this.#handlers = undefined;
      this.#port?.close();
      return;
    }
    while (this.#port !== undefined && this.#handlers !== undefined) {
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) return;
      this.#handlers.message(received.message);
    }
  }

  #listen(address: SocketAddress): number {
    if (address.descriptor !== undefined) return this.#adopt(address.descriptor);
    const target = this.#sockaddr(address);
    const libc = this.#libc;
    const fd = libc.socket(target.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || fd >= this.capacity) {
      if (fd >= 0) libc.close(fd);
      const errno = libc.errno();
      // On a machine without IPv6, dual-stack means IPv4.
      if (fd < 0 && errno === EAFNOSUPPORT && address.dualStack) {
        return this.#listen({ address: ANY_IPV4, port: address.port });
      }
      return fd < 0 ? errorOfErrno(errno) : EXHAUSTED;
    }
    this.#kinds[fd] = OPEN;
    this.#set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (this.#share) this.#set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (target.family === AF_INET6) this.#set(fd, IPPROTO_IPV6, IPV6_V6ONLY, address.dualStack ? 0 : 1);
    this.#set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    this.#setKeepalive(fd);
    this.#set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, this.#stalledMs);
    const failed = libc.bind(fd, target.bytes, target.bytes.length) < 0 || libc.listen(fd, BACKLOG) < 0;
    const error = failed ? errorOfErrno(libc.errno()) : 0;
    if (failed || !this.#register(fd)) {
      this.close(fd);
      return failed ? error : EXHAUSTED;
    }
    this.#kinds[fd] = LISTENING;
    this.#listeners.add(fd);
    return fd;
  }

  #adopt(descriptor: number): number {
    const fd = this.#libc.fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return errorOfErrno(this.#libc.errno());
    if (fd >= this.capacity) {
      this.#libc.close(fd);
      return EXHAUSTED;
    }
    this.#kinds[fd] = OPEN;
    this.#libc.fcntl(fd, F_SETFL, SOCK_NONBLOCK);
    this.#set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    this.#setKeepalive(fd);
    this.#set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, this.#stalledMs);
    if (!this.#register(fd)) {
      this.close(fd);
      return EXHAUSTED;
    }
    this.#kinds[fd] = LISTENING;
    this.#listeners.add(fd);
    return fd;
  }

  #sockaddr(address: SocketAddress): Sockaddr {
    let known = this.#sockaddrs.get(address);
    if (known === undefined) {
      known = sockaddrOf(address);
      this.#sockaddrs.set(address, known);
    }
    return known;
  }

  #register(fd: number): boolean {
    if (!this.#watch(fd, EVERYTHING)) return false;
    this.#kinds[fd] = REGISTERED;
    return true;
  }

  /** Others may have the listener open: then close() would leave it in the epoll set. */
  #forget(listener: number): void {
    this.#listeners.delete(listener);
    this.#libc.epoll_ctl(this.epollFd, EPOLL_CTL_DEL, listener, this.#controlBytes);
  }

  /** Registers the descriptor for exactly those events. */
  #watch(fd: number, events: number): boolean {
    return this.#epoll(this.#kinds[fd] === OPEN ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, events) === 0;
  }

  #epoll(operation: number, fd: number, events: number): number {
    this.#control[0] = events;
    this.#control[this.#words - 2] = fd;
    this.#control[this.#words - 1] = this.#generations[fd];
    return this.#libc.epoll_ctl(this.epollFd, operation, fd, this.#controlBytes);
  }

  #setKeepalive(fd: number): void {
    const seconds = this.#keepalive;
    this.#set(fd, SOL_SOCKET, SO_KEEPALIVE, seconds > 0 ? 1 : 0);
    if (seconds === 0) return;
    this.#set(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    this.#set(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  }

  #set(fd: number, level: number, name: number, value: number): void {
    this.#option[0] = value;
    this.#libc.setsockopt(fd, level, name, this.#optionBytes, 4);
  }
}

const ANY_IPV4 = new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0]);
const scratch = new Uint8Array(16);
/**
 * A socket filter (classic BPF: code, jt, jf, k) that drops a SYN and passes everything else. Its data start at the TCP
 * header. Without it, handshakes that complete between the last accept and close() would be reset.
 */
const noHandshakes = Buffer.from(
  [
    '300000000d000000', // load the flags byte
    '4500000110000000', // is ACK set?
    '06000000ffffffff', // yes: keep the packet
    '0600000000000000', // no: drop it
  ].join(''),
  'hex',
);

function readinessOf(events: number): number {
  let readiness = 0;
  if ((events & EPOLLIN) !== 0) readiness |= READABLE;
  if ((events & EPOLLOUT) !== 0) readiness |= WRITABLE;
  if ((events & EPOLLRDHUP) !== 0) readiness |= READABLE | HUNG_UP;
  if ((events & EPOLLHUP) !== 0) readiness |= READABLE | HUNG_UP;
  if ((events & EPOLLERR) !== 0) readiness |= READABLE | FAILED;
  return readiness;
}

function must(libc: Libc, result: number, name: string): number {
  if (result < 0) throw new Error(`${name} failed with errno ${libc.errno()}`);
  return result;
}
