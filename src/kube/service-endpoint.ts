// One endpoint of a Service, as EndpointSlices and Endpoints have it, and which addresses can never be one.

import { unreachableAddress } from '../cluster/unreachable-address.ts';
import { formatIp, isIpv4, parseCidr, parseIp } from '../wire/ip-address.ts';
import type { Service } from './kube-object.ts';

export type Family = 'IPv4' | 'IPv6';

export interface ServiceEndpoint {
  readonly family: Family;
  /** RFC 5952's text; an IPv4 address is never in its mapped form. */
  readonly address: string;
  readonly port: number;
}

export type ParsedEndpoint =
  | { readonly endpoint: ServiceEndpoint }
  /** What the address is instead: 'a loopback address', 'not an IP address'. */
  | { readonly refused: string };

export function serviceEndpoint(address: string, port: number): ParsedEndpoint {
  const bytes = parseIp(address);
  if (bytes === undefined) return { refused: 'not an IP address' };
  const refused = unreachableAddress(address);
  if (refused !== undefined) return { refused };
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
