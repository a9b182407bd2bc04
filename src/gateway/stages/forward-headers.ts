// Writes the head of a request for the backend and of a response for the client. Which fields pass: hop-by-hop fields
// are dropped (RFC 9110 7.6.1), and X-Forwarded-* tells who the client is. Order, case and repetitions survive. Pure.

import { NAMES_FIELDS, namedFields } from '../../wire/connection-options.ts';
import {
  CONNECTION,
  CONTENT_LENGTH,
  EXPECT,
  type FieldLines,
  FORWARDED,
  fieldKind,
  HOST,
  KEEP_ALIVE,
  OTHER,
  PROXY_CONNECTION,
  TE,
  TRAILER,
  TRANSFER_ENCODING,
  UPGRADE,
  X_FORWARDED,
  X_FORWARDED_FOR,
  X_FORWARDED_HOST,
  X_FORWARDED_PROTO,
} from '../../wire/field-lines.ts';
import type { RequestHead } from '../../wire/http-request.ts';
import { type ResponseHead, STATUS_AT, STATUS_TO } from '../../wire/http-response.ts';
import { latin1 } from '../../wire/latin1.ts';
import { copyBytes } from './copy-bytes.ts';
import type { JudgedRequest } from './judge-request.ts';

/** A line that does not pass: written over its kind, since each head is written once. */
const DROPPED = 255;
const SPACE = 0x20;
const NO_CONTENT = 204;

const asBytes = (text: string) => Buffer.from(text, 'latin1');
const separator = asBytes(': ');
const lineEnd = asBytes('\r\n');
const teTrailers = asBytes('TE: trailers\r\n');
const chunked = asBytes('Transfer-Encoding: chunked\r\n');
const noBody = asBytes('Content-Length: 0\r\n');
const keepsAlive = asBytes('Connection: keep-alive\r\n\r\n');
const closes = asBytes('Connection: close\r\n\r\n');
const switches = asBytes('Connection: Upgrade\r\n');

export interface Forwarding {
  /** The true client's address. */
  readonly client: string;
  /** The lines for a client without a balancer: forwardedLines(). */
  readonly lines: Uint8Array;
  /** X-Forwarded-* and Forwarded come from a balancer, and pass. If it sends PROXY headers, they are the client's. */
  readonly trustForwarded: boolean;
  /** The protocol to switch to, as the client named it. */
  readonly upgrade: string | undefined;
  /** Whether the connection to the backend may serve other requests. */
  readonly keepAlive: boolean;
  /** The method may have a body and this request has none: it needs `Content-Length: 0`. */
  readonly isEmpty: boolean;
}

export function forwardedLines(client: string): Uint8Array {
  return asBytes(`X-Forwarded-For: ${client}\r\nX-Forwarded-Proto: http\r\n`);
}

/** Writes to the beginning of `out`. Returns the length. */
export function writeRequestHead(
  out: Buffer,
  head: RequestHead,
  judged: JudgedRequest,
  forwarding: Forwarding,
): number {
  const { bytes, fields, isHttp10 } = head;
  const isChunked = judged.body === 'chunked';
  const named = namedByConnection(head);
  const forwarded = forwarding.trustForwarded ? afterBalancer(head, judged, forwarding) : '';
  let hasTrailers = false;
  for (let index = 0; index < fields.count; index++) {
    const kind = fields.kind[index];
    if (kind === TE) hasTrailers ||= /\btrailers\b/i.test(valueOf(head, index));
    const passes =
      (kind === OTHER || passesToBackend(kind, forwarding.trustForwarded, isChunked, isHttp10)) &&
      named?.has(nameOf(head, index)) !== true;
    if (!passes) fields.kind[index] = DROPPED;
  }
  const isAsSent = !isHttp10 && judged.target === undefined;
  let at = 0;
  if (!isAsSent) {
    const target = judged.target ?? latin1(bytes, head.targetFrom, head.targetTo);
    at = out.write(`${judged.method} ${target} HTTP/1.1\r\n`, 0, 'latin1');
  }
  at = copyLines(out, at, bytes, fields, isAsSent ? head.from : fields.firstTo + 2);
  at = forwarding.trustForwarded
    ? at + out.write(forwarded, at, 'latin1')
    : append(out, append(out, at, forwarding.lines), judged.host.forwardedLine);
  if (hasTrailers) at = append(out, at, teTrailers);
  if (isChunked) at = append(out, at, chunked);
  else if (forwarding.isEmpty) at = append(out, at, noBody);
  if (forwarding.upgrade === undefined) return append(out, at, forwarding.keepAlive ? keepsAlive : closes);
  at += out.write(`Upgrade: ${forwarding.upgrade}\r\n`, at, 'latin1');
  return append(out, append(out, at, switches), lineEnd);
}

/** X-Forwarded-For with the balancer's entries in front, and what the balancer did not say. */
function afterBalancer(head: RequestHead, { host }: JudgedRequest, { client }: Forwarding): string {
  let entries = '';
  let proto = 'X-Forwarded-Proto: http\r\n';
  let hostLine = `X-Forwarded-Host: ${host.header}\r\n`;
  for (let index = 0; index < head.fields.count; index++) {
    switch (head.fields.kind[index]) {
      case X_FORWARDED_FOR:
        entries += `${valueOf(head, index)}, `;
        break;
      case X_FORWARDED_PROTO:
        proto = '';
        break;
      case X_FORWARDED_HOST:
        hostLine = '';
        break;
      default:
    }
  }
  return `X-Forwarded-For: ${entries}${client}\r\n${proto}${hostLine}`;
}

function append(out: Uint8Array, at: number, bytes: Uint8Array): number {
  out.set(bytes, at);
  return at + bytes.length;
}

/** Of the fields with a kind. Framing is written anew. */
function passesToBackend(
  kind: number,
  trustForwarded: boolean,
  isChunked: boolean,
  isHttp10: boolean,
): boolean {
  switch (kind) {
    case HOST:
    case CONTENT_LENGTH:
      return true;
    case TRAILER:
      return isChunked;
    // RFC 9110 10.1.1: HTTP/1.0 has no expectations, and could not receive 100 Continue.
    case EXPECT:
      return !isHttp10;
    case FORWARDED:
    case X_FORWARDED_PROTO:
    case X_FORWARDED_HOST:
    case X_FORWARDED:
      return trustForwarded;
    default:
      return false;
  }
}

export interface ResponseForwarding {
  /** Keeps the fields that a 101 needs. */
  readonly isUpgrade: boolean;
  /** Without chunks there are no trailers to announce. */
  readonly isChunked: boolean;
  /** The last lines, before the blank one. */
  readonly last: Uint8Array;
}

/** Writes to the beginning of `out`. Returns the length. */
export function writeResponseHead(out: Buffer, head: ResponseHead, forwarding: ResponseForwarding): number {
  const { bytes, fields, status, from } = head;
  const { isUpgrade, isChunked, last } = forwarding;
  const named = namedByConnection(head);
  for (let index = 0; index < fields.count; index++) {
    const kind = fields.kind[index];
    const passes =
      (kind === OTHER || passesToClient(kind, status, isUpgrade, isChunked)) &&
      named?.has(nameOf(head, index)) !== true;
    if (!passes) fields.kind[index] = DROPPED;
  }
  const hasSpace = fields.firstTo - from > STATUS_TO;
  const isAsSent = !head.isHttp10 && hasSpace;
  let at = 0;
  if (!isAsSent) {
    const line = latin1(bytes, from + STATUS_AT, fields.firstTo);
    at = out.write(`HTTP/1.1 ${line}${hasSpace ? '' : ' '}\r\n`, 0, 'latin1');
  }
  at = copyLines(out, at, bytes, fields, isAsSent ? from : fields.firstTo + 2);
  if (isUpgrade) at = append(out, at, switches);
  return append(out, append(out, at, last), lineEnd);
}

function passesToClient(kind: number, status: number, isUpgrade: boolean, isChunked: boolean): boolean {
  switch (kind) {
    case CONNECTION:
    case KEEP_ALIVE:
    case PROXY_CONNECTION:
    case TE:
    case TRANSFER_ENCODING:
      return false;
    case UPGRADE:
      return isUpgrade;
    case TRAILER:
      return isChunked;
    // RFC 9110 8.6: on these, it would make a client wait for a body, or read the next response as one.
    case CONTENT_LENGTH:
      return status >= 200 && status !== NO_CONTENT;
    default:
      return true;
  }
}

/**
 * Copies the lines that pass, from `from` on: the first line, or the first field. Lines that follow each other are
 * copied at once. Returns the new end of `out`.
 */
function copyLines(out: Buffer, into: number, bytes: Uint8Array, fields: FieldLines, from: number): number {
  let at = into;
  let runFrom = from;
  let runTo = fields.firstTo + 2;
  for (let index = 0; index < fields.count; index++) {
    if (fields.kind[index] === DROPPED) continue;
    const nameFrom = fields.nameFrom[index];
    const nameTo = fields.nameTo[index];
    const valueFrom = fields.valueFrom[index];
    const valueTo = fields.valueTo[index];
    if (runTo !== nameFrom) {
      at = copyBytes(bytes, runFrom, runTo, out, at);
      runFrom = nameFrom;
    }
    runTo = fields.lineTo[index] + 2;
    if (valueFrom === nameTo + 2 && bytes[nameTo + 1] === SPACE && valueTo === runTo - 2) continue;
    // Unusual space around the value: two programs may read it differently.
    at = copyBytes(bytes, runFrom, nameTo, out, at);
    at = append(out, at, separator);
    at = copyBytes(bytes, valueFrom, valueTo, out, at);
    at = append(out, at, lineEnd);
    runFrom = runTo;
  }
  return copyBytes(bytes, runFrom, runTo, out, at);
}

/** RFC 9110 6.5.1: fields that frame, route or identify the client are no trailers, where nothing would judge them. */
export function trailers(raw: readonly string[]): [name: string, value: string][] {
  const passed: [string, string][] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = Buffer.from(raw[at], 'latin1');
    const isPlain = fieldKind(name, 0, name.length) === OTHER;
    if (isPlain && !endToEnd.has(raw[at].toLowerCase().replaceAll('_', '-')))
      passed.push([raw[at], raw[at + 1]]);
  }
  return passed;
}

/** RFC 9110 7.6.1: fields that `Connection` names are for the next hop, except those that matter end to end. */
function namedByConnection(head: RequestHead | ResponseHead): Set<string> | undefined {
  const { fields } = head;
  if ((fields.options & NAMES_FIELDS) === 0) return undefined;
  const names = new Set<string>();
  for (let index = 0; index < fields.count; index++) {
    if (fields.kind[index] !== CONNECTION) continue;
    for (const name of namedFields(valueOf(head, index))) if (!endToEnd.has(name)) names.add(name);
  }
  return names;
}

/** `Connection: host` or `Connection: x-forwarded-for` must not remove a field that the backend relies on. */
const endToEnd: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'content-type',
  'authorization',
  'cookie',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
]);

/** In lower case. */
function nameOf({ bytes, fields }: RequestHead | ResponseHead, index: number): string {
  return latin1(bytes, fields.nameFrom[index], fields.nameTo[index]).toLowerCase();
}

function valueOf({ bytes, fields }: RequestHead | ResponseHead, index: number): string {
  return latin1(bytes, fields.valueFrom[index], fields.valueTo[index]);
}
