// Where something listens, and how a server of the demo comes to.

import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';

export interface Place {
  /** An IP address. */
  readonly host: string;
  readonly port: number;
}

export const LOOPBACK = '127.0.0.1';

/** Listens when it returns. Port 0 is any. */
export async function listenOn<S extends Server>(server: S, { host, port }: Place): Promise<S> {
  server.listen({ host, port, exclusive: true });
  await once(server, 'listening');
  return server;
}

export function placeOf(server: Server): Place {
  const { address, port } = server.address() as AddressInfo;
  return { host: address, port };
}
