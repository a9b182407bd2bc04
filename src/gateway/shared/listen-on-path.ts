// Opens the unix socket on which a thread receives connections from the workers.

import { createServer, type Server, type Socket } from 'node:net';

/** The kernel caps it at net.core.somaxconn. */
const BACKLOG = 4096;

export async function listenOnPath(path: string, onConnection: (socket: Socket) => void): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, onConnection);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // Out of descriptors: the worker notices that its hand-off was not taken.
  server.on('error', () => {});
  return server;
}
