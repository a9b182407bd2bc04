// The authoritative answers of our DNS server: bytes of a query in, bytes of its answer out. No I/O, no exceptions, and few
// objects made for a query. name-table.ts says what to answer; this file writes it down (RFC 1035, EDNS by RFC 6891).
// Answers are minimal: no additional records, no authority where there is an answer.

import {
  BADVERS,
  CLASS_IN,
  FLAG_AUTHORITATIVE,
  FLAG_CHECKING_DISABLED,
  FLAG_RECURSION_DESIRED,
  FLAG_RESPONSE,
  FLAG_TRUNCATED,
  FORMERR,
  HEADER_BYTES,
  NOTIMP,
  REFUSED,
  TYPE_AXFR,
  TYPE_IXFR,
  TYPE_OPT,
  UDP_PAYLOAD,
} from '../wire/dns-message.ts';
import { type DnsQuery, NO_EDNS, parseDnsQuery } from '../wire/dns-query.ts';
import { bareReply, type NameTable, nameTable, type Reply, replyFor } from './name-table.ts';
import type { ServedZones } from './served-zones.ts';
import { placeRecords } from './wire-records.ts';

/** What every client takes (RFC 1035 4.2.1). */
const PLAIN_UDP_BYTES = 512;
const TCP_BYTES = 65_535;
const OPT_BYTES = 11;
/** Type and class. */
const QUESTION_REST_BYTES = 4;
const OPCODE = 0x7800;

const refused = bareReply(REFUSED);
const wrongVersion = bareReply(BADVERS);

export interface Answered {
  /** 0: no answer is sent. */
  readonly length: number;
  readonly rcode: number;
}

const NO_ANSWER: Answered = { length: 0, rcode: -1 };

/** Writes the answer to the query in [from, to) into `into`, which has room for 65535 bytes. */
export type AnswerQuery = (query: Buffer, from: number, to: number, isTcp: boolean, into: Buffer) => Answered;

export function answersFrom(zones: ServedZones): AnswerQuery {
  const table = nameTable(zones);
  return (query, from, to, isTcp, into) => {
    // Anything shorter has no header to answer with; an answer to an answer could go on for ever.
    if (to - from < HEADER_BYTES) return NO_ANSWER;
    const flags = query.readUInt16BE(from + 2);
    if ((flags & FLAG_RESPONSE) !== 0) return NO_ANSWER;
    if ((flags & OPCODE) !== 0) return writeHeader(query, from, NOTIMP, into);
    const parsed = parseDnsQuery(query, from, to);
    if (parsed.kind !== 'found') return writeHeader(query, from, FORMERR, into);
    const reply = chooseReply(table, query, from, parsed.value);
    return { length: writeAnswer(query, from, parsed.value, reply, isTcp, into), rcode: reply.rcode };
  };
}

/** For what has no question that could be repeated. */
function writeHeader(query: Buffer, from: number, rcode: number, into: Buffer): Answered {
  const flags = query.readUInt16BE(from + 2);
  query.copy(into, 0, from, from + 2);
  into.writeUInt16BE(FLAG_RESPONSE | (flags & (OPCODE | FLAG_RECURSION_DESIRED)) | rcode, 2);
  into.fill(0, 4, HEADER_BYTES);
  return { length: HEADER_BYTES, rcode };
}

function chooseReply(
  table: NameTable,
  query: Buffer,
  from: number,
  { ednsVersion, class: questionClass, type, nameBytes }: DnsQuery,
): Reply {
  if (ednsVersion > 0) return wrongVersion;
  if (questionClass !== CLASS_IN || type === TYPE_AXFR || type === TYPE_IXFR) return refused;
  const nameAt = from + HEADER_BYTES;
  return replyFor(table, query.toString('latin1', nameAt, nameAt + nameBytes - 1).toLowerCase(), type);
}

/** Returns the length of the answer. */
function writeAnswer(
  query: Buffer,
  from: number,
  { nameBytes, ednsVersion, udpPayload, dnssecOk }: DnsQuery,
  { rcode, isAuthoritative, records, isAnswer }: Reply,
  isTcp: boolean,
  into: Buffer,
): number {
  let flags = query.readUInt16BE(from + 2) & (FLAG_RECURSION_DESIRED | FLAG_CHECKING_DISABLED);
  flags |= FLAG_RESPONSE | (isAuthoritative ? FLAG_AUTHORITATIVE : 0) | (rcode & 0xf);
  // The question as it was asked, in its own case: some resolvers compare it (0x20).
  let at = HEADER_BYTES + nameBytes + QUESTION_REST_BYTES;
  query.copy(into, HEADER_BYTES, from + HEADER_BYTES, from + at);
  const optBytes = ednsVersion === NO_EDNS ? 0 : OPT_BYTES;
  let count = 0;
  if (records !== undefined) {
    const isFitting = at + records.bytes.length + optBytes <= mostBytes(isTcp, ednsVersion, udpPayload);
    if (isFitting) {
      at = placeRecords(records, into, at, nameBytes);
      count = records.count;
    } else flags |= FLAG_TRUNCATED;
  }
  query.copy(into, 0, from, from + 2);
  into.writeUInt16BE(flags, 2);
  into.writeUInt16BE(1, 4);
  into.writeUInt16BE(isAnswer ? count : 0, 6);
  into.writeUInt16BE(isAnswer ? 0 : count, 8);
  into.writeUInt16BE(optBytes === 0 ? 0 : 1, 10);
  return optBytes === 0 ? at : writeOpt(into, at, rcode, dnssecOk);
}

function mostBytes(isTcp: boolean, ednsVersion: number, udpPayload: number): number {
  if (isTcp) return TCP_BYTES;
  if (ednsVersion === NO_EDNS) return PLAIN_UDP_BYTES;
  return Math.min(Math.max(udpPayload, PLAIN_UDP_BYTES), UDP_PAYLOAD);
}

/** Returns where it ends. */
function writeOpt(into: Buffer, at: number, rcode: number, dnssecOk: boolean): number {
  into[at] = 0;
  into.writeUInt16BE(TYPE_OPT, at + 1);
  into.writeUInt16BE(UDP_PAYLOAD, at + 3);
  into[at + 5] = rcode >> 4;
  into[at + 6] = 0;
  into.writeUInt16BE(dnssecOk ? 0x8000 : 0, at + 7);
  into.writeUInt16BE(0, at + 9);
  return at + OPT_BYTES;
}
