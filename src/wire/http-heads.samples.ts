// Heads as text, for tests: positions alone are hard to compare.

import { ascii } from './hello.samples.ts';
import { parseRequestHead, type RequestHead } from './http-request.ts';
import type { ResponseHead } from './http-response.ts';
import { latin1 } from './latin1.ts';

/** A request whose lines are valid; otherwise undefined. */
export function requestHeadOf(text: string): RequestHead | undefined {
  const head = parseRequestHead(ascii(text), 0, text.length);
  return head.kind === 'found' ? head.value : undefined;
}

/** Alternating names and values. */
export function fieldTexts({ bytes, fields }: RequestHead | ResponseHead): string[] {
  return Array.from({ length: fields.count }, (_, index) => [
    latin1(bytes, fields.nameFrom[index], fields.nameTo[index]),
    latin1(bytes, fields.valueFrom[index], fields.valueTo[index]),
  ]).flat();
}
