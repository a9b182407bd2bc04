// Which client addresses are admitted: `allow`, `balancers` and `agents` of the file, compiled once per table and
// checked for each connection. A lookup is a binary search, so a list may have thousands of entries.

import { parseCidr } from '../../wire/ip-address.ts';

export interface AllowList {
  /** Whether the 16 bytes at `at` are admitted; IPv4 is ::ffff:a.b.c.d. */
  admits(address: Uint8Array, at: number): boolean;
}

/** The IPv4 addresses are ::ffff:0:0/96 (RFC 4291 2.5.5.2), whose first words are 0, 0 and this. */
const MAPPED_WORD = 0xffff;

/** Words per address, and per range: its first and its last address. */
const ADDRESS = 4;
const RANGE = 2 * ADDRESS;

/** Shared by all empty lists, since 10,000 clusters may have a short list each. */
const NONE = new Uint32Array(0);

/**
 * `undefined` admits anyone, an empty list nobody. IPv4 and IPv6 are matched separately: `::/0` admits no IPv4 client.
 */
export function compileAllowList(cidrs: readonly string[] | undefined): AllowList | undefined {
  if (cidrs === undefined) return undefined;
  const ranges = cidrs.map(rangeOf);
  return new SortedRanges(
    disjoint(ranges.filter(isMapped), ADDRESS - 1),
    disjoint(
      ranges.filter(range => !isMapped(range)),
      0,
    ),
  );
}

class SortedRanges implements AllowList {
  /** Two words per range. */
  readonly #ipv4: Uint32Array;
  /** Eight words per range. */
  readonly #ipv6: Uint32Array;

  constructor(ipv4: Uint32Array, ipv6: Uint32Array) {
    this.#ipv4 = ipv4;
    this.#ipv6 = ipv6;
  }

  admits(address: Uint8Array, at: number): boolean {
    const a = wordAt(address, at);
    const b = wordAt(address, at + 4);
    const c = wordAt(address, at + 8);
    const d = wordAt(address, at + 12);
    return a === 0 && b === 0 && c === MAPPED_WORD ? this.#hasIpv4(d) : this.#hasIpv6(a, b, c, d);
  }

  #hasIpv4(address: number): boolean {
    const ranges = this.#ipv4;
    let low = 0;
    let high = ranges.length >>> 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (address < ranges[2 * middle]) high = middle;
      else if (address > ranges[2 * middle + 1]) low = middle + 1;
      else return true;
    }
    return false;
  }

  #hasIpv6(a: number, b: number, c: number, d: number): boolean {
    const ranges = this.#ipv6;
    let low = 0;
    let high = ranges.length / RANGE;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const first = middle * RANGE;
      if (compare(a, b, c, d, ranges, first) < 0) high = middle;
      else if (compare(a, b, c, d, ranges, first + ADDRESS) > 0) low = middle + 1;
      else return true;
    }
    return false;
  }
}

function wordAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3]) >>> 0;
}

/** Sign of the address a:b:c:d minus the address at `at`. */
function compare(a: number, b: number, c: number, d: number, words: Uint32Array, at: number): number {
  if (a !== words[at]) return a < words[at] ? -1 : 1;
  if (b !== words[at + 1]) return b < words[at + 1] ? -1 : 1;
  if (c !== words[at + 2]) return c < words[at + 2] ? -1 : 1;
  if (d !== words[at + 3]) return d < words[at + 3] ? -1 : 1;
  return 0;
}

interface Range {
  readonly prefix: number;
  /** Eight words: the first and the last address. */
  readonly words: Uint32Array;
}

/** The file was checked before, so an invalid entry here is our own mistake; admitting nobody would hide it. */
function rangeOf(text: string): Range {
  const cidr = parseCidr(text);
  if (cidr === undefined)
    throw new TypeError(`Cannot compile an allow list as an entry is not a CIDR: '${text}'`);
  const words = new Uint32Array(RANGE);
  for (let i = 0; i < ADDRESS; i++) {
    const hostBits = Math.min(32, Math.max(0, 32 * (i + 1) - cidr.prefix));
    const hostMask = 2 ** hostBits - 1;
    const word = wordAt(cidr.bytes, 4 * i);
    words[i] = word;
    words[ADDRESS + i] = word | hostMask;
  }
  return { prefix: cidr.prefix, words };
}

/** Entirely within IPv4. A wider range, such as ::/0, has other first words and means only its IPv6 addresses. */
function isMapped({ words }: Range): boolean {
  return words[0] === 0 && words[1] === 0 && words[2] === MAPPED_WORD;
}

/** Sorted, without ranges inside others (CIDRs nest or are disjoint), each reduced to its words from `skipped` on. */
function disjoint(ranges: readonly Range[], skipped: number): Uint32Array {
  if (ranges.length === 0) return NONE;
  const kept: Range[] = [];
  for (const range of ranges.toSorted((x, y) => compareAt(x.words, y.words, 0) || x.prefix - y.prefix)) {
    const last = kept.at(-1);
    if (last === undefined || compareAt(range.words, last.words, ADDRESS) > 0) kept.push(range);
  }
  const size = ADDRESS - skipped;
  const packed = new Uint32Array(kept.length * 2 * size);
  for (const [i, { words }] of kept.entries()) {
    packed.set(words.subarray(skipped, ADDRESS), i * 2 * size);
    packed.set(words.subarray(ADDRESS + skipped), (i * 2 + 1) * size);
  }
  return packed;
}

/** Sign of the difference between the addresses at `at` in two ranges. */
function compareAt(x: Uint32Array, y: Uint32Array, at: number): number {
  return compare(x[at], x[at + 1], x[at + 2], x[at + 3], y, at);
}
