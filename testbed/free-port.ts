// Ports for programs that cannot take port 0 and tell which one they got. Test files run in parallel processes, and
// asking the kernel for any port and closing it again lets two of them, or an outgoing connection, take the same.

import { createServer } from 'node:net';

/** Below the ports that Linux gives to outgoing connections (ip_local_port_range, 32768 on). */
const FIRST_BLOCK = 10_240;
const BLOCK_SIZE = 64;
const BLOCKS = 350;

let block: Promise<number> | undefined;
let next = 0;

/** A TCP port on which nothing listens, on any address, and which no other test process will be given. */
export async function freePort(): Promise<number> {
  block ??= reserveBlock();
  const base = await block;
  for (let tries = 1; tries < BLOCK_SIZE; tries++) {
    // The block's first port is the reservation itself.
    const port = base + 1 + (next++ % (BLOCK_SIZE - 1));
    if (await tryListen(port, 'release')) return port;
  }
  throw new Error(`Cannot find a free port as all of a block are in use: current block is ${base}`);
}

/** Listening on a block's first port is the reservation: the kernel lets one process have it and ends it with it. */
async function reserveBlock(): Promise<number> {
  const start = Math.floor(Math.random() * BLOCKS);
  for (let i = 0; i < BLOCKS; i++) {
    const base = FIRST_BLOCK + ((start + i) % BLOCKS) * BLOCK_SIZE;
    if (await tryListen(base, 'hold')) return base;
  }
  throw new Error('Cannot reserve ports as every block is taken by another process');
}

/** No host: the unspecified address, which collides with a listener on any address. */
function tryListen(port: number, then: 'hold' | 'release'): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, exclusive: true }, () => {
      if (then === 'release') {
        server.close(() => resolve(true));
        return;
      }
      server.unref();
      resolve(true);
    });
  });
}
