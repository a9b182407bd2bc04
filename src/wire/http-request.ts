// The head of an HTTP/1 request, as positions in its bytes: what is passed on keeps the order, the case and the
// repetitions of its fields. Parsed as strictly as in http-head.ts, whose HttpHead is for CONNECT.

import { FieldLines } from './field-lines.ts';
import { endOfLines, requestLineFault } from './http-head.ts';
import { found, type Parsed } from './parsed.ts';
import { endOfToken } from './token.ts';

/** ` HTTP/1.1`, at the end of the request line. */
const VERSION_BYTES = 9;
const ZERO = 0x30;

/** Valid until the next head is read into it. */
export interface RequestHead {
  bytes: Uint8Array;
  /** The method is [from, methodTo). */
  from: number;
  methodTo: number;
  targetFrom: number;
  targetTo: number;
  isHttp10: boolean;
  readonly fields: FieldLines;
  /** Index just after the blank line. */
  end: number;
}

export function newRequestHead(): RequestHead {
  return {
    bytes: new Uint8Array(0),
    from: 0,
    methodTo: 0,
    targetFrom: 0,
    targetTo: 0,
    isHttp10: false,
    fields: new FieldLines(),
    end: 0,
  };
}

export function parseRequestHead(
  bytes: Uint8Array,
  from: number,
  to: number,
  head: RequestHead = newRequestHead(),
): Parsed<RequestHead> {
  const end = endOfLines(bytes, from, to, requestLineFault, head.fields);
  if (end.kind !== 'found') return end;
  const { firstTo } = head.fields;
  head.bytes = bytes;
  head.from = from;
  head.methodTo = endOfToken(bytes, from, firstTo);
  head.targetFrom = head.methodTo + 1;
  head.targetTo = firstTo - VERSION_BYTES;
  head.isHttp10 = bytes[firstTo - 1] === ZERO;
  head.end = end.value;
  return found(head);
}
