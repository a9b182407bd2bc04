// What is to be checked, as the control thread hands it to the thread that checks: one target for each backend slot.

import { isIP } from 'node:net';
import type { Health, ProxyProtocol, Route } from '../../cluster/cluster.ts';
import type { BackendEntry } from '../table/table.ts';

export interface HealthTarget {
  readonly slot: number;
  /** IP literals, tried in turn; none where a name does not resolve. */
  readonly addresses: readonly string[];
  /** Its name was not looked up yet. */
  readonly isPending: boolean;
  readonly port: number;
  readonly health: Health;
  /** Sent by `tls` and `https`. */
  readonly serverName?: string;
  /** Host of `https` and `http`. */
  readonly host: string;
  readonly proxyProtocol: ProxyProtocol;
}

/** undefined where nothing is checked: nobody knows whether the backend is up. */
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
    // RFC 6066 section 3: a literal address is no server name.
    ...(serverName !== undefined && isIP(serverName) === 0 && { serverName }),
    host: serverName ?? backend.text,
    proxyProtocol: route.proxyProtocol,
  };
}
