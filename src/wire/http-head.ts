// A strict parser for the head of an HTTP/1 request: request smuggling exploits two programs that parse a request
// differently. Lines are checked as they arrive, and strings are made only from a complete head, so a slow client costs
// one scan of what it sent, at most 16 KiB, per call. Workers answer CONNECT themselves; other requests they only need
// to recognize.

import type { FieldLines } from './field-lines.ts';
import { parseIp } from './ip-address.ts';
import { latin1 } from './latin1.ts';
import { found, incomplete, type Parsed, reject } from './parsed.ts';
import { endOfToken } from './token.ts';

/** Including the blank line. Node has the same limit. */
export const MAX_HTTP_HEAD = 16_384;

export interface HttpHead {
  readonly method: string;
  readonly target: string;
  readonly version: '1.0' | '1.1';
  /** In the order sent; names in lower case, values without surrounding space. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Index just after the blank line. */
  readonly end: number;
}

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const DELETE = 0x7f;

/** The request line ends with a space, `HTTP/1.` and one digit. */
const VERSION = Buffer.from(' HTTP/1.', 'latin1');
const ZERO = 0x30;
const ONE = 0x31;

/** Gardener's agents send any authority; the name is in this header, as an Envoy cluster name. */
const GARDENER_HEADER = 'x-gardener-destination';
const GARDENER_DESTINATION = /^outbound\|(\d+)\|\|([^|]+)$/;

/** RFC 9110 7.2: `host:port`; a bare host is also accepted. */
const AUTHORITY = /^([^:[\]]+)(?::(\d+))?$/;
const IPV6_AUTHORITY = /^\[([^[\]]+)\](?::(\d+))?$/;

/** RFC 9112 3.2.2. Only http is served here. */
const ABSOLUTE_TARGET = /^http:\/\/([^/?#]*)/i;

/** Host names, ids and cluster names; RFC 1035 2.3.4 for the length. */
const NAME = /^[a-z0-9._-]{1,253}$/;

/** A reason to reject, or undefined. */
type Fault = string | undefined;

export function parseHttpHead(bytes: Uint8Array, from = 0, to = bytes.length): Parsed<HttpHead> {
  const end = endOfLines(bytes, from, to, requestLineFault);
  return end.kind === 'found' ? found(readHead(bytes, from, end.value)) : end;
}

/**
 * The index just after the blank line of a head with valid lines; `firstFault` checks the first line, `fields` takes
 * the others.
 */
export function endOfLines(
  bytes: Uint8Array,
  from: number,
  to: number,
  firstFault: (bytes: Uint8Array, from: number, to: number) => Fault,
  fields?: FieldLines,
): Parsed<number> {
  const limit = Math.min(to, from + MAX_HTTP_HEAD);
  let line = from;
  while (true) {
    const end = endOfLine(bytes, line, limit);
    if (typeof end === 'string') return reject(end);
    if (end === limit) return limit - from < MAX_HTTP_HEAD ? incomplete : reject('head-too-long');
    if (end === line && line > from) return found(end + 2);
    if (line === from) {
      const fault = firstFault(bytes, line, end);
      if (fault !== undefined) return reject(fault);
      fields?.clear(end);
    } else {
      const colon = endOfName(bytes, line, end);
      if (typeof colon === 'string') return reject(colon);
      fields?.add(bytes, line, colon, end);
    }
    line = end + 2;
  }
}

/**
 * The name that a CONNECT requests: it selects a route and is never dialled, so the port is ignored. In lower case,
 * without brackets and one trailing dot; undefined if there is no usable name. If Gardener's header is present, the
 * authority is ignored, even when that header is malformed or duplicated.
 */
export function connectName(head: HttpHead): string | undefined {
  const gardener = head.headers.filter(([name]) => name === GARDENER_HEADER);
  if (gardener.length > 1) return undefined;
  if (gardener.length === 1) return nameOf(GARDENER_DESTINATION.exec(gardener[0][1]), 2, 1);
  const ipv6 = IPV6_AUTHORITY.exec(head.target);
  if (ipv6 === null) return nameOf(AUTHORITY.exec(head.target), 1, 2);
  const address = ipv6[1].toLowerCase();
  return isPort(ipv6[2]) && address.includes(':') && parseIp(address) !== undefined ? address : undefined;
}

/**
 * The host of a request: in lower case, without port and one trailing dot; undefined if there is none, more than one,
 * or an invalid one. An absolute target must have the same host.
 */
export function hostOf(head: HttpHead): string | undefined {
  const hosts = head.headers.filter(([name]) => name === 'host');
  return hosts.length === 1 ? requestHost(hosts[0][1], head.target) : undefined;
}

/** The same, from the Host value and the target. */
export function requestHost(host: string, target: string): string | undefined {
  const absolute = ABSOLUTE_TARGET.exec(target);
  if (absolute !== null && absolute[1].toLowerCase() !== host.toLowerCase()) return undefined;
  if (absolute === null && !target.startsWith('/') && target !== '*') return undefined;
  const ipv6 = IPV6_AUTHORITY.exec(host);
  if (ipv6 === null) return nameOf(AUTHORITY.exec(host), 1, 2);
  return isPort(ipv6[2]) && parseIp(ipv6[1]) !== undefined ? ipv6[1].toLowerCase() : undefined;
}

/** The index of the line's CRLF, `to` if the line is incomplete, or the fault. */
function endOfLine(bytes: Uint8Array, from: number, to: number): number | string {
  for (let at = from; at < to; at++) {
    const byte = bytes[at];
    if (byte >= SPACE && byte !== DELETE) continue;
    if (byte === CARRIAGE_RETURN) {
      if (at + 1 === to) return to;
      return bytes[at + 1] === LINE_FEED ? at : 'bare-carriage-return';
    }
    if (byte === LINE_FEED) return 'bare-line-feed';
    if (byte !== TAB) return 'control-character';
  }
  return to;
}

/** RFC 9112 3: `METHOD SP TARGET SP HTTP/1.x`, with single spaces and none in the target. */
export function requestLineFault(bytes: Uint8Array, from: number, to: number): Fault {
  const method = endOfToken(bytes, from, to);
  if (method === from || bytes[method] !== SPACE) return 'method';
  const target = to - VERSION.length - 1;
  if (target <= method + 1) return 'request-line';
  for (let i = 0; i < VERSION.length; i++) {
    if (bytes[target + i] !== VERSION[i]) return 'version';
  }
  if (bytes[to - 1] !== ZERO && bytes[to - 1] !== ONE) return 'version';
  for (let at = method + 1; at < target; at++) {
    if (bytes[at] <= SPACE || bytes[at] >= DELETE) return 'target';
  }
  return undefined;
}

/**
 * The index of the colon, or the fault. RFC 9112 5: a token directly followed by a colon. Obsolete line folding (a
 * leading space) is refused.
 */
function endOfName(bytes: Uint8Array, from: number, to: number): number | string {
  if (bytes[from] === SPACE || bytes[from] === TAB) return 'folded-line';
  const name = endOfToken(bytes, from, to);
  return name === from || name === to || bytes[name] !== COLON ? 'field-name' : name;
}

/** Expects a head whose lines were all checked. */
function readHead(bytes: Uint8Array, from: number, end: number): HttpHead {
  const [first, ...fields] = latin1(bytes, from, end - 4).split('\r\n');
  const [method, target, protocol] = first.split(' ');
  return {
    method,
    target,
    version: protocol === 'HTTP/1.0' ? '1.0' : '1.1',
    headers: fields.map(readField),
    end,
  };
}

function readField(line: string): readonly [name: string, value: string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon).toLowerCase(), trimSpace(line, colon + 1)];
}

/** RFC 9110 5.5: only spaces and tabs; trim() would also remove U+00A0. */
export function trimSpace(line: string, from: number): string {
  let start = from;
  let end = line.length;
  while (start < end && isSpace(line.charCodeAt(start))) start++;
  while (end > start && isSpace(line.charCodeAt(end - 1))) end--;
  return line.slice(start, end);
}

function isSpace(code: number): boolean {
  return code === SPACE || code === TAB;
}

function nameOf(match: RegExpExecArray | null, name: number, port: number): string | undefined {
  if (match === null || !isPort(match[port])) return undefined;
  const lower = match[name].toLowerCase().replace(/\.$/, '');
  return NAME.test(lower) ? lower : undefined;
}

/** RFC 9110 9.3.6: an invalid port is refused, although a valid one is not used. */
function isPort(text: string | undefined): boolean {
  return text === undefined || (text.length <= 5 && Number(text) >= 1 && Number(text) <= 65_535);
}
