// Records as an answer carries them, made once and copied into each answer. Their names are pointers (RFC 1035 4.1.4): to
// the question, or to the zone's name at the end of the question, whose place depends on the question and is filled in.

import { CLASS_IN, HEADER_BYTES } from '../wire/dns-message.ts';
import { encodeDnsName } from '../wire/dns-name.ts';
import { isIpv4, parseIp } from '../wire/ip-address.ts';

const POINTER = 0xc000;
/** The owner as a pointer, type, class, TTL, length of the data. */
const RECORD_HEAD = 12;

export interface WireRecords {
  readonly bytes: Uint8Array;
  readonly count: number;
  /** Where `bytes` has pointers to the name of the zone. */
  readonly zonePointers: readonly number[];
  /** The length of the zone's name, root included. */
  readonly zoneBytes: number;
}

export interface RecordSet {
  readonly type: number;
  readonly ttl: number;
  /** One for each record. */
  readonly data: readonly Uint8Array[];
}

/** Of the name in question. */
export function encodeRecords({ type, ttl, data }: RecordSet): WireRecords {
  const bytes = Buffer.concat(data.map(each => recordBytes(type, ttl, each)));
  return { bytes, count: data.length, zonePointers: [], zoneBytes: 0 };
}

/** Of the zone that the name in question is in. Each of its data begins with names. */
export function encodeZoneRecords(
  zone: string,
  { type, ttl, data }: Omit<RecordSet, 'data'> & { readonly data: readonly ZoneData[] },
): WireRecords {
  const zonePointers: number[] = [];
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const { names, rest = new Uint8Array(0) } of data) {
    zonePointers.push(at);
    const coded = names.map(name => encodeInZone(name, zone));
    let end = at + RECORD_HEAD;
    for (const { bytes, hasPointer } of coded) {
      end += bytes.length;
      if (hasPointer) zonePointers.push(end - 2);
    }
    const record = recordBytes(type, ttl, Buffer.concat([...coded.map(({ bytes }) => bytes), rest]));
    parts.push(record);
    at += record.length;
  }
  return { bytes: Buffer.concat(parts), count: data.length, zonePointers, zoneBytes: wireLength(zone) };
}

export interface ZoneData {
  readonly names: readonly string[];
  readonly rest?: Uint8Array;
}

/** Copies them to `at`, behind a question whose name has `nameBytes`. Returns where they end. */
export function placeRecords(records: WireRecords, into: Buffer, at: number, nameBytes: number): number {
  const { bytes, zonePointers, zoneBytes } = records;
  into.set(bytes, at);
  for (const position of zonePointers)
    into.writeUInt16BE(POINTER | (HEADER_BYTES + nameBytes - zoneBytes), at + position);
  return at + bytes.length;
}

/** 4 bytes, or 16. */
export function addressBytes(address: string): Uint8Array {
  const bytes = parseIp(address) ?? new Uint8Array(16);
  return isIpv4(bytes, 0) ? bytes.subarray(12) : bytes;
}

function recordBytes(type: number, ttl: number, data: Uint8Array): Buffer {
  const bytes = Buffer.alloc(RECORD_HEAD + data.length);
  bytes.writeUInt16BE(POINTER | HEADER_BYTES, 0);
  bytes.writeUInt16BE(type, 2);
  bytes.writeUInt16BE(CLASS_IN, 4);
  bytes.writeUInt32BE(ttl, 6);
  bytes.writeUInt16BE(data.length, 10);
  bytes.set(data, RECORD_HEAD);
  return bytes;
}

function encodeInZone(
  name: string,
  zone: string,
): { readonly bytes: Uint8Array; readonly hasPointer: boolean } {
  if (name !== zone && !name.endsWith(`.${zone}`)) return { bytes: encodeDnsName(name), hasPointer: false };
  // Its own labels, then room for the pointer where the root was.
  const own = encodeDnsName(name === zone ? '' : name.slice(0, -zone.length - 1)).subarray(0, -1);
  return { bytes: Buffer.concat([own, new Uint8Array(2)]), hasPointer: true };
}

function wireLength(name: string): number {
  return encodeDnsName(name).length;
}
