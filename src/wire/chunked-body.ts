// A strict streaming parser for a chunked HTTP/1 body (RFC 9112 7.1). Returns the position of data without copying it.
// Skips extensions, keeps trailers.

import { trimSpace } from './http-head.ts';
import { latin1 } from './latin1.ts';
import { endOfToken } from './token.ts';

/** The parser's state for one body. */
export interface ChunkedBody {
  stage: 'size' | 'extension' | 'size-end' | 'data' | 'data-return' | 'data-end' | 'trailers';
  /** While reading the size: its value so far; afterwards: bytes of the chunk still to come. */
  left: number;
  digits: number;
  /** Bytes of extensions in this body. */
  extensions: number;
  trailers: string;
}

export type ChunkedPart =
  | { readonly kind: 'incomplete' }
  /** Bytes of the body; continue at `to`. */
  | { readonly kind: 'data'; readonly from: number; readonly to: number }
  /** Alternating names and values, and the index just after the body. */
  | { readonly kind: 'end'; readonly trailers: readonly string[]; readonly end: number }
  | { readonly kind: 'reject'; readonly reason: string };

/** No real chunk exceeds 2^44 bytes. */
const MAX_DIGITS = 11;
/** The limit of node:http; no use of extensions justifies more. */
const MAX_EXTENSIONS = 16_384;
const MAX_TRAILERS = 16_384;
const TAB = 0x09;
const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;
const SEMICOLON = 0x3b;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

const incomplete: ChunkedPart = Object.freeze({ kind: 'incomplete' });
const badTrailer: ChunkedPart = Object.freeze({ kind: 'reject', reason: 'trailer' });

export function startChunkedBody(): ChunkedBody {
  return { stage: 'size', left: 0, digits: 0, extensions: 0, trailers: '' };
}

/** The next part in [from, to). The caller continues after data, until the result is incomplete or the end. */
export function readChunkedBody(body: ChunkedBody, bytes: Uint8Array, from: number, to: number): ChunkedPart {
  let at = from;
  while (at < to) {
    if (body.stage === 'data') {
      const end = Math.min(to, at + body.left);
      body.left -= end - at;
      if (body.left === 0) body.stage = 'data-return';
      return { kind: 'data', from: at, to: end };
    }
    if (body.stage === 'trailers') return readTrailers(body, bytes, at, to);
    const fault = step(body, bytes[at]);
    if (fault !== undefined) return { kind: 'reject', reason: fault };
    at++;
  }
  return incomplete;
}

/** Takes one byte of framing. Returns the fault, if any. */
function step(body: ChunkedBody, byte: number): string | undefined {
  switch (body.stage) {
    case 'size':
      return sizeByte(body, byte);
    case 'extension':
      if (byte === CARRIAGE_RETURN) body.stage = 'size-end';
      else if (isControl(byte) || ++body.extensions > MAX_EXTENSIONS) return 'chunk-extension';
      return undefined;
    case 'size-end':
      if (byte !== LINE_FEED) return 'chunk-size';
      body.stage = body.left === 0 ? 'trailers' : 'data';
      return undefined;
    case 'data-return':
      body.stage = 'data-end';
      return byte === CARRIAGE_RETURN ? undefined : 'chunk-end';
    default:
      body.stage = 'size';
      body.digits = 0;
      return byte === LINE_FEED ? undefined : 'chunk-end';
  }
}

function sizeByte(body: ChunkedBody, byte: number): string | undefined {
  const digit = hexDigit(byte);
  if (digit >= 0) {
    body.left = body.left * 16 + digit;
    return ++body.digits > MAX_DIGITS ? 'chunk-size' : undefined;
  }
  if (body.digits === 0) return 'chunk-size';
  if (byte === CARRIAGE_RETURN) body.stage = 'size-end';
  else if (byte === SEMICOLON) body.stage = 'extension';
  else return 'chunk-size';
  return undefined;
}

/** Reads up to the blank line, which comes at once if there are no trailers. */
function readTrailers(body: ChunkedBody, bytes: Uint8Array, from: number, to: number): ChunkedPart {
  const before = body.trailers.length;
  body.trailers += latin1(bytes, from, Math.min(to, from + MAX_TRAILERS));
  const { trailers } = body;
  const length = trailers.startsWith('\r\n') ? 2 : trailers.indexOf('\r\n\r\n') + 4;
  const isWhole = length === 2 || length >= 4;
  if (hasBareLineEnd(trailers, before, isWhole ? length : trailers.length)) return badTrailer;
  if (!isWhole) {
    return trailers.length < MAX_TRAILERS ? incomplete : { kind: 'reject', reason: 'trailers-too-long' };
  }
  const fields: string[] = [];
  for (const line of length === 2 ? [] : trailers.slice(0, length - 4).split('\r\n')) {
    const colon = line.indexOf(':');
    const name = Buffer.from(line.slice(0, Math.max(colon, 0)), 'latin1');
    const value = trimSpace(line, colon + 1);
    if (name.length === 0 || endOfToken(name, 0, name.length) !== name.length || !VALUE.test(value)) {
      return badTrailer;
    }
    fields.push(line.slice(0, colon), value);
  }
  return { kind: 'end', trailers: fields, end: from + length - before };
}

/** Refused as soon as it comes: a client that takes it for the end of its line waits for the answer. */
function hasBareLineEnd(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const isReturned = text.charCodeAt(at - 1) === CARRIAGE_RETURN;
    if (isReturned !== (text.charCodeAt(at) === LINE_FEED)) return true;
  }
  return false;
}

/** RFC 9112 7.1.1: tokens, quoted text and white space. */
function isControl(byte: number): boolean {
  return (byte < 0x20 && byte !== TAB) || byte === 0x7f;
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
