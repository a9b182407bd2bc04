// IP addresses as the gateway stores them everywhere: 16 bytes, IPv4 as ::ffff:a.b.c.d (RFC 4291 2.5.5.2), so that
// peers of dual-stack sockets, PROXY sources and configured CIDRs compare without a case per family.

/** The bytes before the IPv4 address in its mapped form, and the same in bits. */
const MAPPED_PREFIX = 12;
const MAPPED_BITS = 96;

/** No leading zeros: some programs read 010 as eight and would disagree about the address. */
const DECIMAL_BYTE = /^(0|[1-9]\d{0,2})$/;
const HEX_GROUP = /^[0-9a-f]{1,4}$/i;
const PREFIX_LENGTH = /^(0|[1-9]\d{0,2})$/;

export interface Cidr {
  /** The network, 16 bytes, host bits zero. */
  readonly bytes: Uint8Array;
  /** 0 to 128 in the 16-byte form: 10.0.0.0/8 has 104. */
  readonly prefix: number;
}

/** Parses a dotted quad or RFC 4291 text, without brackets or zone; always returns 16 bytes. */
export function parseIp(text: string): Uint8Array | undefined {
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text);
}

/** Converts 4 or 16 raw bytes, as in PROXY headers, to 16; returns 16 bytes unchanged. */
export function mapIp(address: Uint8Array): Uint8Array {
  if (address.length === 16) return address;
  const bytes = emptyMapped();
  bytes.set(address, MAPPED_PREFIX);
  return bytes;
}

/** Whether the 16 bytes at `at` are an IPv4 address in its mapped form. */
export function isIpv4(bytes: Uint8Array, at: number): boolean {
  for (let i = 0; i < MAPPED_PREFIX - 2; i++) {
    if (bytes[at + i] !== 0) return false;
  }
  return bytes[at + 10] === 0xff && bytes[at + 11] === 0xff;
}

/** RFC 5952 text of the 16 bytes at `at`; a mapped IPv4 address is a dotted quad. */
export function formatIp(bytes: Uint8Array, at = 0): string {
  if (isIpv4(bytes, at)) return formatIpv4(bytes, at + MAPPED_PREFIX);
  const zeros = longestZeroRun(bytes, at);
  if (zeros.length === 0) return formatGroups(bytes, at, 0, 8);
  return `${formatGroups(bytes, at, 0, zeros.start)}::${formatGroups(bytes, at, zeros.start + zeros.length, 8)}`;
}

/** `1.2.3.4:5` or `[::1]:5`. */
export function formatIpPort(bytes: Uint8Array, at: number, port: number): string {
  const text = formatIp(bytes, at);
  return isIpv4(bytes, at) ? `${text}:${port}` : `[${text}]:${port}`;
}

/** `10.0.0.0/8`, `::/0`, or a single address. Host bits are masked off. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/');
  const address = parseIp(slash < 0 ? text : text.slice(0, slash));
  if (address === undefined) return undefined;
  if (slash < 0) return { bytes: address, prefix: 128 };
  const length = text.slice(slash + 1);
  if (!PREFIX_LENGTH.test(length)) return undefined;
  const prefix = Number(length) + (text.includes(':') ? 0 : MAPPED_BITS);
  if (prefix > 128) return undefined;
  maskHostBits(address, prefix);
  return { bytes: address, prefix };
}

function parseIpv4(text: string): Uint8Array | undefined {
  const address = emptyMapped();
  return writeIpv4(text, address, MAPPED_PREFIX) ? address : undefined;
}

function emptyMapped(): Uint8Array {
  const address = new Uint8Array(16);
  address[10] = 0xff;
  address[11] = 0xff;
  return address;
}

function writeIpv4(text: string, into: Uint8Array, at: number): boolean {
  const parts = text.split('.', 5);
  if (parts.length !== 4) return false;
  return parts.every((part, i) => {
    const value = Number(part);
    if (!DECIMAL_BYTE.test(part) || value > 255) return false;
    into[at + i] = value;
    return true;
  });
}

/** `::` may occur once, for at least one group of zeros. */
function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split('::', 3);
  if (halves.length > 2) return undefined;
  const address = new Uint8Array(16);
  const last = halves.length - 1;
  const head = writeGroups(halves[0], address, last === 0);
  if (head === undefined) return undefined;
  if (last === 0) return head === 16 ? address : undefined;
  const rest = new Uint8Array(16);
  const tail = writeGroups(halves[1], rest, true);
  if (tail === undefined || head + tail > 14) return undefined;
  address.set(rest.subarray(0, tail), 16 - tail);
  return address;
}

/**
 * Writes colon-separated groups and returns how many bytes they take, which may be more than 16 (the excess is not
 * written). A dotted quad is allowed only at the very end.
 */
function writeGroups(text: string, into: Uint8Array, quadAllowed: boolean): number | undefined {
  if (text === '') return 0;
  const groups = text.split(':', 9);
  let at = 0;
  for (const [i, group] of groups.entries()) {
    if (quadAllowed && i === groups.length - 1 && group.includes('.')) {
      return writeIpv4(group, into, at) ? at + 4 : undefined;
    }
    if (!HEX_GROUP.test(group)) return undefined;
    const value = Number.parseInt(group, 16);
    into[at++] = value >> 8;
    into[at++] = value & 0xff;
  }
  return at;
}

function formatIpv4(bytes: Uint8Array, at: number): string {
  return `${bytes[at]}.${bytes[at + 1]}.${bytes[at + 2]}.${bytes[at + 3]}`;
}

/** RFC 5952 4.2: the longest run of two or more zero groups is shortened, the first one on a tie. */
function longestZeroRun(bytes: Uint8Array, at: number): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (let group = 0; group <= 8; group++) {
    if (group < 8 && groupAt(bytes, at, group) === 0) continue;
    const length = group - start;
    if (length >= 2 && length > best.length) best = { start, length };
    start = group + 1;
  }
  return best;
}

function formatGroups(bytes: Uint8Array, at: number, from: number, to: number): string {
  const groups: string[] = [];
  for (let group = from; group < to; group++) groups.push(groupAt(bytes, at, group).toString(16));
  return groups.join(':');
}

function groupAt(bytes: Uint8Array, at: number, group: number): number {
  return (bytes[at + 2 * group] << 8) | bytes[at + 2 * group + 1];
}

function maskHostBits(address: Uint8Array, prefix: number): void {
  for (let i = 0; i < 16; i++) {
    const kept = Math.min(8, Math.max(0, prefix - 8 * i));
    address[i] &= 0xff << (8 - kept);
  }
}
