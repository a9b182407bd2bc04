// The head of an HTTP/1 response, and what it says about its body, read as strictly as requests are (http-head.ts): a
// backend's answer that two programs could end at different places would let one client read another's.

import { endOfLines, trimSpace } from './http-head.ts';
import { latin1 } from './latin1.ts';
import { found, type Parsed, reject } from './parsed.ts';

export interface ResponseHead {
  readonly version: '1.0' | '1.1';
  readonly status: number;
  readonly reason: string;
  /** Names and values in turn, as sent, values without the space around them. */
  readonly headers: readonly string[];
  /** Index just after the blank line. */
  readonly end: number;
}

export interface ResponseFraming {
  /** Bytes of the body; `chunked` and `until-close` where they are not known before. */
  readonly body: number | 'chunked' | 'until-close';
  /** Whether the connection may serve another request behind it. */
  readonly keepAlive: boolean;
}

/** RFC 9112 4; the space before an empty reason is left out by many. */
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: (.*))?$/;
/** RFC 9110 15: above, there is none. */
const MAX_STATUS = 599;
/** More digits are not exact any more. */
const LENGTH = /^\d{1,15}$/;
const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

export function parseResponseHead(bytes: Uint8Array, from: number, to: number): Parsed<ResponseHead> {
  const end = endOfLines(bytes, from, to, statusFault);
  return end.kind === 'found' ? readHead(bytes, from, end.value) : end;
}

/** What is no answer at all is refused at its first line. */
function statusFault(bytes: Uint8Array, from: number, to: number): string | undefined {
  return STATUS_LINE.test(latin1(bytes, from, to)) ? undefined : 'status-line';
}

/** RFC 9112 6.3, without its leniencies. undefined when the head contradicts itself or has no status that there is. */
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
        // What is coded otherwise cannot be framed anew without losing the word.
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

/** Of a head whose lines are whole. */
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
