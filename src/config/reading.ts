// The result of reading one value of the file: its meaning, or a message for the person who wrote it. Messages state
// what is allowed, then what was found.

import { printableJson } from '../text/printable.ts';

export type Reading<T> = { readonly value: T } | { readonly fault: string };

/** Longer values are truncated in messages. */
const SHOWN = 80;

export function good<T>(value: T): Reading<T> {
  return { value };
}

/** `must be …: current value is …`, or the equivalent for a missing value. */
export function mustBe(what: string, value: unknown): string {
  if (value === undefined) return `is missing: must be ${what}`;
  if (value === null) return `has no value: must be ${what}`;
  return `must be ${what}: current value is ${show(value)}`;
}

export function bad(what: string, value: unknown): { readonly fault: string } {
  return { fault: mustBe(what, value) };
}

/** Formats a value for a message: quoted, on one line, truncated, without control characters. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'a map';
  if (typeof value !== 'string') return String(value);
  return quote(value);
}

export function quote(text: string): string {
  const cut = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
  return printableJson(JSON.stringify(cut));
}

/** `a, b or c`. */
export function either(words: readonly string[], word = 'or'): string {
  if (words.length < 2) return words.join('');
  return `${words.slice(0, -1).join(', ')} ${word} ${words.at(-1)}`;
}
