// Checks, before the epoll adapter is used, that this machine's libc matches our declarations: a loopback connection
// exercises every call on the path, including the layout of struct epoll_event and errno.

import {
  AF_INET,
  EAGAIN,
  EFD_CLOEXEC,
  EINPROGRESS,
  EPOLL_CTL_ADD,
  EPOLLIN,
  F_DUPFD_CLOEXEC,
  type Libc,
  MSG_NOSIGNAL,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
} from './libc.ts';
import { SOCKADDR_BYTES } from './sockaddr.ts';

/** How long a loopback connection may take. */
const WAIT_MS = 1000;

/** The fault, or undefined. */
export function selfTest(libc: Libc, arch: string): string | undefined {
  const open: number[] = [];
  const opened = (fd: number, call: string): number => {
    if (fd < 0) throw new Error(`${call} failed with errno ${libc.errno()}`);
    open.push(fd);
    return fd;
  };
  try {
    talkToOurselves(libc, arch, opened);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    for (const fd of open) libc.close(fd);
  }
}

function talkToOurselves(libc: Libc, arch: string, opened: (fd: number, call: string) => number): void {
  const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  const address = Buffer.alloc(SOCKADDR_BYTES);
  const length = Buffer.from(new Int32Array([SOCKADDR_BYTES]).buffer);
  address.writeUInt16LE(AF_INET, 0);
  address.set([127, 0, 0, 1], 4);
  const listener = opened(libc.socket(AF_INET, type, 0), 'socket');
  check(libc.bind(listener, address, 16) === 0 && libc.listen(listener, 1) === 0, 'bind and listen');
  check(libc.getsockname(listener, address, length) === 0 && address.readUInt16BE(2) !== 0, 'getsockname');

  const client = opened(libc.socket(AF_INET, type, 0), 'socket');
  check(libc.connect(client, address, 16) === 0 || libc.errno() === EINPROGRESS, 'connect');
  const epoll = opened(libc.epoll_create1(EFD_CLOEXEC), 'epoll_create1');
  const words = arch === 'x64' ? 3 : 4;
  const event = new Uint32Array(words);
  const mark = [0x1234_5678, 0x9abc_def0];
  event.set([EPOLLIN], 0);
  event.set(mark, words - 2);
  check(libc.epoll_ctl(epoll, EPOLL_CTL_ADD, listener, new Uint8Array(event.buffer)) === 0, 'epoll_ctl');
  event.fill(0);
  check(libc.epoll_wait(epoll, new Uint8Array(event.buffer), 1, WAIT_MS) === 1, 'epoll_wait');
  check(
    event[0] === EPOLLIN && event[words - 2] === mark[0] && event[words - 1] === mark[1],
    'struct epoll_event',
  );

  const accepted = opened(libc.accept4(listener, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC), 'accept4');
  const server = opened(libc.fcntl(accepted, F_DUPFD_CLOEXEC, 0), 'fcntl');
  const bytes = Buffer.from('self-test');
  const space = Buffer.alloc(64);
  check(
    libc.recv(server, space, space.length, 0) === -1 && libc.errno() === EAGAIN,
    'recv with nothing there',
  );
  check(libc.send(client, bytes, bytes.length, MSG_NOSIGNAL) === bytes.length, 'send');
  check(libc.recv(server, space, space.length, 0) === bytes.length, 'recv');
  check(space.subarray(0, bytes.length).equals(bytes), 'what recv read');
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`${what} does not behave as declared`);
}
