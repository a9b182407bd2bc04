// The zones of our DNS server, ready to be looked up: what to answer for each name and type is made once for each change
// of the zones. Wildcards by RFC 4592, negative answers by RFC 2308, ANY by RFC 8482.

import {
  NOERROR,
  NXDOMAIN,
  REFUSED,
  SERVFAIL,
  TYPE_A,
  TYPE_AAAA,
  TYPE_ANY,
  TYPE_HINFO,
  TYPE_NS,
  TYPE_SOA,
} from '../wire/dns-message.ts';
import { encodeDnsName } from '../wire/dns-name.ts';
import type { ServedZone, ServedZones } from './served-zones.ts';
import { addressBytes, encodeRecords, encodeZoneRecords, type WireRecords } from './wire-records.ts';

/** RFC 1035 2.3.4 in this notation. */
const MAX_NAME_TEXT = 253;
/** Of the SOA, in seconds, for secondaries; nobody can transfer these zones. */
const REFRESH = 3600;
const RETRY = 900;
const EXPIRE = 604_800;
/** With serial and minimum, which is how long a negative answer is remembered (RFC 2308 4). */
const SOA_NUMBERS = 5;

/** What to answer. */
export interface Reply {
  readonly rcode: number;
  readonly isAuthoritative: boolean;
  readonly records?: WireRecords;
  /** Whether the records are the answer, or go into the section authority. */
  readonly isAnswer: boolean;
}

export interface NameTable {
  readonly names: ReadonlyMap<string, Name>;
  /** For a name of no zone. */
  readonly otherZone: Reply;
}

/** A name that exists. */
interface Name {
  readonly zone: Zone;
  /** `*` below it. */
  wildcard?: Name;
  /** By type; a name between others has none of its own. */
  readonly replies: Map<number, Reply>;
}

interface Zone {
  /** The name exists, without that type. */
  readonly noData: Reply;
  readonly noName: Reply;
}

/** An answer without records. */
export function bareReply(rcode: number): Reply {
  return { rcode, isAuthoritative: false, isAnswer: false };
}

/** `key`: the name as on the wire, lower case, without the root; each byte is a character. */
export function replyFor({ names, otherZone }: NameTable, key: string, type: number): Reply {
  const exact = names.get(key);
  if (exact !== undefined) return exact.replies.get(type) ?? exact.zone.noData;
  // The closest encloser: the longest ancestor that exists. Only `*` right below it answers (RFC 4592 3.3.1).
  for (let at = 0; at < key.length; ) {
    at += key.charCodeAt(at) + 1;
    const encloser = names.get(key.slice(at));
    if (encloser === undefined) continue;
    const { wildcard, zone } = encloser;
    return wildcard === undefined ? zone.noName : (wildcard.replies.get(type) ?? zone.noData);
  }
  return otherZone;
}

export function nameTable({ zones, ttl, serial, isPartial }: ServedZones): NameTable {
  const names = new Map<string, Name>();
  const notKnownYet = bareReply(SERVFAIL);
  for (const zone of zones) {
    const soa = soaOf(zone, ttl, serial);
    const negative = (rcode: number) => ({ rcode, isAuthoritative: true, records: soa, isAnswer: false });
    const { replies, zone: own } = addName(names, zone.name, zone.name, {
      noData: negative(NOERROR),
      noName: isPartial ? notKnownYet : negative(NXDOMAIN),
    });
    const data = zone.nameServers.map(name => ({ names: [name] }));
    replies.set(TYPE_NS, positive(encodeZoneRecords(zone.name, { type: TYPE_NS, ttl, data })));
    replies.set(TYPE_SOA, positive(soa));
    for (const { name, addresses } of zone.names)
      setAddresses(addName(names, name, zone.name, own).replies, addresses, ttl);
  }
  // RFC 8482 4.2: one small record for those who want everything.
  const cpu = Buffer.from('\x07RFC8482\0', 'latin1');
  const any = positive(encodeRecords({ type: TYPE_HINFO, ttl, data: [cpu] }));
  for (const { replies } of names.values()) replies.set(TYPE_ANY, any);
  return { names, otherZone: isPartial ? notKnownYet : bareReply(REFUSED) };
}

function positive(records: WireRecords): Reply {
  return { rcode: NOERROR, isAuthoritative: true, records, isAnswer: true };
}

/** With the names between it and its zone, which exist by it. */
function addName(names: Map<string, Name>, name: string, zoneName: string, zone: Zone): Name {
  const key = keyOf(name);
  const known = names.get(key);
  if (known !== undefined) return known;
  const added: Name = { zone, replies: new Map() };
  names.set(key, added);
  if (name === zoneName) return added;
  const parent = addName(names, name.slice(name.indexOf('.') + 1), zoneName, zone);
  if (name.startsWith('*.')) parent.wildcard = added;
  return added;
}

function keyOf(name: string): string {
  return Buffer.from(encodeDnsName(name).subarray(0, -1)).toString('latin1');
}

function setAddresses(replies: Name['replies'], addresses: readonly string[], ttl: number): void {
  const all = addresses.map(addressBytes);
  for (const [type, length] of [
    [TYPE_A, 4],
    [TYPE_AAAA, 16],
  ] as const) {
    const data = all.filter(each => each.length === length);
    if (data.length > 0) replies.set(type, positive(encodeRecords({ type, ttl, data })));
  }
}

function soaOf({ name, nameServers: [first] }: ServedZone, ttl: number, serial: number): WireRecords {
  const rest = Buffer.alloc(4 * SOA_NUMBERS);
  [serial >>> 0, REFRESH, RETRY, EXPIRE, ttl].forEach((number, i) => rest.writeUInt32BE(number, 4 * i));
  const data = [{ names: [first, mailboxOf(name)], rest }];
  return encodeZoneRecords(name, { type: TYPE_SOA, ttl, data });
}

function mailboxOf(zone: string): string {
  const name = `hostmaster.${zone}`;
  return name.length <= MAX_NAME_TEXT ? name : zone;
}
