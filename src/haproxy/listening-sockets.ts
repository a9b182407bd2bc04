// The listening sockets of the HAProxy engine: opened by us, accepted from by HAProxy, which gets duplicates. Linux only.
// A dual-stack listener is two sockets, so that HAProxy sees IPv4 clients with IPv4 addresses.

import { closeSync } from 'node:fs';
import {
  closeSocket,
  type InheritedSocket,
  type InheritedSockets,
} from '../gateway/control/inherited-sockets.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import type { Listener } from '../gateway/control/open-listeners.ts';
import { type OpenListener, placesOf } from '../gateway/control/open-listeners.ts';
import { errorOfErrno } from '../gateway/io/errno-error.ts';
import {
  AF_INET6,
  EADDRINUSE,
  EAFNOSUPPORT,
  IPPROTO_IPV6,
  IPV6_V6ONLY,
  type Libc,
  loadLibc,
  SO_REUSEADDR,
  SO_REUSEPORT,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
} from '../gateway/io/libc.ts';
import type { SocketAddress } from '../gateway/io/reactor.ts';
import { readSockaddr, SOCKADDR_BYTES, sockaddrOf } from '../gateway/io/sockaddr.ts';
import { formatIpPort, parseIp } from '../wire/ip-address.ts';

const BACKLOG = 4096;
/** shutdown(2). */
const SHUT_RDWR = 2;
/** For port 0: how many free ports are tried when the other family has them in use. */
const FREE_PORT_TRIES = 5;

interface Opened extends InheritedSocket {
  readonly listener: Listener;
}

export class ListeningSockets implements Disposable {
  readonly #libc: Libc = loadLibc();
  readonly #inherited: InheritedSockets;
  #open: readonly Opened[] = [];

  constructor(inherited: InheritedSockets) {
    this.#inherited = inherited;
  }

  get addresses(): readonly OpenListener[] {
    return this.#open.map(({ listener, address }) => ({
      on: listener.on,
      address: formatIpPort(address.address, 0, address.port),
    }));
  }

  get sockets(): readonly InheritedSocket[] {
    return this.#open.map(({ address, on, descriptors, isKept }) => ({ address, on, descriptors, isKept }));
  }

  /** By listener: its sockets. */
  get descriptors(): readonly (readonly number[])[] {
    return this.#open.map(({ descriptors }) => descriptors);
  }

  /** Whether these are open, in this order, and no others. */
  isOpen(listeners: readonly Listener[]): boolean {
    const places = placesOf(listeners);
    const open = placesOf(this.#open.map(({ listener }) => listener));
    return places.length === open.length && places.every((place, index) => place === open[index]);
  }

  /**
   * Opens those that are not open yet, and throws a ListenError if one cannot be; nothing has changed then. Otherwise
   * `keep` leaves exactly these open, and `undo` those that were open before.
   */
  open(listeners: readonly Listener[]): { readonly keep: () => void; readonly undo: () => void } {
    const before = this.#open;
    const known = new Map(
      placesOf(before.map(({ listener }) => listener)).map((place, i) => [place, before[i]]),
    );
    const fresh: Opened[] = [];
    const close = (sockets: readonly Opened[]) => {
      for (const socket of sockets) closeSocket(socket);
    };
    try {
      const places = placesOf(listeners);
      this.#open = listeners.map((listener, index) => {
        const old = known.get(places[index]);
        if (old !== undefined) return { ...old, listener };
        const opened = this.#adopt(listener) ?? this.#openOne(listener);
        fresh.push(opened);
        return opened;
      });
    } catch (error) {
      close(fresh);
      throw error;
    }
    const after = this.#open;
    const isKept = (socket: Opened) => after.some(({ descriptors }) => descriptors === socket.descriptors);
    return {
      keep: () => {
        const gone = before.filter(socket => !isKept(socket));
        this.shutDown(gone);
        close(gone);
      },
      undo: () => {
        close(fresh);
        this.#open = before;
      },
    };
  }

  /**
   * No more connections: HAProxy's master has duplicates of our sockets, which would go on to take connections that
   * nobody accepts. Not where another process accepts from them.
   */
  shutDown(sockets: readonly InheritedSocket[] = this.#open): void {
    for (const { descriptors, isKept } of sockets)
      if (!isKept) for (const descriptor of descriptors) this.#libc.shutdown(descriptor, SHUT_RDWR);
  }

  [Symbol.dispose](): void {
    this.#inherited[Symbol.dispose]();
    for (const socket of this.#open) closeSocket(socket);
    this.#open = [];
  }

  #adopt(listener: Listener): Opened | undefined {
    const socket = this.#inherited.take(listener);
    return socket === undefined ? undefined : { ...socket, listener };
  }

  #openOne(listener: Listener): Opened {
    const { host, port, on } = listener;
    for (let tries = 1; ; tries++) {
      const descriptors: number[] = [];
      try {
        const found = this.#openFamilies(host, port, descriptors, this.#hasPort(port));
        const address = parseIp(host === '' ? '::' : host === 'localhost' ? '127.0.0.1' : host);
        return {
          listener,
          address: {
            address: address ?? new Uint8Array(16),
            port: found,
            dualStack: host === '',
          } satisfies SocketAddress,
          ...(port === 0 && { on }),
          descriptors,
          isKept: false,
        };
      } catch (error) {
        for (const descriptor of descriptors) closeSync(descriptor);
        const errno = (error as { readonly errno?: number }).errno;
        if (errno === undefined) throw error;
        if (port !== 0 || errno !== EADDRINUSE || tries === FREE_PORT_TRIES)
          throw new ListenError(on, errorOfErrno(errno));
      }
    }
  }

  /** Whether we, or the process that we replace, listen on that port, on another address or in another spelling. */
  #hasPort(port: number): boolean {
    if (port === 0) return false;
    return this.#inherited.hasPort(port) || this.#open.some(({ address }) => address.port === port);
  }

  /** Returns the port. Adds each socket to `descriptors` as it is opened. */
  #openFamilies(host: string, port: number, descriptors: number[], isOurs: boolean): number {
    if (host !== '')
      return this.#openFamily(host === 'localhost' ? '127.0.0.1' : host, port, descriptors, isOurs);
    const first = this.#openFamily('0.0.0.0', port, descriptors, isOurs);
    try {
      this.#openFamily('::', first, descriptors, isOurs);
    } catch (error) {
      // Without IPv6, dual-stack means IPv4.
      if ((error as { readonly errno?: number }).errno !== EAFNOSUPPORT) throw error;
    }
    return first;
  }

  /**
   * Every socket allows others on its port (SO_REUSEPORT), for a process that replaces this one. It may find others
   * there itself only if they are ours: those of a stranger would take every second connection.
   */
  #openFamily(host: string, port: number, descriptors: number[], isOurs: boolean): number {
    const libc = this.#libc;
    const target = sockaddrOf({ address: parseIp(host) ?? new Uint8Array(16), port });
    if (target === undefined) throw new Error(`not an address: ${host}`);
    const must = (result: number) => {
      if (result < 0) throw Object.assign(new Error('Cannot listen'), { errno: libc.errno() });
      return result;
    };
    const socket = must(libc.socket(target.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    descriptors.push(socket);
    const on = Buffer.from([1, 0, 0, 0]);
    must(libc.setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, on, on.length));
    if (target.family === AF_INET6) must(libc.setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, on, on.length));
    const allowOthers = () => must(libc.setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, on, on.length));
    if (isOurs) allowOthers();
    must(libc.bind(socket, target.bytes, target.bytes.length));
    if (!isOurs) allowOthers();
    must(libc.listen(socket, BACKLOG));
    const name = Buffer.alloc(SOCKADDR_BYTES);
    const length = Buffer.from([SOCKADDR_BYTES, 0, 0, 0]);
    must(libc.getsockname(socket, name, length));
    return readSockaddr(name, new Uint8Array(16), 0);
  }
}
