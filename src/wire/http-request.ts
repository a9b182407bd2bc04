// The head of an HTTP/1 request as it was sent: what is passed on keeps the order, the case and the repetitions of its
// headers. Parsed as strictly as in http-head.ts, whose HttpHead is for CONNECT.

import { endOfLines, requestLineFault, trimSpace } from './http-head.ts';
import { latin1 } from './latin1.ts';
import { found, type Parsed } from './parsed.ts';

export interface RequestHead {
  readonly method: string;
  readonly target: string;
  readonly version: '1.0' | '1.1';
  /** Alternating names and values, as sent; values without surrounding space. */
  readonly headers: readonly string[];
  /** Index just after the blank line. */
  readonly end: number;
}

export function parseRequestHead(bytes: Uint8Array, from: number, to: number): Parsed<RequestHead> {
  const end = endOfLines(bytes, from, to, requestLineFault);
  return end.kind === 'found' ? found(readHead(bytes, from, end.value)) : end;
}

/** Expects a head whose lines were all checked. */
function readHead(bytes: Uint8Array, from: number, end: number): RequestHead {
  const lines = latin1(bytes, from, end - 4).split('\r\n');
  const [method, target, protocol] = lines[0].split(' ');
  const headers: string[] = [];
  for (let at = 1; at < lines.length; at++) {
    const colon = lines[at].indexOf(':');
    headers.push(lines[at].slice(0, colon), trimSpace(lines[at], colon + 1));
  }
  return { method, target, version: protocol === 'HTTP/1.0' ? '1.0' : '1.1', headers, end };
}
