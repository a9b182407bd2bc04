// The first TLS handshake message of a connection, which may be split into several records at any byte (RFC 8446 5.1).
// It is never copied together: first the record headers are walked until the message is complete, then a cursor reads
// it and skips the record headers in between. An incomplete message reports how many bytes it needs at least, so that
// one that trickles in, in the smallest records, is walked about fifty times and not once per byte.

import { latin1 } from './latin1.ts';
import { incomplete, incompleteBelow, type Parsed, reject } from './parsed.ts';

/** RFC 8446 5.1: type, version, length; a plaintext record has 1 to 2^14 bytes of a handshake message. */
const RECORD_HEADER = 5;
const HANDSHAKE_RECORD = 22;
const VERSION_MAJOR = 3;
const MAX_RECORD = 1 << 14;

/** RFC 8446 4: type and 24-bit length. */
export const MESSAGE_HEADER = 4;

/** The read position. `at` is never inside a record header. */
export interface Cursor {
  readonly bytes: Uint8Array;
  at: number;
  recordEnd: number;
  /** `at - shift` is the offset within the handshake message. */
  shift: number;
}

/**
 * The index just after the record that completes the message whose first record starts at `from`. The message must be
 * of the given type, have at most `maxLength` bytes including its record headers, and end with its record.
 */
export function findMessageEnd(
  bytes: Uint8Array,
  from: number,
  to: number,
  type: number,
  maxLength: number,
): number | Parsed<never> {
  let record = from;
  let header = 0; // the message header, collected from one or more records
  let headerLeft = MESSAGE_HEADER;
  let left = MESSAGE_HEADER; // bytes of the message that are not yet in the records
  while (left > 0) {
    const fault = recordFault(bytes, record, to);
    if (fault !== undefined) return reject(fault);
    let at = record + RECORD_HEADER;
    if (at > to) return incompleteBelow(record - from + atLeast(left));
    const end = at + uint16At(bytes, record + 3);
    if (headerLeft > 0) {
      for (; headerLeft > 0 && at < end; headerLeft--) {
        if (at >= to) return incomplete;
        if (headerLeft === MESSAGE_HEADER && bytes[at] !== type) return reject('handshake-type');
        header = (header << 8) | bytes[at++];
      }
      left = headerLeft > 0 ? headerLeft : header & 0xff_ffff;
    }
    left -= end - at;
    // Until it gets an answer, a client sends nothing more in handshake records (RFC 8446 4.1.2, 5.1).
    if (left < 0) return reject('bytes-after-message');
    if (end - from + atLeast(left) > maxLength) return reject('message-too-long');
    record = end;
  }
  return record > to ? incompleteBelow(record - from) : record;
}

/** The size of `length` message bytes with the headers of the fewest records that can carry them. */
function atLeast(length: number): number {
  const records = (length + MAX_RECORD - 1) >> 14;
  return length + records * RECORD_HEADER;
}

/** Checks as much of a record header as has arrived. */
function recordFault(bytes: Uint8Array, at: number, to: number): string | undefined {
  if (at < to && bytes[at] !== HANDSHAKE_RECORD) return 'not-a-handshake-record';
  if (at + 1 < to && bytes[at + 1] !== VERSION_MAJOR) return 'record-version';
  if (at + RECORD_HEADER > to) return undefined;
  const length = uint16At(bytes, at + 3);
  if (length === 0) return 'record-empty';
  return length > MAX_RECORD ? 'record-too-long' : undefined;
}

/** A cursor at the first byte of the message; call it only after findMessageEnd() has found the end. */
export function cursorAt(bytes: Uint8Array, from: number): Cursor {
  const start = from + RECORD_HEADER;
  return { bytes, at: start, recordEnd: start + uint16At(bytes, from + 3), shift: start };
}

/** How many bytes of the message have been read. */
export function offset(cursor: Cursor): number {
  return cursor.at - cursor.shift;
}

/** Whether `count` more bytes end at or before `limit`. Check this before every read. */
export function fits(cursor: Cursor, count: number, limit: number): boolean {
  return cursor.at - cursor.shift + count <= limit;
}

export function uint8(cursor: Cursor): number {
  if (cursor.at === cursor.recordEnd) enterNextRecord(cursor);
  return cursor.bytes[cursor.at++];
}

export function uint16(cursor: Cursor): number {
  return (uint8(cursor) << 8) | uint8(cursor);
}

export function skip(cursor: Cursor, count: number): void {
  let left = count;
  while (left > cursor.recordEnd - cursor.at) {
    left -= cursor.recordEnd - cursor.at;
    enterNextRecord(cursor);
  }
  cursor.at += left;
}

export function text(cursor: Cursor, length: number): string {
  let left = length;
  let result = '';
  while (left > cursor.recordEnd - cursor.at) {
    left -= cursor.recordEnd - cursor.at;
    result += latin1(cursor.bytes, cursor.at, cursor.recordEnd);
    enterNextRecord(cursor);
  }
  result += latin1(cursor.bytes, cursor.at, cursor.at + left);
  cursor.at += left;
  return result;
}

function enterNextRecord(cursor: Cursor): void {
  const header = cursor.recordEnd;
  cursor.at = header + RECORD_HEADER;
  cursor.shift += RECORD_HEADER;
  cursor.recordEnd = cursor.at + uint16At(cursor.bytes, header + 3);
}

function uint16At(bytes: Uint8Array, at: number): number {
  return (bytes[at] << 8) | bytes[at + 1];
}
