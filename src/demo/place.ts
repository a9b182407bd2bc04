// An address and port, and helpers to listen on one.

import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';

export interface Place {
  /** An IP address. */
  readonly host: string;
  readonly port: number;
}

export const LOOPBACK = '127.0.0.1';

/** Listens when it returns. Port 0 means any free port. */
export async function listenOn<S extends Server>(server: S, { host, port }: Place): Promise<S> {
  server.listen({ host, port, exclusive: true });
  await once(server, 'listening');
  return server;
}

export function placeOf(server: Server): Place {
  const { address, port } = server.address() as AddressInfo;
  return { host: address, port };
}
