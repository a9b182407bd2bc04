// A DNS query as the server reads it (RFC 1035 4.1, EDNS by RFC 6891): one question, and what its OPT record says. It
// gives positions instead of names, so that nothing is copied.

import { HEADER_BYTES, TYPE_OPT } from './dns-message.ts';
import { MAX_LABEL_BYTES, MAX_NAME_BYTES } from './dns-name.ts';
import { found, incomplete, type Parsed, reject } from './parsed.ts';

/** No OPT record in the query. */
export const NO_EDNS = -1;
const POINTER = 0xc0;
/** Of a record behind its name: type, class, TTL, length of its data. */
const RECORD_BYTES = 10;

export interface DnsQuery {
  /** The length of the name in question, root included. It begins behind the header. */
  readonly nameBytes: number;
  readonly type: number;
  readonly class: number;
  /** Or NO_EDNS. */
  readonly ednsVersion: number;
  /** The largest answer that the client takes over UDP, as it says. */
  readonly udpPayload: number;
  /** The bit DO, to be copied into the answer (RFC 3225). */
  readonly dnssecOk: boolean;
  readonly end: number;
}

/** The query in [from, to). Its header is the caller's: who asks at all is decided before. */
export function parseDnsQuery(bytes: Uint8Array, from: number, to: number): Parsed<DnsQuery> {
  if (to - from < HEADER_BYTES) return incomplete;
  // RFC 9619: a query has one question.
  if (uint16(bytes, from + 4) !== 1) return reject('not-one-question');
  if (uint16(bytes, from + 6) !== 0 || uint16(bytes, from + 8) !== 0) return reject('records-in-query');
  let at = from + HEADER_BYTES;
  const first = at;
  for (;;) {
    if (at >= to) return incomplete;
    const length = bytes[at];
    if (length > MAX_LABEL_BYTES) return reject('label-too-long');
    at += length + 1;
    if (at - first > MAX_NAME_BYTES) return reject('name-too-long');
    if (length === 0) break;
  }
  const nameBytes = at - first;
  if (at + 4 > to) return incomplete;
  const type = uint16(bytes, at);
  const questionClass = uint16(bytes, at + 2);
  at += 4;
  let ednsVersion = NO_EDNS;
  let udpPayload = 0;
  let dnssecOk = false;
  for (let i = uint16(bytes, from + 10); i > 0; i--) {
    const name = at;
    at = skipName(bytes, at, to);
    if (at < 0) return at === SKIP_INCOMPLETE ? incomplete : reject('label-too-long');
    if (at + RECORD_BYTES > to) return incomplete;
    if (uint16(bytes, at) === TYPE_OPT) {
      if (ednsVersion !== NO_EDNS) return reject('two-opts');
      if (bytes[name] !== 0) return reject('opt-not-at-root');
      udpPayload = uint16(bytes, at + 2);
      ednsVersion = bytes[at + 5];
      dnssecOk = (bytes[at + 6] & 0x80) !== 0;
    }
    at += RECORD_BYTES + uint16(bytes, at + 8);
    if (at > to) return incomplete;
  }
  return found({ nameBytes, type, class: questionClass, ednsVersion, udpPayload, dnssecOk, end: at });
}

const SKIP_INCOMPLETE = -1;
const SKIP_REJECTED = -2;

/** Behind a name that may end with a pointer, which is not followed. */
function skipName(bytes: Uint8Array, at: number, to: number): number {
  for (;;) {
    if (at >= to) return SKIP_INCOMPLETE;
    const length = bytes[at];
    if (length === 0) return at + 1;
    if (length >= POINTER) return at + 2 > to ? SKIP_INCOMPLETE : at + 2;
    if (length > MAX_LABEL_BYTES) return SKIP_REJECTED;
    at += length + 1;
  }
}

function uint16(bytes: Uint8Array, at: number): number {
  return (bytes[at] << 8) | bytes[at + 1];
}
