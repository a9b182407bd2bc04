// The addresses that a configuration listens on: those of `listen`, and the tunnel's own.

import type { Config } from '../config/config.ts';
import { formatMistake, mistakeAt, type Places } from '../config/mistake.ts';
import type { Listener } from '../gateway/gateway.ts';
import type { ListenError } from '../gateway/listen-error.ts';
import { ConfigError } from './config-error.ts';

export function listenersOf({ listen, tunnel }: Pick<Config, 'listen' | 'tunnel'>): readonly Listener[] {
  if (tunnel?.on === undefined) return listen;
  const { host, port } = tunnel.on;
  const on = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  // No kind of route: it shows nothing but the tunnel.
  return [...listen, { on, host, port, balancers: [], agents: [], idTlv: [], only: [] }];
}

/** The same of an edit that was refused for it, which has a place in the file. */
export function cannotListen(
  file: string,
  config: Pick<Config, 'listen' | 'tunnel'>,
  places: Places,
  { on, message }: ListenError,
): ConfigError {
  const index = config.listen.findIndex(listener => listener.on === on);
  const path = index < 0 ? 'tunnel.on' : `listen[${index}]`;
  return new ConfigError([formatMistake(file, mistakeAt(places, path, message))]);
}
