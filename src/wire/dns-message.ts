// Whole DNS messages (RFC 1035 4.1), as a client needs them: a query to send, and an answer to read with all its records.
// The server has a codec of its own, which copies nothing: dns-query.ts.

import { encodeDnsName, readDnsName } from './dns-name.ts';
import { formatIp, mapIp } from './ip-address.ts';
import { found, incomplete, type Parsed, reject } from './parsed.ts';

export const TYPE_A = 1;
export const TYPE_NS = 2;
export const TYPE_CNAME = 5;
export const TYPE_SOA = 6;
export const TYPE_HINFO = 13;
export const TYPE_AAAA = 28;
export const TYPE_OPT = 41;
export const TYPE_IXFR = 251;
export const TYPE_AXFR = 252;
export const TYPE_ANY = 255;
export const CLASS_IN = 1;

export const NOERROR = 0;
export const FORMERR = 1;
export const SERVFAIL = 2;
export const NXDOMAIN = 3;
export const NOTIMP = 4;
export const REFUSED = 5;
export const BADVERS = 16;

/** By number; others are `RCODE17`. */
const rcodeNames: readonly (string | undefined)[] = [
  'NOERROR',
  'FORMERR',
  'SERVFAIL',
  'NXDOMAIN',
  'NOTIMP',
  'REFUSED',
  'YXDOMAIN',
  'YXRRSET',
  'NXRRSET',
  'NOTAUTH',
  'NOTZONE',
  ...Array.from({ length: 5 }, () => undefined),
  'BADVERS',
];

export const HEADER_BYTES = 12;
/** Bits of the second 16 in the header. */
export const FLAG_RESPONSE = 0x8000;
export const FLAG_AUTHORITATIVE = 0x0400;
export const FLAG_TRUNCATED = 0x0200;
export const FLAG_RECURSION_DESIRED = 0x0100;
export const FLAG_CHECKING_DISABLED = 0x0010;
/** Fits into every path without fragments (DNS flag day 2020). */
export const UDP_PAYLOAD = 1232;

export interface DnsRecord {
  readonly name: string;
  readonly type: number;
  readonly class: number;
  /** Seconds. */
  readonly ttl: number;
  /** An address, or the name that a CNAME or NS leads to; absent for other types. */
  readonly data?: string;
}

export interface DnsMessage {
  readonly id: number;
  readonly flags: number;
  /** With the bits of OPT. */
  readonly rcode: number;
  readonly questions: readonly { readonly name: string; readonly type: number; readonly class: number }[];
  readonly answers: readonly DnsRecord[];
  readonly authority: readonly DnsRecord[];
  readonly additional: readonly DnsRecord[];
  readonly end: number;
}

export interface DnsQueryOptions {
  readonly id: number;
  /** Of letters, digits, `-`, `_` and `*`. */
  readonly name: string;
  readonly type: number;
}

export function rcodeName(rcode: number): string {
  return rcodeNames[rcode] ?? `RCODE${rcode}`;
}

/** One question, with recursion desired and EDNS. */
export function buildDnsQuery({ id, name, type }: DnsQueryOptions): Uint8Array {
  const wireName = encodeDnsName(name);
  const bytes = new Uint8Array(HEADER_BYTES + wireName.length + 4 + 11);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, id);
  view.setUint16(2, FLAG_RECURSION_DESIRED);
  view.setUint16(4, 1);
  view.setUint16(10, 1);
  bytes.set(wireName, HEADER_BYTES);
  let at = HEADER_BYTES + wireName.length;
  view.setUint16(at, type);
  view.setUint16(at + 2, CLASS_IN);
  at += 5;
  view.setUint16(at, TYPE_OPT);
  view.setUint16(at + 2, UDP_PAYLOAD);
  return bytes;
}

/** The message that begins at `from`, within [from, to). */
export function parseDnsMessage(bytes: Uint8Array, from: number, to: number): Parsed<DnsMessage> {
  if (to - from < HEADER_BYTES) return incomplete;
  const count = (offset: number) => uint16(bytes, from + offset);
  const flags = count(2);
  let at = from + HEADER_BYTES;
  const questions: DnsMessage['questions'][number][] = [];
  for (let i = count(4); i > 0; i--) {
    const name = readDnsName(bytes, at, from, to);
    if (typeof name === 'string') return notRead(name);
    if (name.end + 4 > to) return incomplete;
    questions.push({
      name: name.text,
      type: uint16(bytes, name.end),
      class: uint16(bytes, name.end + 2),
    });
    at = name.end + 4;
  }
  const sections: DnsRecord[][] = [];
  let rcode = flags & 0xf;
  for (const offset of [6, 8, 10]) {
    const records: DnsRecord[] = [];
    for (let i = count(offset); i > 0; i--) {
      const record = readRecord(bytes, at, from, to);
      if ('kind' in record) return record;
      if (record.type === TYPE_OPT) rcode |= (record.ttl >>> 24) << 4;
      records.push(record.record);
      at = record.end;
    }
    sections.push(records);
  }
  const [answers, authority, additional] = sections;
  return found({ id: count(0), flags, rcode, questions, answers, authority, additional, end: at });
}

type ReadRecord =
  | { readonly record: DnsRecord; readonly type: number; readonly ttl: number; readonly end: number }
  | Parsed<never>;

function readRecord(bytes: Uint8Array, at: number, from: number, to: number): ReadRecord {
  const name = readDnsName(bytes, at, from, to);
  if (typeof name === 'string') return notRead(name);
  const head = name.end;
  if (head + 10 > to) return incomplete;
  const type = uint16(bytes, head);
  const ttl = ((uint16(bytes, head + 4) << 16) | uint16(bytes, head + 6)) >>> 0;
  const dataAt = head + 10;
  const end = dataAt + uint16(bytes, head + 8);
  if (end > to) return incomplete;
  const data = dataOf(bytes, type, dataAt, end, from);
  if (data === 'bad') return reject('record-data-invalid');
  const record = { name: name.text, type, class: uint16(bytes, head + 2), ttl, ...data };
  return { record, type, ttl, end };
}

function dataOf(
  bytes: Uint8Array,
  type: number,
  at: number,
  end: number,
  from: number,
): { readonly data: string } | undefined | 'bad' {
  if (type === TYPE_A || type === TYPE_AAAA) {
    if (end - at !== (type === TYPE_A ? 4 : 16)) return 'bad';
    return { data: formatIp(mapIp(bytes.subarray(at, end))) };
  }
  if (type !== TYPE_CNAME && type !== TYPE_NS) return undefined;
  const name = readDnsName(bytes, at, from, end);
  return typeof name === 'string' || name.end !== end ? 'bad' : { data: name.text };
}

function notRead(reason: string): Parsed<never> {
  return reason === 'incomplete' ? incomplete : reject(reason);
}

function uint16(bytes: Uint8Array, at: number): number {
  return (bytes[at] << 8) | bytes[at + 1];
}
