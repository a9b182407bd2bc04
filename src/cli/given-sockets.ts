// Listening sockets that a supervisor has opened for this process: $LISTEN_FDS, see sd_listen_fds(3).

import type { InheritedSocket } from '../gateway/control/inherited-sockets.ts';

/** The first descriptor that is passed. */
const FIRST_DESCRIPTOR = 3;
const F_SETFD = 2;
const FD_CLOEXEC = 1;

/** The listening TCP sockets that were passed to this process. They are not passed on to its children. */
export async function givenSockets(
  environment: NodeJS.ProcessEnv,
  pid: number,
): Promise<readonly InheritedSocket[]> {
  const count = Number(environment['LISTEN_FDS'] ?? 0);
  if (!(count > 0) || environment['LISTEN_PID'] !== `${pid}`) return [];
  // Only where sockets are given: koffi may be missing on a platform.
  const [libcModule, sockaddrModule] = await Promise.all([
    import('../gateway/io/libc.ts'),
    import('../gateway/io/sockaddr.ts'),
  ]);
  const { AF_INET, AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY } = libcModule;
  const { readSockaddr, SOCKADDR_BYTES } = sockaddrModule;
  const libc = libcModule.loadLibc();
  const bytes = Buffer.alloc(SOCKADDR_BYTES);
  const length = Buffer.alloc(4);
  const isV6Only = Buffer.alloc(4);
  const sockets: InheritedSocket[] = [];
  for (let descriptor = FIRST_DESCRIPTOR; descriptor < FIRST_DESCRIPTOR + count; descriptor++) {
    libc.fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    length.writeInt32LE(bytes.length);
    if (libc.getsockname(descriptor, bytes, length) < 0) continue;
    const family = bytes.readUInt16LE(0);
    if (family !== AF_INET && family !== AF_INET6) continue;
    const address = new Uint8Array(16);
    const port = readSockaddr(bytes, address, 0);
    isV6Only.writeInt32LE(1);
    length.writeInt32LE(isV6Only.length);
    if (family === AF_INET6) libc.getsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, isV6Only, length);
    const dualStack = isV6Only.readInt32LE(0) === 0 && address.every(byte => byte === 0);
    sockets.push({ address: { address, port, dualStack }, descriptors: [descriptor], isKept: true });
  }
  return sockets;
}
