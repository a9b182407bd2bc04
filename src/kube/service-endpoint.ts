// One endpoint of a Service, as EndpointSlices and Endpoints have it, and which addresses can never be one.

import { formatIp, isIpv4, parseCidr, parseIp } from '../wire/ip-address.ts';
import type { Service } from './kube-object.ts';

export type Family = 'IPv4' | 'IPv6';

export interface ServiceEndpoint {
  readonly family: Family;
  /** RFC 5952's text; an IPv4 address is never in its mapped form. */
  readonly address: string;
  readonly port: number;
}

/** What Kubernetes refuses in endpoints, and multicast, where nobody could connect. */
const REFUSED = [
  ['0.0.0.0/8', 'unspecified'],
  ['::/128', 'unspecified'],
  ['127.0.0.0/8', 'a loopback address'],
  ['::1/128', 'a loopback address'],
  ['169.254.0.0/16', 'a link-local address'],
  ['fe80::/10', 'a link-local address'],
  ['224.0.0.0/4', 'a multicast address'],
  ['ff00::/8', 'a multicast address'],
  ['255.255.255.255/32', 'the broadcast address'],
] as const;

export type ParsedEndpoint =
  | { readonly endpoint: ServiceEndpoint }
  /** What the address is instead: 'a loopback address', 'not an IP address'. */
  | { readonly refused: string };

export function serviceEndpoint(address: string, port: number): ParsedEndpoint {
  const bytes = parseIp(address);
  if (bytes === undefined) return { refused: 'not an IP address' };
  const refused = REFUSED.find(([cidr]) => isWithin(address, cidr));
  if (refused !== undefined) return { refused: refused[1] };
  return { endpoint: { family: isIpv4(bytes, 0) ? 'IPv4' : 'IPv6', address: formatIp(bytes, 0), port } };
}

/** In the Service's order. Where it does not say, its addresses do. */
export function familiesOf({ spec }: Service): Family[] {
  const stated = spec?.ipFamilies ?? spec?.clusterIPs?.map(ip => (ip.includes(':') ? 'IPv6' : 'IPv4')) ?? [];
  return stated.filter(family => family === 'IPv4' || family === 'IPv6');
}

export function isWithin(address: string, cidr: string): boolean {
  const bytes = parseIp(address);
  const network = parseCidr(cidr);
  if (bytes === undefined || network === undefined) return false;
  const whole = network.prefix >> 3;
  const mask = (0xff << (8 - (network.prefix & 7))) & 0xff;
  return (
    network.bytes.subarray(0, whole).every((byte, i) => byte === bytes[i]) &&
    (whole === 16 || (bytes[whole] & mask) === network.bytes[whole])
  );
}
