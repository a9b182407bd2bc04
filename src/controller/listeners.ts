// The addresses that a configuration listens on: those of `listen`, and the tunnel's own.

import type { Config } from '../config/config.ts';
import type { Listener } from '../gateway/gateway.ts';

export function listenersOf({ listen, tunnel }: Pick<Config, 'listen' | 'tunnel'>): readonly Listener[] {
  if (tunnel?.on === undefined) return listen;
  const { host, port } = tunnel.on;
  const on = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  // No kind of route: it shows nothing but the tunnel.
  return [...listen, { on, host, port, balancers: [], agents: [], idTlv: [], only: [] }];
}
