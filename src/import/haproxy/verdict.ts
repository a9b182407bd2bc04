// What a condition comes to when host, id and port are known and the client's address is not: it holds, it does not, it
// depends on the address, or nobody can tell.

import { type Cidr, formatIp, parseCidr, parseIp } from '../../wire/ip-address.ts';

export type Verdict = 'yes' | 'no' | 'unknown' | { readonly in: readonly string[] };

/** Longer lists are not worth reading, so that they count as unknown. */
const MAX_CIDRS = 300;
const EVERYONE = ['0.0.0.0/0', '::/0'];

export function not(verdict: Verdict): Verdict {
  if (verdict === 'yes') return 'no';
  if (verdict === 'no') return 'yes';
  return verdict === 'unknown' ? 'unknown' : clients(complement(verdict.in));
}

export function and(a: Verdict, b: Verdict): Verdict {
  if (a === 'no' || b === 'no') return 'no';
  if (a === 'yes') return b;
  if (b === 'yes') return a;
  return a === 'unknown' || b === 'unknown' ? 'unknown' : clients(intersection(a.in, b.in));
}

export function or(a: Verdict, b: Verdict): Verdict {
  if (a === 'yes' || b === 'yes') return 'yes';
  if (a === 'no') return b;
  if (b === 'no') return a;
  return a === 'unknown' || b === 'unknown' ? 'unknown' : clients([...new Set([...a.in, ...b.in])]);
}

/** Nobody and everybody are plain answers. */
export function clients(cidrs: readonly string[] | undefined): Verdict {
  if (cidrs === undefined || cidrs.length > MAX_CIDRS) return 'unknown';
  if (cidrs.length === 0) return 'no';
  return EVERYONE.every(all => cidrs.includes(all)) ? 'yes' : { in: cidrs };
}

/** The CIDRs of clients that are in both lists. */
export function intersection(some: readonly string[], others: readonly string[]): readonly string[] {
  const both = some.flatMap(one => others.map(other => narrower(one, other)));
  return [...new Set(both.filter(cidr => cidr !== undefined))];
}

/** The CIDRs of all other clients; undefined if there would be too many. */
export function complement(cidrs: readonly string[]): readonly string[] | undefined {
  const rest: string[] = [];
  for (const [everyone, bits] of [
    ['0.0.0.0/0', 32],
    ['::/0', 128],
  ] as const) {
    const family = cidrs.filter(cidr => isIpv6(cidr) === isIpv6(everyone)).map(parse);
    // Split what is partly covered, and keep what is not covered at all.
    const open = [parse(everyone)];
    for (const cidr of open) {
      if (rest.length + open.length > 4 * MAX_CIDRS) return undefined;
      if (family.some(other => contains(other, cidr))) continue;
      if (!family.some(other => contains(cidr, other))) rest.push(format(cidr, bits));
      else open.push(...halves(cidr));
    }
  }
  return rest;
}

function narrower(one: string, other: string): string | undefined {
  if (isIpv6(one) !== isIpv6(other)) return undefined;
  const [a, b] = [parse(one), parse(other)];
  if (contains(a, b)) return other;
  return contains(b, a) ? one : undefined;
}

/** Of a text that was checked before. */
function parse(text: string): Cidr {
  return parseCidr(text) ?? { bytes: parseIp('::') as Uint8Array, prefix: 128 };
}

function halves({ bytes, prefix }: Cidr): Cidr[] {
  const second = Uint8Array.from(bytes);
  second[prefix >> 3] |= 0x80 >> (prefix & 7);
  return [
    { bytes, prefix: prefix + 1 },
    { bytes: second, prefix: prefix + 1 },
  ];
}

/** IPv4 is kept as ::ffff:a.b.c.d. */
function format({ bytes, prefix }: Cidr, bits: number): string {
  return `${formatIp(bytes, 0)}/${prefix - (128 - bits)}`;
}

function contains(wide: Cidr, narrow: Cidr): boolean {
  if (wide.prefix > narrow.prefix) return false;
  for (let bit = 0; bit < wide.prefix; bit++) {
    const mask = 0x80 >> (bit & 7);
    if ((wide.bytes[bit >> 3] & mask) !== (narrow.bytes[bit >> 3] & mask)) return false;
  }
  return true;
}

function isIpv6(cidr: string): boolean {
  return cidr.includes(':');
}
