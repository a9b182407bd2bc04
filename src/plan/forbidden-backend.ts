// Backends that an object in Kubernetes may not have. Whoever can write a Service or an EndpointSlice could otherwise
// reach what listens on this machine, a cloud's metadata service, or the gateway itself in a loop.

import { BlockList, isIP } from 'node:net';
import type { Backend } from '../cluster/cluster.ts';

const ranges: readonly (readonly [what: string, ...subnets: readonly (readonly [string, number])[]])[] = [
  ['a loopback address', ['127.0.0.0', 8], ['::1', 128]],
  ['a link-local address', ['169.254.0.0', 16], ['fe80::', 10]],
  ['an unspecified address', ['0.0.0.0', 8], ['::', 128]],
  ['a multicast or broadcast address', ['224.0.0.0', 3], ['ff00::', 8]],
];
const lists = ranges.map(([what, ...subnets]) => {
  const list = new BlockList();
  for (const [address, bits] of subnets) list.addSubnet(address, bits, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  return { what, list };
});

/** Says why, or undefined. `isOwn` knows where this process listens. */
export function forbiddenBackend(
  { host, port }: Pick<Backend, 'host' | 'port'>,
  isOwn: (host: string, port: number) => boolean,
): string | undefined {
  const family = isIP(host);
  if (family === 0) return 'a name, which somebody else may resolve to any address';
  const found = lists.find(({ list }) => list.check(host, family === 6 ? 'ipv6' : 'ipv4'));
  if (found !== undefined) return found.what;
  return isOwn(host, port) ? 'this gateway listens there' : undefined;
}
