// Addresses at which nobody else can be reached: this machine's own, and those of no single host. Kubernetes refuses them
// in endpoints.

import { BlockList, isIP } from 'node:net';

const ranges = [
  ['0.0.0.0', 8, 'unspecified'],
  ['::', 128, 'unspecified'],
  ['127.0.0.0', 8, 'a loopback address'],
  ['::1', 128, 'a loopback address'],
  ['169.254.0.0', 16, 'a link-local address'],
  ['fe80::', 10, 'a link-local address'],
  ['224.0.0.0', 4, 'a multicast address'],
  ['ff00::', 8, 'a multicast address'],
  ['255.255.255.255', 32, 'the broadcast address'],
] as const;

const lists = ranges.map(([network, prefix, what]) => {
  const list = new BlockList();
  list.addSubnet(network, prefix, familyOf(network));
  return { list, what };
});

/** Says what the IP address is, in any notation of it, or undefined if others may be there. */
export function unreachableAddress(address: string): string | undefined {
  return lists.find(({ list }) => list.check(address, familyOf(address)))?.what;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}
