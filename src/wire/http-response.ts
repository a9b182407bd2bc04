// A strict parser for the head of an HTTP/1 response and the framing of its body, like http-head.ts for requests: if
// two programs disagreed about where a response ends, one client could read another client's response.

import { CLOSES, KEEPS_ALIVE } from './connection-options.ts';
import { CONTENT_LENGTH, FieldLines, readLength, TRANSFER_ENCODING } from './field-lines.ts';
import { endOfLines } from './http-head.ts';
import { isTextInAnyCase } from './latin1.ts';
import { found, type Parsed } from './parsed.ts';

/** Positions in `bytes`, valid until the next head is read into it. */
export interface ResponseHead {
  bytes: Uint8Array;
  from: number;
  isHttp10: boolean;
  status: number;
  readonly fields: FieldLines;
  /** Index just after the blank line. */
  end: number;
}

export interface ResponseFraming {
  /** The length of the body, or how its end is found. */
  readonly body: number | 'chunked' | 'until-close';
  /** Whether the connection may serve another request. */
  readonly keepAlive: boolean;
}

const VERSION = Buffer.from('HTTP/1.', 'latin1');
/** Lengths of `HTTP/1.1 ` and `HTTP/1.1 200`. */
export const STATUS_AT = VERSION.length + 2;
export const STATUS_TO = STATUS_AT + 3;
const SPACE = 0x20;
const ZERO = 0x30;
const ONE = 0x31;
const NINE = 0x39;
/** RFC 9110 15: the first digits of valid statuses. */
const FIVE = 0x35;
const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

export function newResponseHead(): ResponseHead {
  return {
    bytes: new Uint8Array(0),
    from: 0,
    isHttp10: false,
    status: 0,
    fields: new FieldLines(),
    end: 0,
  };
}

export function parseResponseHead(
  bytes: Uint8Array,
  from: number,
  to: number,
  head: ResponseHead = newResponseHead(),
): Parsed<ResponseHead> {
  const end = endOfLines(bytes, from, to, statusFault, head.fields);
  if (end.kind !== 'found') return end;
  const at = from + STATUS_AT;
  head.bytes = bytes;
  head.from = from;
  head.isHttp10 = bytes[from + VERSION.length] === ZERO;
  head.status = (bytes[at] - ZERO) * 100 + (bytes[at + 1] - ZERO) * 10 + bytes[at + 2] - ZERO;
  head.end = end.value;
  return found(head);
}

/**
 * Refuses anything that is not HTTP at its first line. RFC 9112 4; many servers omit the space before an empty
 * reason.
 */
function statusFault(bytes: Uint8Array, from: number, to: number): string | undefined {
  for (let at = 0; at < VERSION.length; at++) if (bytes[from + at] !== VERSION[at]) return 'status-line';
  const version = bytes[from + VERSION.length];
  const isValid =
    to - from >= STATUS_TO &&
    (version === ZERO || version === ONE) &&
    bytes[from + STATUS_AT - 1] === SPACE &&
    isDigit(bytes[from + STATUS_AT], ONE, FIVE) &&
    isDigit(bytes[from + STATUS_AT + 1], ZERO, NINE) &&
    isDigit(bytes[from + STATUS_AT + 2], ZERO, NINE) &&
    (to - from === STATUS_TO || bytes[from + STATUS_TO] === SPACE);
  return isValid ? undefined : 'status-line';
}

function isDigit(byte: number, first: number, last: number): boolean {
  return byte >= first && byte <= last;
}

/** RFC 9112 6.3, without its leniencies. Undefined if the head contradicts itself. */
export function framingOf(
  { bytes, isHttp10, status, fields }: ResponseHead,
  method: string,
): ResponseFraming | undefined {
  let length = -1;
  let isChunked = false;
  for (let index = 0; index < fields.count; index++) {
    const from = fields.valueFrom[index];
    const to = fields.valueTo[index];
    switch (fields.kind[index]) {
      case CONTENT_LENGTH: {
        const isAgain = length >= 0;
        length = readLength(bytes, from, to);
        if (isAgain || length < 0) return undefined;
        break;
      }
      case TRANSFER_ENCODING:
        // A body with another coding cannot be reframed without losing the name of the coding.
        if (isChunked || isHttp10 || !isTextInAnyCase(bytes, from, to, 'chunked')) return undefined;
        isChunked = true;
        break;
      default:
    }
  }
  if (isChunked && length >= 0) return undefined;
  const { options } = fields;
  const keepAlive = (options & CLOSES) === 0 && (!isHttp10 || (options & KEEPS_ALIVE) !== 0);
  if (method === 'HEAD' || status === NO_CONTENT || status === NOT_MODIFIED || status < 200)
    return { body: 0, keepAlive };
  if (isChunked) return { body: 'chunked', keepAlive };
  if (length < 0) return { body: 'until-close', keepAlive: false };
  return { body: length, keepAlive };
}
