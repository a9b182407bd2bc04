// Flags that the commands about DNS share, and the hosts that they are about.

import { getServers } from 'node:dns';
import type { Config } from '../config/config.ts';
import type { DnsServer } from '../dns/dns-client.ts';
import { dnsFormats } from '../dns/render-dns.ts';
import { nearest } from '../text/nearest.ts';
import { formatIp, parseIp } from '../wire/ip-address.ts';
import { UsageError } from './command.ts';

const DNS_PORT = 53;

export function dnsFormat(given: string | undefined): string {
  const all = `one of ${dnsFormats.join(', ')}`;
  if (given === undefined) throw new UsageError(`--format is missing: ${all}`);
  if (dnsFormats.includes(given)) return given;
  const near = nearest(given, dnsFormats);
  throw new UsageError(`Unknown --format '${given}': ${near === undefined ? all : `did you mean ${near}?`}`);
}

/** The gateway's, at least one. */
export function dnsAddresses(given: readonly string[] = []): readonly string[] {
  if (given.length === 0) throw new UsageError('--address is missing: the address of the gateway');
  return ipAddresses(given);
}

/** In their shortest spelling, each once. */
export function ipAddresses(given: readonly string[]): readonly string[] {
  const addresses = given.map(text => {
    const ip = parseIp(text);
    if (ip === undefined) throw new UsageError(`--address must be an IPv4 or IPv6 address: ${text}`);
    return formatIp(ip);
  });
  return [...new Set(addresses)];
}

export function dnsServer(text: string): DnsServer {
  const server = parseServer(text);
  if (server === undefined)
    throw new UsageError(`--server must be an address such as 192.0.2.53:53 or [2001:db8::53]:53: ${text}`);
  return server;
}

/** Those that the machine asks; without link-local ones, which have a zone. */
export function ownDnsServers(): readonly DnsServer[] {
  return getServers().flatMap(text => parseServer(text) ?? []);
}

/** `192.0.2.53`, `192.0.2.53:5353`, `2001:db8::53` or `[2001:db8::53]:5353`. */
function parseServer(text: string): DnsServer | undefined {
  const [, bracketed, plain, port] = /^(?:\[(.+)\]|([^:]+|.*:.*:.*?))(?::(\d+))?$/.exec(text) ?? [];
  const whole = parseIp(text);
  const ip = whole ?? parseIp(bracketed ?? plain ?? '');
  const number = whole !== undefined || port === undefined ? DNS_PORT : Number(port);
  if (ip === undefined || number < 1 || number > 65_535) return undefined;
  return { address: formatIp(ip), port: number };
}

/** Every host that leads to the gateway. */
export function hostsOfConfig({ clusters, tunnel }: Pick<Config, 'clusters' | 'tunnel'>): readonly string[] {
  const hosts = clusters.flatMap(({ routes }) => routes.flatMap(route => route.hosts));
  return [...new Set([...hosts, ...(tunnel?.hosts ?? [])])].filter(host => host !== '*');
}
