// The addresses that a DNS server listens on. Not one socket for all: an answer must come from the address that was asked,
// and a UDP socket for all addresses would send it from the one that the routing table prefers.

import { networkInterfaces } from 'node:os';
import type { ListenAddress } from '../../config/config.ts';

/**
 * With more, such as a node whose Services are all on one interface (kube-proxy in mode ipvs), one socket for all is the
 * lesser evil.
 */
const MOST_ADDRESSES = 64;

type Interfaces = ReturnType<typeof networkInterfaces>;

/** IP addresses to open sockets for. */
export function ownAddresses(
  { host }: Pick<ListenAddress, 'host'>,
  interfaces: Interfaces = networkInterfaces(),
): readonly string[] {
  if (host === 'localhost') return ['127.0.0.1'];
  const families: Readonly<Record<string, readonly string[]>> = {
    '': ['IPv4', 'IPv6'],
    '0.0.0.0': ['IPv4'],
    '::': ['IPv6'],
  };
  const wanted = families[host];
  if (wanted === undefined) return [host];
  const found = Object.values(interfaces)
    .flatMap(each => each ?? [])
    // A link-local address means nothing without its interface.
    .filter(({ family, address }) => wanted.includes(family) && !/^fe[89ab]/i.test(address))
    .map(({ address }) => address);
  const addresses = [...new Set(found)];
  if (addresses.length <= MOST_ADDRESSES) return addresses;
  return wanted.map(family => (family === 'IPv4' ? '0.0.0.0' : '::'));
}
