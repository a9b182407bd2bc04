// Host names in causeway.yaml. cluster/hostname.ts decides which names are legal; this file explains what is wrong
// with one that is not.

import { domainToASCII } from 'node:url';
import { CATCH_ALL, isHostname, isWildcard, normalizeHost } from '../cluster/hostname.ts';
import { parseIp } from '../wire/ip-address.ts';
import { bad, good, quote, type Reading } from './reading.ts';

const EXACT = 'a host name such as "api.example.com"';
const PATTERN = `${EXACT}, or "*.example.com" for exactly one label in front`;

/** RFC 1035 2.3.4. */
const MAX_NAME = 253;
const MAX_LABEL = 63;

/** An exact name or `*.x.y`, normalized. */
export function readHostPattern(value: unknown): Reading<string> {
  if (typeof value !== 'string') return bad(PATTERN, value);
  const host = normalizeHost(value);
  if (isHostname(host) || isWildcard(host))
    return endsInNumber(host) ? bad(notAnAddress(PATTERN), value) : good(host);
  return bad(wildcardRule(host) ?? nameRule(value, PATTERN), value);
}

/** The same, or `*` for every host that no other route has. */
export function readHostPatternOrAll(value: unknown): Reading<string> {
  return value === CATCH_ALL ? good(CATCH_ALL) : readHostPattern(value);
}

/** A name without wildcard, normalized. */
export function readHost(value: unknown): Reading<string> {
  if (typeof value !== 'string') return bad(EXACT, value);
  const host = normalizeHost(value);
  if (isHostname(host)) return endsInNumber(host) ? bad(notAnAddress(EXACT), value) : good(host);
  if (host.includes('*')) return bad(`${EXACT}, without a wildcard`, value);
  return bad(nameRule(value, EXACT), value);
}

/** No top-level domain is a number: this is an IPv4 address with too few or too many parts. */
function endsInNumber(host: string): boolean {
  const last = host.charCodeAt(host.length - 1);
  if (last < 0x30 || last > 0x39) return false;
  return /^\d+$/.test(host.slice(host.lastIndexOf('.') + 1)) && host.includes('.');
}

function notAnAddress(rule: string): string {
  return `${rule}; it ends in a number, which only an IP address does`;
}

function wildcardRule(host: string): string | undefined {
  if (!host.includes('*')) return undefined;
  if (host === CATCH_ALL)
    return '"*.example.com" with a domain; "*" alone, for every host that no other route has, is allowed only in apps and routes';
  if (host.includes('**')) return '"*.example.com", which matches exactly one label; "**" is not supported';
  if (host.startsWith('*.') && !host.slice(1).includes('*')) return undefined;
  return '"*.example.com", with the wildcard as the whole first label and nowhere else';
}

function nameRule(text: string, otherwise: string): string {
  if (text === '') return otherwise;
  if (text.includes('://')) return `only a host name${suggestion(hostOfUrl(text))}, not a URL`;
  if (parseIp(text.replace(/^\[|\]$/g, '')) !== undefined) {
    return 'a host name, because clients send no SNI for an IP address';
  }
  if (/:\d+$/.test(text)) return `a host name without a port${suggestion(text.replace(/:\d+$/, ''))}`;
  if (text.includes('/')) return `a host name without a path${suggestion(text.slice(0, text.indexOf('/')))}`;
  if (/[^\0-\x7f]/.test(text)) return `a host name in ASCII${suggestion(domainToASCII(text))}`;
  if (text.length > MAX_NAME) return `a host name of at most ${MAX_NAME} characters`;
  if (text.split('.').some(label => label.length > MAX_LABEL)) {
    return `a host name whose labels have at most ${MAX_LABEL} characters`;
  }
  return `${otherwise}; letters, digits and inner hyphens, separated by single dots`;
}

function suggestion(host: string): string {
  const name = normalizeHost(host);
  return isHostname(name) || isWildcard(name) ? `, here ${quote(name)}` : '';
}

function hostOfUrl(text: string): string {
  return URL.canParse(text) ? new URL(text).hostname : '';
}
