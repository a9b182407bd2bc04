// The address of one agent, as written into the endpoints of Service `default/kubernetes` and into the annotation of
// its lease. Refuses addresses that cannot be endpoints.

import { formatIp, formatIpPort, isIpv4, parseCidr, parseIp } from '../wire/ip-address.ts';

export type Family = 'IPv4' | 'IPv6';

export interface AgentEndpoint {
  readonly family: Family;
  /** In RFC 5952 format; never an IPv4-mapped IPv6 address. */
  readonly address: string;
  readonly port: number;
}

/** `--advertise` cannot be an endpoint. The message says why, and what is allowed. */
export class AdvertiseError extends Error {
  readonly code = 'ERR_ADVERTISE';

  constructor(message: string) {
    super(message);
    this.name = 'AdvertiseError';
  }
}

/** Addresses that Kubernetes refuses in endpoints, and multicast and broadcast, which cannot accept connections. */
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

/** Throws AdvertiseError. */
export function agentEndpoint(address: string, port: number): AgentEndpoint {
  const bytes = parseIp(address);
  const allowed = 'must be an address of this node or pod that other nodes and pods can reach';
  if (bytes === undefined) {
    throw new AdvertiseError(`--advertise ${allowed}: current value is '${address}', not an IP address`);
  }
  const refused = REFUSED.find(([cidr]) => isWithin(address, cidr));
  if (refused !== undefined) {
    throw new AdvertiseError(`--advertise ${allowed}: current value is ${address}, ${refused[1]}`);
  }
  return { family: isIpv4(bytes, 0) ? 'IPv4' : 'IPv6', address: formatIp(bytes, 0), port };
}

/** `10.0.0.1:6443,[2001:db8::1]:6443` */
export function formatEndpoints(endpoints: readonly AgentEndpoint[]): string {
  return endpoints
    .map(({ address, port }) => formatIpPort(parseIp(address) as Uint8Array, 0, port))
    .join(',');
}

/** Skips entries that are malformed or cannot be endpoints: others may have written them. */
export function parseEndpoints(text: string): AgentEndpoint[] {
  return text.split(',').flatMap(one => {
    const [, six, four, port] = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/.exec(one) ?? [];
    const number = Number(port);
    if (!(number >= 1 && number <= 65535)) return [];
    try {
      return [agentEndpoint(six ?? four, number)];
    } catch {
      return [];
    }
  });
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
