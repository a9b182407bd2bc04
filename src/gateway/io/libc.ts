// The libc functions that the epoll adapter and a replacement need, called through koffi. Linux only (glibc or musl, x86-64 and arm64):
// the constants below are the kernel's for these. Imported only when the epoll adapter is used, since koffi may be
// missing on a platform.

import koffi from 'koffi';

/** `sizes` and counts are declared int: they are small here, and int64 would cost a BigInt on some paths. */
export interface Libc {
  socket(family: number, type: number, protocol: number): number;
  bind(fd: number, address: Uint8Array, length: number): number;
  listen(fd: number, backlog: number): number;
  accept4(fd: number, address: Uint8Array, length: Uint8Array, flags: number): number;
  connect(fd: number, address: Uint8Array, length: number): number;
  getsockname(fd: number, address: Uint8Array, length: Uint8Array): number;
  getpeername(fd: number, address: Uint8Array, length: Uint8Array): number;
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, length: number): number;
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array): number;
  recv(fd: number, into: Uint8Array, length: number, flags: number): number;
  send(fd: number, bytes: Uint8Array, length: number, flags: number): number;
  sendmsg(fd: number, message: Uint8Array, flags: number): number;
  recvmsg(fd: number, message: Uint8Array, flags: number): number;
  read(fd: number, into: Uint8Array, length: number): number;
  shutdown(fd: number, how: number): number;
  fcntl(fd: number, command: number, argument: number): number;
  close(fd: number): number;
  epoll_create1(flags: number): number;
  epoll_ctl(epoll: number, operation: number, fd: number, event: Uint8Array): number;
  epoll_wait(epoll: number, events: Uint8Array, most: number, timeoutMs: number): number;
  eventfd(initial: number, flags: number): number;
  /** The errno of the last failed call on this thread. */
  errno(): number;
}

const signatures: Record<Exclude<keyof Libc, 'errno'>, string> = {
  socket: 'int socket(int, int, int)',
  bind: 'int bind(int, void *, int)',
  listen: 'int listen(int, int)',
  accept4: 'int accept4(int, void *, void *, int)',
  connect: 'int connect(int, void *, int)',
  getsockname: 'int getsockname(int, void *, void *)',
  getpeername: 'int getpeername(int, void *, void *)',
  setsockopt: 'int setsockopt(int, int, int, void *, int)',
  getsockopt: 'int getsockopt(int, int, int, void *, void *)',
  recv: 'int recv(int, void *, size_t, int)',
  send: 'int send(int, void *, size_t, int)',
  sendmsg: 'int sendmsg(int, void *, int)',
  recvmsg: 'int recvmsg(int, void *, int)',
  read: 'int read(int, void *, size_t)',
  shutdown: 'int shutdown(int, int)',
  // Variadic in C; on these platforms the argument is passed like that of a fixed function.
  fcntl: 'int fcntl(int, int, int)',
  close: 'int close(int)',
  epoll_create1: 'int epoll_create1(int)',
  epoll_ctl: 'int epoll_ctl(int, int, int, void *)',
  epoll_wait: 'int epoll_wait(int, void *, int, int)',
  eventfd: 'int eventfd(uint32_t, int)',
};

/** Throws if there is no such libc. */
export function loadLibc(): Libc {
  const library = koffi.load('libc.so.6');
  const functions = Object.fromEntries(
    Object.entries(signatures).map(([name, signature]) => [name, library.func(signature)]),
  );
  return { ...functions, errno: () => koffi.errno() } as unknown as Libc;
}

/** struct sock_fprog for that many struct sock_filter; the instructions must outlive its use. */
export function filterProgram(instructions: Uint8Array): Uint8Array {
  const program = Buffer.alloc(16);
  program.writeUInt16LE(instructions.length / FILTER_BYTES, 0);
  program.writeBigUInt64LE(BigInt(koffi.address(instructions)), 8);
  return program;
}

const FILTER_BYTES = 8;

export const AF_UNIX = 1;
export const AF_INET = 2;
export const AF_INET6 = 10;
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_NONBLOCK = 0o4000;
export const SOCK_CLOEXEC = 0o2000000;
export const SOL_SOCKET = 1;
export const SO_REUSEADDR = 2;
export const SO_ERROR = 4;
export const SO_KEEPALIVE = 9;
export const SO_LINGER = 13;
export const SO_ACCEPTCONN = 30;
export const SO_REUSEPORT = 15;
export const SO_ATTACH_FILTER = 26;
export const IPPROTO_TCP = 6;
export const TCP_NODELAY = 1;
export const TCP_KEEPIDLE = 4;
export const TCP_KEEPINTVL = 5;
export const TCP_USER_TIMEOUT = 18;
export const IPPROTO_IPV6 = 41;
export const IPV6_V6ONLY = 26;
export const MSG_NOSIGNAL = 0x4000;
export const SHUT_WR = 1;
export const EPOLLIN = 1;
export const EPOLLOUT = 4;
export const EPOLLERR = 8;
export const EPOLLHUP = 16;
export const EPOLLRDHUP = 0x2000;
export const EPOLLET = 0x80000000;
export const EPOLL_CTL_ADD = 1;
export const EPOLL_CTL_DEL = 2;
export const EPOLL_CTL_MOD = 3;
export const F_SETFL = 4;
export const F_DUPFD_CLOEXEC = 1030;
export const EFD_NONBLOCK = 0o4000;
export const EFD_CLOEXEC = 0o2000000;

/** errno values; the same on x86-64 and arm64. */
export const ENOENT = 2;
export const EINTR = 4;
export const EAGAIN = 11;
export const ENOMEM = 12;
export const EACCES = 13;
export const ENFILE = 23;
export const EMFILE = 24;
export const EPIPE = 32;
export const EPERM = 1;
export const ENONET = 64;
export const ENOBUFS = 105;
export const EAFNOSUPPORT = 97;
export const EADDRINUSE = 98;
export const EADDRNOTAVAIL = 99;
export const ENETDOWN = 100;
export const ENETUNREACH = 101;
export const ECONNABORTED = 103;
export const ECONNRESET = 104;
export const ETIMEDOUT = 110;
export const ECONNREFUSED = 111;
export const EHOSTDOWN = 112;
export const EHOSTUNREACH = 113;
export const EINPROGRESS = 115;
