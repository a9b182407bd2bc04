// Allow lists from objects: CIDRs that somebody else wrote. An entry that cannot be read admits nobody, so that a mistake
// never lets in more clients than intended.

import { show } from '../config/reading.ts';
import { type Cidr, isIpv4, parseCidr } from '../wire/ip-address.ts';
import type { Report } from './report.ts';

/** As many as HyperShift accepts. Two lists are compared entry by entry, so their length must be bounded. */
const MAX_RANGES = 500;
const SHOWN = 3;
const IPV4_BITS = 96;

/** A list such as `spec.networkProfile.loadBalancerSourceRanges`. Absent and empty mean anyone, as for a Service. */
export function readRangeList(value: unknown, where: string, report: Report): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (Array.isArray(value))
    return value.length === 0 ? undefined : readRanges(value, where, 'AllowInvalid', report);
  const text = `${where} must be a list of CIDRs: current value is ${show(value)}; until then nobody is admitted`;
  report('error', 'AllowInvalid', text, `Use a list: ["10.0.0.0/8"]`);
  return [];
}

/** A comma list such as annotation `causeway.dev/allow`. Absent means anyone, empty means nobody. */
export function readRangeText(value: unknown, where: string, report: Report): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const items = typeof value === 'string' ? value.split(',').filter(item => item.trim() !== '') : [value];
  if (items.length > 0) return readRanges(items, where, 'AnnotationInvalid', report);
  report(
    'error',
    'AnnotationInvalid',
    `${where} is empty, so nobody is admitted`,
    'Remove it to admit anyone',
  );
  return [];
}

/** The clients that both lists admit; undefined admits anyone. */
export function narrowRanges(
  a: readonly string[] | undefined,
  b: readonly string[] | undefined,
): readonly string[] | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const [left, right] = [a, b].map(list => list.map(text => ({ text, cidr: parseCidr(text) as Cidr })));
  // CIDRs are nested or disjoint: what two of them have in common is the smaller one.
  const within = (list: typeof left, others: typeof left) =>
    list.filter(({ cidr }) => others.some(other => contains(other.cidr, cidr)));
  return [...new Set([...within(left, right), ...within(right, left)].map(({ text }) => text))];
}

function readRanges(
  items: readonly unknown[],
  where: string,
  code: 'AllowInvalid' | 'AnnotationInvalid',
  report: Report,
): readonly string[] {
  const read = items.slice(0, MAX_RANGES).map(item => (typeof item === 'string' ? item.trim() : item));
  const isRange = (item: unknown): item is string =>
    typeof item === 'string' && parseCidr(item) !== undefined;
  const invalid = read.filter(item => !isRange(item));
  if (invalid.length > 0) {
    const more = invalid.length > SHOWN ? ` and ${invalid.length - SHOWN} more` : '';
    const shown = `${invalid.slice(0, SHOWN).map(show).join(', ')}${more}`;
    const fix = 'Use CIDRs or addresses such as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32';
    report('error', code, `${where} has entries that are no CIDR and admit nobody: ${shown}`, fix);
  }
  if (items.length > MAX_RANGES) {
    const text = `${where} has ${items.length} entries; only the first ${MAX_RANGES} admit clients`;
    report('error', code, text, 'Use fewer, larger ranges');
  }
  return [...new Set(read.filter(isRange))];
}

/** IPv4 and IPv6 are matched separately: `::/0` admits no IPv4 client. */
function contains(outer: Cidr, inner: Cidr): boolean {
  if (outer.prefix > inner.prefix || isOfIpv4(outer) !== isOfIpv4(inner)) return false;
  const whole = outer.prefix >> 3;
  for (let i = 0; i < whole; i++) if (outer.bytes[i] !== inner.bytes[i]) return false;
  const rest = outer.prefix & 7;
  return rest === 0 || (outer.bytes[whole] ^ inner.bytes[whole]) >> (8 - rest) === 0;
}

function isOfIpv4({ bytes, prefix }: Cidr): boolean {
  return prefix >= IPV4_BITS && isIpv4(bytes, 0);
}
