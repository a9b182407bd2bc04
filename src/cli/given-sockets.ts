// Listening sockets that a supervisor has opened for this process: $LISTEN_FDS, see sd_listen_fds(3).

import type { InheritedSocket } from '../gateway/control/inherited-sockets.ts';
import type { Libc } from '../gateway/io/libc.ts';

/** The first descriptor that is passed. */
const FIRST_DESCRIPTOR = 3;
/** Linux; libc.ts is imported only where sockets are given. */
const F_SETFD = 2;
const FD_CLOEXEC = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const IPPROTO_IPV6 = 41;
const IPV6_V6ONLY = 26;

/** The listening TCP sockets that were passed to this process. They are not passed on to its children. */
export async function givenSockets(
  environment: NodeJS.ProcessEnv,
  pid: number,
): Promise<readonly InheritedSocket[]> {
  const count = Number(environment['LISTEN_FDS'] ?? 0);
  if (!(count > 0) || environment['LISTEN_PID'] !== `${pid}`) return [];
  const { loadLibc } = await import('../gateway/io/libc.ts');
  const libc = loadLibc();
  return Array.from({ length: count }, (_, i) => FIRST_DESCRIPTOR + i).flatMap(descriptor => {
    libc.fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return listeningSocket(libc, descriptor);
  });
}

function listeningSocket(libc: Libc, descriptor: number): readonly InheritedSocket[] {
  const sockaddr = Buffer.alloc(112);
  const length = Buffer.alloc(4);
  length.writeInt32LE(sockaddr.length);
  if (libc.getsockname(descriptor, sockaddr, length) < 0) return [];
  const family = sockaddr.readUInt16LE(0);
  const address = new Uint8Array(16);
  if (family === AF_INET) {
    address.set([0xff, 0xff], 10);
    address.set(sockaddr.subarray(4, 8), 12);
  } else if (family === AF_INET6) {
    address.set(sockaddr.subarray(8, 24));
  } else {
    return [];
  }
  const isV6Only = Buffer.alloc(4);
  length.writeInt32LE(isV6Only.length);
  if (family === AF_INET6) libc.getsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, isV6Only, length);
  const dualStack = family === AF_INET6 && isV6Only.readInt32LE(0) === 0 && address.every(byte => byte === 0);
  return [
    {
      address: { address, port: sockaddr.readUInt16BE(2), dualStack },
      descriptors: [descriptor],
      isKept: true,
    },
  ];
}
