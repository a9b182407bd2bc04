// Backends that an object in Kubernetes may not have. Anyone who can write a Service or an EndpointSlice could otherwise
// reach programs that listen on this machine, a cloud's metadata service, or the gateway itself in a loop.

import { isIP } from 'node:net';
import type { Backend } from '../cluster/cluster.ts';
import { unreachableAddress } from '../cluster/unreachable-address.ts';

/** Says why, or undefined. `isOwn` knows where this process listens. */
export function forbiddenBackend(
  { host, port }: Pick<Backend, 'host' | 'port'>,
  isOwn: (host: string, port: number) => boolean,
): string | undefined {
  if (isIP(host) === 0) return 'a name, which somebody else may resolve to any address';
  return unreachableAddress(host) ?? (isOwn(host, port) ? 'this gateway listens there' : undefined);
}
