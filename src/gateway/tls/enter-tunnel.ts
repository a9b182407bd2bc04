// An agent's uplink `tunnel`: TLS to a tunnel host, through whatever routes by SNI on the way, and inside it a PROXY v2
// header with the cluster id in front of the client's own TLS, which stays untouched.

import { guard } from '../guard.ts';
import { buildUplinkHeader } from '../stages/uplink.ts';
import { join } from './join.ts';
import type { TunnelUplink } from './tls-config.ts';
import type { TlsConnection } from './tls-connection.ts';
import type { TlsThread } from './tls-thread.ts';

/** What the end of a tunnel answers to; a router on the way may tell by it. */
export const TUNNEL_ALPN = 'causeway/1';

export async function enterTunnel(
  thread: TlsThread,
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
  // One write, and with it what the client has said already: see uplink.ts on HAProxy's first look.
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
