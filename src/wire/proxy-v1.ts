// PROXY protocol version 1: `PROXY TCP4|TCP6 source destination sourcePort destinationPort\r\n`, or UNKNOWN followed by
// anything. A line is short and comes once per connection at most, so it is parsed as text.

import { formatIp, isIpv4, mapIp, parseIp } from './ip-address.ts';
import { latin1 } from './latin1.ts';
import { found, incomplete, type Parsed, reject } from './parsed.ts';
import type { Endpoint, ProxyHeader } from './proxy-header.ts';

/** The longest possible line, with its CRLF. */
const MAX_LINE = 107;

const beginnings = ['PROXY TCP4 ', 'PROXY TCP6 ', 'PROXY UNKNOWN\r\n', 'PROXY UNKNOWN '];

/** No sign and no leading zeros. */
const PORT = /^(0|[1-9]\d{0,4})$/;
const NOT_OF_A_LINE = /[^ 0-9a-fA-F.:]/;

export function parseProxyV1(bytes: Uint8Array, from: number, to: number): Parsed<ProxyHeader> {
  const text = latin1(bytes, from, Math.min(to, from + MAX_LINE));
  const beginning = beginnings.find(word => text.startsWith(word));
  if (beginning === undefined) {
    return beginnings.some(word => word.startsWith(text)) ? incomplete : reject('v1-protocol');
  }
  const length = text.indexOf('\r\n');
  const unknown = beginning.startsWith('PROXY UNKNOWN');
  if (length < 0) {
    const rest = text.endsWith('\r') ? text.slice(beginning.length, -1) : text.slice(beginning.length);
    if (!unknown && NOT_OF_A_LINE.test(rest)) return reject('v1-character');
    return text.length < MAX_LINE ? incomplete : reject('v1-too-long');
  }
  const end = from + length + 2;
  if (unknown) return found(headerOf('unspec', undefined, undefined, end));
  return parseEndpoints(text.slice(beginning.length, length), beginning === 'PROXY TCP6 ', end);
}

/** `PROXY UNKNOWN` unless both ends are known. An IPv4 end next to an IPv6 one is written as ::ffff:a.b.c.d. */
export function buildProxyV1(source: Endpoint | undefined, destination: Endpoint | undefined): Uint8Array {
  if (source === undefined || destination === undefined) return Buffer.from('PROXY UNKNOWN\r\n', 'latin1');
  const from = mapIp(source.address);
  const to = mapIp(destination.address);
  const ipv4 = isIpv4(from, 0) && isIpv4(to, 0);
  const addresses = `${ipv4 ? formatIp(from, 0) : formatIpv6(from)} ${ipv4 ? formatIp(to, 0) : formatIpv6(to)}`;
  const line = `PROXY ${ipv4 ? 'TCP4' : 'TCP6'} ${addresses} ${source.port} ${destination.port}\r\n`;
  return Buffer.from(line, 'latin1');
}

function parseEndpoints(text: string, ipv6: boolean, end: number): Parsed<ProxyHeader> {
  const words = text.split(' ', 5);
  if (words.length !== 4) return reject('v1-words');
  const source = parseAddress(words[0], ipv6);
  const destination = parseAddress(words[1], ipv6);
  if (source === undefined || destination === undefined) return reject('v1-address');
  const sourcePort = parsePort(words[2]);
  const destinationPort = parsePort(words[3]);
  if (sourcePort === undefined || destinationPort === undefined) return reject('v1-port');
  return found(
    headerOf(
      ipv6 ? 'ipv6' : 'ipv4',
      { address: source, port: sourcePort },
      { address: destination, port: destinationPort },
      end,
    ),
  );
}

/** An address of exactly that family: 4 or 16 bytes. */
function parseAddress(text: string, ipv6: boolean): Uint8Array | undefined {
  if (text.includes(':') !== ipv6) return undefined;
  return ipv6 ? parseIp(text) : parseIp(text)?.subarray(12);
}

function parsePort(text: string): number | undefined {
  const port = Number(text);
  return PORT.test(text) && port <= 65_535 ? port : undefined;
}

function headerOf(
  family: ProxyHeader['family'],
  source: Endpoint | undefined,
  destination: Endpoint | undefined,
  end: number,
): ProxyHeader {
  const command = source === undefined ? 'local' : 'proxy';
  return { version: 1, command, family, source, destination, tlvs: [], end };
}

function formatIpv6(address: Uint8Array): string {
  const text = formatIp(address, 0);
  return isIpv4(address, 0) ? `::ffff:${text}` : text;
}
