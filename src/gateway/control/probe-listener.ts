// Workers share listeners with SO_REUSEPORT, which would also let another process of this user listen there unnoticed.
// So a listener without it is opened first: it fails if the port is in use, and finds the real port for port 0.

import * as net from 'node:net';
import { parseIp } from '../../wire/ip-address.ts';
import { reactorErrorOf } from '../io/net-reactor.ts';
import type { SocketAddress } from '../io/reactor.ts';
import { ListenError } from './listen-error.ts';

export interface ListenPlace {
  /** As written in the file. */
  readonly on: string;
  /** IP literal, `localhost`, or '' for all addresses of both families. */
  readonly host: string;
  /** 0 means any free port. */
  readonly port: number;
}

/** The address for the workers. `ours`: we already listen on the port, so it cannot be probed. Throws a ListenError. */
export async function probeListener(place: ListenPlace, ours: boolean): Promise<SocketAddress> {
  const dualStack = place.host === '';
  const host = dualStack ? '::' : place.host === 'localhost' ? '127.0.0.1' : place.host;
  const address = parseIp(host) ?? new Uint8Array(16);
  if (ours) return { address, port: place.port, dualStack };
  await using server = net.createServer();
  try {
    await listening(server, { host, port: place.port, ipv6Only: !dualStack }).catch(error => {
      // Without IPv6, dual-stack means IPv4.
      if (!dualStack || (error as NodeJS.ErrnoException).code !== 'EAFNOSUPPORT') throw error;
      return listening(server, { host: '0.0.0.0', port: place.port });
    });
  } catch (error) {
    throw new ListenError(place.on, reactorErrorOf(error as NodeJS.ErrnoException));
  }
  const { port } = server.address() as net.AddressInfo;
  return { address, port, dualStack };
}

function listening(server: net.Server, options: net.ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
}
