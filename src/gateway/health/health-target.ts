// What the control thread asks the health thread to check: one target for each backend slot.

import { isIP } from 'node:net';
import type { Health, ProxyProtocol, Route } from '../../cluster/cluster.ts';
import type { BackendEntry } from '../table/table.ts';

export interface HealthTarget {
  readonly slot: number;
  /** IP literals, tried in turn; empty if the name does not resolve. */
  readonly addresses: readonly string[];
  /** Its name has not been looked up yet. */
  readonly isPending: boolean;
  readonly port: number;
  readonly health: Health;
  /** SNI of `tls` and `https`. */
  readonly serverName?: string;
  /** Host of `https` and `http`. */
  readonly host: string;
  readonly proxyProtocol: ProxyProtocol;
}

/** undefined if the backend is not checked, so that its state is unknown. */
export function healthTarget(route: Route, backend: BackendEntry): HealthTarget | undefined {
  const { health } = route.pool;
  if (health.check === 'none') return undefined;
  const serverName = health.serverName ?? route.hosts.find(host => !host.startsWith('*'));
  return {
    slot: backend.slot,
    addresses: backend.addresses,
    isPending: false,
    port: backend.port,
    health,
    // RFC 6066 section 3: a literal address is not a server name.
    ...(serverName !== undefined && isIP(serverName) === 0 && { serverName }),
    host: serverName ?? backend.text,
    proxyProtocol: route.proxyProtocol,
  };
}
