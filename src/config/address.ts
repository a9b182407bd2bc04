// Addresses in causeway.yaml: where the gateway listens, what it dials, and CIDRs of peers.

import { domainToASCII } from 'node:url';
import type { Backend } from '../cluster/cluster.ts';
import { formatIp, isIpv4, parseCidr, parseIp } from '../wire/ip-address.ts';
import type { ListenAddress } from './config.ts';
import { readHost } from './host.ts';
import { bad, good, quote, type Reading } from './reading.ts';

const LISTEN = '":6443" for every address, "192.0.2.1:6443" or "[2001:db8::1]:6443"';
const BACKEND = '"host:port", such as "192.0.2.1:6443" or "[2001:db8::1]:6443"';
const CIDR = 'a CIDR such as 10.0.0.0/8 or "fd00::/8", or an IP address';
const MAX_PORT = 65_535;

/** `:port`, `address:port` or `[v6]:port`. */
export function readListenAddress(value: unknown): Reading<ListenAddress> {
  if (isPortNumber(value)) return bad(`":${value}", with a colon and in quotes`, value);
  if (typeof value !== 'string') return bad(LISTEN, value);
  if (/^\d+$/.test(value)) return bad(`":${value}", with a colon`, value);
  if (value.startsWith('*:')) return bad(`":${value.slice(2)}", which means every address`, value);
  const parts = splitHostPort(value);
  if ('fault' in parts) return bad(parts.fault, value);
  const port = parsePort(parts.port);
  if (port === undefined) return bad(`"address:port" with a port from 0 (any) to ${MAX_PORT}`, value);
  if (parts.host === '') return good({ host: '', port });
  if (parts.host.toLowerCase() === 'localhost') return good({ host: 'localhost', port });
  const ip = parseIp(parts.host);
  if (ip === undefined) return bad(`${LISTEN}; only IP addresses and localhost can be listened on`, value);
  return good({ host: formatIp(ip, 0), port });
}

/** `host:port`; `text` is the same for every spelling of an address. */
export function readBackend(value: unknown): Reading<Backend> {
  if (typeof value !== 'string') return bad(BACKEND, value);
  const parts = splitHostPort(value);
  if ('fault' in parts) return bad(parts.fault, value);
  const port = parsePort(parts.port);
  if (port === undefined || port === 0) return bad(`"host:port" with a port from 1 to ${MAX_PORT}`, value);
  const ip = parseIp(parts.host);
  if (ip === undefined) return namedBackend(value, parts.host, port);
  const host = formatIp(ip, 0);
  if (isAny(host)) return bad(`an address that can be dialled, which ${host} is not`, value);
  return good({ text: formatHostPort(host, port), host, port });
}

/** Kept as written; it is masked where it is matched. */
export function readCidr(value: unknown): Reading<string> {
  if (typeof value !== 'string') return bad(CIDR, value);
  if (parseCidr(value) !== undefined) return good(value);
  const [address, length] = value.split('/', 2);
  const ip = parseIp(address);
  if (ip !== undefined && length !== undefined) {
    return bad(`a CIDR with a prefix length from 0 to ${isIpv4(ip, 0) ? 32 : 128}`, value);
  }
  return bad(CIDR, value);
}

/** The effective CIDR if bits beyond its prefix are set, as in 10.0.0.1/8; otherwise undefined. */
export function maskedCidr(text: string): string | undefined {
  const cidr = parseCidr(text);
  const [address, length] = text.split('/', 2);
  const ip = parseIp(address);
  if (cidr === undefined || ip === undefined || length === undefined) return undefined;
  return cidr.bytes.every((byte, i) => byte === ip[i]) ? undefined : `${formatIp(cidr.bytes, 0)}/${length}`;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/** Whether two listeners would compete for connections. */
export function overlap(a: ListenAddress, b: ListenAddress): boolean {
  if (a.port !== b.port || a.port === 0) return false;
  return covered(a.host).some(one => covered(b.host).some(other => one === other || spans(one, other)));
}

export function formatHostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function namedBackend(value: string, host: string, port: number): Reading<Backend> {
  if (/^[\d.]+$/.test(host)) return bad(`"host:port"; ${quote(host)} is not an IPv4 address`, value);
  const name = readHost(host);
  if ('fault' in name) {
    const ascii = domainToASCII(host);
    const instead = ascii === '' || ascii === host ? BACKEND : `in ASCII, here ${quote(`${ascii}:${port}`)}`;
    return bad(instead, value);
  }
  return good({ text: formatHostPort(name.value, port), host: name.value, port });
}

/** The fault completes `must be …`. */
function splitHostPort(text: string): { host: string; port: string } | { fault: string } {
  if (text.includes('://')) return { fault: '"host:port", without scheme and path' };
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(text);
  if (bracketed !== null) {
    const [, host, port] = bracketed;
    if (parseIp(host) === undefined || !host.includes(':'))
      return { fault: '"host:port"; brackets are for IPv6 addresses' };
    return port === undefined ? { fault: '"[address]:port"; the port is missing' } : { host, port };
  }
  const colon = text.lastIndexOf(':');
  if (colon < 0) return { fault: '"host:port"; the port is missing' };
  const host = text.slice(0, colon);
  if (!host.includes(':')) return { host, port: text.slice(colon + 1) };
  return { fault: '"[address]:port"; an IPv6 address needs brackets' };
}

function parsePort(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined;
  const port = Number(text);
  return port <= MAX_PORT ? port : undefined;
}

function isPortNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_PORT;
}

function isAny(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}

/** The addresses that a listener on this host binds. */
function covered(host: string): readonly string[] {
  if (host === '') return ['0.0.0.0', '::'];
  return host === 'localhost' ? ['127.0.0.1', '::1'] : [host];
}

function spans(a: string, b: string): boolean {
  return (isAny(a) || isAny(b)) && a.includes(':') === b.includes(':');
}
