// An agent's uplink `tunnel`: TLS to a tunnel host, through whatever routes by SNI on the way, and inside it a PROXY v2
// header with the cluster id in front of the client's own TLS, which stays untouched.

import { buildUplinkHeader } from '../uplink.ts';
import { dialGateway, type GatewayError } from './dial-gateway.ts';
import { join } from './join.ts';
import type { TunnelUplink } from './tls-config.ts';
import type { TlsConnection, TlsPart } from './tls-part.ts';

/** What the end of a tunnel answers to; a router on the way may tell by it. */
export const TUNNEL_ALPN = 'causeway/1';

export function enterTunnel(part: TlsPart, connection: TlsConnection, config: TunnelUplink): void {
  void enter(part, connection, config);
}

async function enter(part: TlsPart, connection: TlsConnection, config: TunnelUplink): Promise<void> {
  const { connectMs, keepaliveMs } = part.settings;
  const { socket, source, destination } = connection;
  const startedAt = performance.now();
  try {
    const options = { ALPNProtocols: [TUNNEL_ALPN] };
    const outer = await dialGateway(config.gateway, options, connectMs, keepaliveMs);
    if (outer.alpnProtocol !== TUNNEL_ALPN) {
      outer.destroy();
      part.trouble(
        'tunnel refused',
        `${config.gateway.serverName} does not speak ${TUNNEL_ALPN}: is it one of the tunnel hosts of a gateway, and is its TLS passed through on the way?`,
      );
      return part.refuse(connection, 'connect-failed');
    }
    if (socket.destroyed) {
      outer.destroy();
      return;
    }
    part.reached(connection, performance.now() - startedAt);
    outer.write(buildUplinkHeader(config.uplink, source, destination));
    join(socket, outer);
  } catch (error) {
    const { message, timedOut } = error as GatewayError;
    part.trouble('gateway not reached', message);
    part.refuse(connection, timedOut ? 'connect-timeout' : 'connect-failed');
  }
}
