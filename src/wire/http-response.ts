// A strict parser for the head of an HTTP/1 response and the framing of its body, like http-head.ts for requests: if
// two programs disagreed about where a response ends, one client could read another client's response.

import { endOfLines, trimSpace } from './http-head.ts';
import { latin1 } from './latin1.ts';
import { found, type Parsed, reject } from './parsed.ts';

export interface ResponseHead {
  readonly version: '1.0' | '1.1';
  readonly status: number;
  readonly reason: string;
  /** Alternating names and values as sent, values without surrounding space. */
  readonly headers: readonly string[];
  /** Index just after the blank line. */
  readonly end: number;
}

export interface ResponseFraming {
  /** The length of the body, or how its end is found. */
  readonly body: number | 'chunked' | 'until-close';
  /** Whether the connection may serve another request. */
  readonly keepAlive: boolean;
}

/** RFC 9112 4; many servers omit the space before an empty reason. */
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: (.*))?$/;
/** RFC 9110 15: the largest valid status. */
const MAX_STATUS = 599;
/** A number of more digits would not be exact. */
const LENGTH = /^\d{1,15}$/;
const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

export function parseResponseHead(bytes: Uint8Array, from: number, to: number): Parsed<ResponseHead> {
  const end = endOfLines(bytes, from, to, statusFault);
  return end.kind === 'found' ? readHead(bytes, from, end.value) : end;
}

/** Refuses anything that is not HTTP at its first line. */
function statusFault(bytes: Uint8Array, from: number, to: number): string | undefined {
  return STATUS_LINE.test(latin1(bytes, from, to)) ? undefined : 'status-line';
}

/** RFC 9112 6.3, without its leniencies. Undefined if the head contradicts itself or has an invalid status. */
export function framingOf(
  head: Pick<ResponseHead, 'version' | 'status' | 'headers'>,
  method: string,
): ResponseFraming | undefined {
  const { headers, status, version } = head;
  if (status > MAX_STATUS) return undefined;
  let length: number | undefined;
  let isChunked = false;
  let keepAlive = version === '1.1';
  for (let at = 0; at < headers.length; at += 2) {
    const value = headers[at + 1];
    switch (headers[at].toLowerCase()) {
      case 'content-length':
        if (length !== undefined || !LENGTH.test(value)) return undefined;
        length = Number(value);
        break;
      case 'transfer-encoding':
        // A body with another coding cannot be reframed without losing the name of the coding.
        if (isChunked || version === '1.0' || value.toLowerCase() !== 'chunked') return undefined;
        isChunked = true;
        break;
      case 'connection':
        if (/\bclose\b/i.test(value)) keepAlive = false;
        else if (/\bkeep-alive\b/i.test(value)) keepAlive = true;
        break;
      default:
    }
  }
  if (isChunked && length !== undefined) return undefined;
  if (method === 'HEAD' || status === NO_CONTENT || status === NOT_MODIFIED || status < 200) {
    return { body: 0, keepAlive };
  }
  if (isChunked) return { body: 'chunked', keepAlive };
  return length === undefined ? { body: 'until-close', keepAlive: false } : { body: length, keepAlive };
}

/** Expects a complete head. */
function readHead(bytes: Uint8Array, from: number, end: number): Parsed<ResponseHead> {
  const lines = latin1(bytes, from, end - 4).split('\r\n');
  const status = STATUS_LINE.exec(lines[0]);
  if (status === null) return reject('status-line');
  const headers: string[] = [];
  for (let at = 1; at < lines.length; at++) {
    const colon = lines[at].indexOf(':');
    headers.push(lines[at].slice(0, colon), trimSpace(lines[at], colon + 1));
  }
  return found({
    version: status[1] === '0' ? '1.0' : '1.1',
    status: Number(status[2]),
    reason: status[3] ?? '',
    headers,
    end,
  });
}
