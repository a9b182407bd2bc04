// The listeners of a configuration: those of `listen`, and that of the tunnel.

import type { Config } from '../config/config.ts';
import { formatMistake, mistakeAt, type Positions } from '../config/mistake.ts';
import type { ListenError } from '../gateway/control/listen-error.ts';
import type { Listener } from '../gateway/control/open-listeners.ts';
import { ConfigError } from './config-error.ts';

export function listenersOf({ listen, tunnel }: Pick<Config, 'listen' | 'tunnel'>): readonly Listener[] {
  if (tunnel?.on === undefined) return listen;
  const { host, port } = tunnel.on;
  const on = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  // No route kinds: it serves only the tunnel.
  return [...listen, { on, host, port, balancers: [], agents: [], idTlv: [], only: [] }];
}

/** The same error with its position in the file, if it has one. */
export function cannotListen(
  file: string,
  config: Pick<Config, 'listen' | 'tunnel'>,
  positions: Positions,
  error: ListenError,
): Error {
  const index = listenersOf(config).findIndex(({ on }) => on === error.on);
  if (index < 0) return error;
  const path = index < config.listen.length ? `listen[${index}]` : 'tunnel.on';
  return new ConfigError([formatMistake(file, mistakeAt(positions, path, error.message))]);
}
