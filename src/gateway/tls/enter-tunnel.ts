// An agent's uplink `tunnel`: TLS to a tunnel host, through any SNI router on the way; inside it, a PROXY v2 header
// with the cluster id, then the client's own TLS, unchanged.

import { guard } from '../guard.ts';
import { buildUplinkHeader } from '../stages/uplink.ts';
import { join } from './join.ts';
import type { ServingThread } from './serving-thread.ts';
import type { TunnelUplink } from './tls-config.ts';
import type { TlsConnection } from './tls-connection.ts';

/** The protocol of a tunnel; a router on the way may match on it. */
export const TUNNEL_ALPN = 'causeway/1';

export async function enterTunnel(
  thread: ServingThread,
  connection: TlsConnection,
  config: TunnelUplink,
): Promise<void> {
  const { socket, source, destination, gone } = connection;
  const wrongProtocol = `${config.gateway.serverName} is not the end of a tunnel. Is it in tunnel.hosts of a gateway, and is its TLS passed through on the way?`;
  const options = { ALPNProtocols: [TUNNEL_ALPN], wrongProtocol };
  const outer = await thread.dialGateway(connection, config.gateway, options);
  if (outer === undefined) return;
  if (outer.tls.alpnProtocol !== TUNNEL_ALPN) {
    outer.tls.on('error', () => {});
    outer.tls.destroy();
    thread.trouble('gateway not reached', wrongProtocol);
    return thread.refuse(connection, 'connect-failed');
  }
  gone.addEventListener(
    'abort',
    guard(connection, () => outer.reset()),
  );
  // One write, together with the client's first bytes: uplink.ts explains how HAProxy reads them.
  const header = buildUplinkHeader(config.uplink, source, destination);
  outer.tls.write(Buffer.concat([header, connection.take()]));
  connection.joined(socket, outer.tls);
  join({
    owner: connection,
    near: socket,
    far: outer.tls,
    nearLost: () => thread.lose(connection),
    farLost: () => thread.break(connection),
  });
}
