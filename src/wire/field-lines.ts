// The field lines of an HTTP/1 head, as positions in its bytes. A proxy passes most of them on as they are and compares
// the rest in place, so a usual head needs no strings. Filled by endOfLines() (http-head.ts).

import { connectionOptions } from './connection-options.ts';
import { lowerCase } from './latin1.ts';

/** What a field means to a proxy. */
export const OTHER = 0;
export const HOST = 1;
export const CONTENT_LENGTH = 2;
export const TRANSFER_ENCODING = 3;
export const CONNECTION = 4;
export const UPGRADE = 5;
export const KEEP_ALIVE = 6;
export const PROXY_CONNECTION = 7;
export const TE = 8;
export const TRAILER = 9;
export const EXPECT = 10;
export const FORWARDED = 11;
export const X_FORWARDED_FOR = 12;
export const X_FORWARDED_PROTO = 13;
export const X_FORWARDED_HOST = 14;
/** Any other `X-Forwarded-…`. */
export const X_FORWARDED = 15;
/** A name of this list spelled with `_`: programs that follow CGI's rules read `X_Forwarded_For` as `X-Forwarded-For`. */
export const DISGUISED = 16;

const kinds: Readonly<Record<string, number>> = {
  host: HOST,
  'content-length': CONTENT_LENGTH,
  'transfer-encoding': TRANSFER_ENCODING,
  connection: CONNECTION,
  upgrade: UPGRADE,
  'keep-alive': KEEP_ALIVE,
  'proxy-connection': PROXY_CONNECTION,
  te: TE,
  trailer: TRAILER,
  expect: EXPECT,
  forwarded: FORWARDED,
  'x-forwarded-for': X_FORWARDED_FOR,
  'x-forwarded-proto': X_FORWARDED_PROTO,
  'x-forwarded-host': X_FORWARDED_HOST,
};
const forwardedPrefix = Buffer.from('x-forwarded-');

interface KnownName {
  readonly bytes: Uint8Array;
  readonly kind: number;
}

const namesByLength: KnownName[][] = [];
for (const [name, kind] of Object.entries(kinds)) {
  namesByLength[name.length] ??= [];
  namesByLength[name.length].push({ bytes: Buffer.from(name), kind });
}

const TAB = 0x09;
const SPACE = 0x20;
const DASH = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const UNDERSCORE = 0x5f;
/** More digits would not be exact in a double. */
const MAX_DIGITS = 15;
/** Lines that fit without growing. */
const USUAL_LINES = 32;

/** In lower case, with `-` for `_`. */
const plain = lowerCase.map(byte => (byte === UNDERSCORE ? DASH : byte));

/** One serves one head after another: the positions are valid until the next head is read. */
export class FieldLines {
  count = 0;
  /** Where the first line of the head ends. */
  firstTo = 0;
  /** What the Connection fields say: connection-options.ts. */
  options = 0;
  kind = new Uint8Array(USUAL_LINES);
  nameFrom = new Int32Array(USUAL_LINES);
  /** The colon. */
  nameTo = new Int32Array(USUAL_LINES);
  /** Without surrounding space. */
  valueFrom = new Int32Array(USUAL_LINES);
  valueTo = new Int32Array(USUAL_LINES);
  lineTo = new Int32Array(USUAL_LINES);

  clear(firstTo: number): void {
    this.count = 0;
    this.options = 0;
    this.firstTo = firstTo;
  }

  /** RFC 9110 5.5: only spaces and tabs surround a value. */
  add(bytes: Uint8Array, from: number, colon: number, to: number): void {
    if (this.count === this.kind.length) this.#grow();
    const index = this.count++;
    let start = colon + 1;
    let end = to;
    while (start < end && isSpace(bytes[start])) start++;
    while (end > start && isSpace(bytes[end - 1])) end--;
    const kind = fieldKind(bytes, from, colon);
    if (kind === CONNECTION) this.options |= connectionOptions(bytes, start, end);
    this.kind[index] = kind;
    this.nameFrom[index] = from;
    this.nameTo[index] = colon;
    this.valueFrom[index] = start;
    this.valueTo[index] = end;
    this.lineTo[index] = to;
  }

  #grow(): void {
    const grown = <T extends Uint8Array | Int32Array>(of: T, into: T): T => {
      into.set(of);
      return into;
    };
    const length = this.kind.length * 2;
    this.kind = grown(this.kind, new Uint8Array(length));
    this.nameFrom = grown(this.nameFrom, new Int32Array(length));
    this.nameTo = grown(this.nameTo, new Int32Array(length));
    this.valueFrom = grown(this.valueFrom, new Int32Array(length));
    this.valueTo = grown(this.valueTo, new Int32Array(length));
    this.lineTo = grown(this.lineTo, new Int32Array(length));
  }
}

export function fieldKind(bytes: Uint8Array, from: number, to: number): number {
  const names = namesByLength[to - from];
  if (names !== undefined) {
    for (let at = 0; at < names.length; at++) {
      if (startsWith(bytes, from, names[at].bytes))
        return hasUnderscore(bytes, from, to) ? DISGUISED : names[at].kind;
    }
  }
  if (to - from < forwardedPrefix.length || !startsWith(bytes, from, forwardedPrefix)) return OTHER;
  return hasUnderscore(bytes, from, to) ? DISGUISED : X_FORWARDED;
}

/** The value of Content-Length: digits and nothing else (RFC 9110 8.6). -1 if it is not valid. */
export function readLength(bytes: Uint8Array, from: number, to: number): number {
  if (from === to || to - from > MAX_DIGITS) return -1;
  let length = 0;
  for (let at = from; at < to; at++) {
    if (bytes[at] < ZERO || bytes[at] > NINE) return -1;
    length = length * 10 + bytes[at] - ZERO;
  }
  return length;
}

function startsWith(bytes: Uint8Array, from: number, name: Uint8Array): boolean {
  for (let at = 0; at < name.length; at++) if (plain[bytes[from + at]] !== name[at]) return false;
  return true;
}

function hasUnderscore(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] === UNDERSCORE) return true;
  return false;
}

function isSpace(byte: number): boolean {
  return byte === SPACE || byte === TAB;
}
