// A listener cannot be opened: the port is in use, or the address cannot be listened on.

import { DENIED, errorWord, IN_USE } from '../io/reactor.ts';
import { portOwner } from './port-owner.ts';

/** Only root may listen on ports below it, unless net.ipv4.ip_unprivileged_port_start allows more. */
const FIRST_UNPRIVILEGED = 1024;

export class ListenError extends Error {
  readonly code = 'ERR_LISTEN';
  readonly on: string;

  /** `why` is an error number of the I/O port, or a sentence. */
  constructor(on: string, why: number | string, options?: ErrorOptions) {
    super(
      `Cannot listen on '${on}': ${typeof why === 'string' ? why : errorWord(why)}${hint(on, why)}`,
      options,
    );
    this.name = 'ListenError';
    this.on = on;
  }
}

function hint(on: string, why: number | string): string {
  // `:443`, or `:443 (admin.on)`.
  const port = Number(/:(\d+)(?: |$)/.exec(on)?.[1] ?? FIRST_UNPRIVILEGED);
  if (why === IN_USE) {
    const owner = portOwner(port);
    return ` by another process${owner === undefined ? '' : ` (${owner})`}; stop it or choose another port`;
  }
  if (why !== DENIED || port >= FIRST_UNPRIVILEGED) return '';
  return `; ports below ${FIRST_UNPRIVILEGED} are privileged. Under systemd set AmbientCapabilities=CAP_NET_BIND_SERVICE, else run sysctl -w net.ipv4.ip_unprivileged_port_start=${port}, or give the node that runs causeway the right: setcap cap_net_bind_service=+ep NODE`;
}
