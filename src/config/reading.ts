// How the parts of this folder answer about one value of the file: what it means, or what is wrong with it in
// words for the person who wrote it. Messages state what is allowed, then what was found.

export type Reading<T> = { readonly value: T } | { readonly fault: string };

/** Longer values are cut in messages. */
const SHOWN = 80;

export function good<T>(value: T): Reading<T> {
  return { value };
}

/** `must be …: current value is …`, also where there is no value. */
export function mustBe(what: string, value: unknown): string {
  if (value === undefined) return `is missing: must be ${what}`;
  if (value === null) return `has no value: must be ${what}`;
  return `must be ${what}: current value is ${show(value)}`;
}

export function bad(what: string, value: unknown): { readonly fault: string } {
  return { fault: mustBe(what, value) };
}

/** A value as it may stand in a message: quoted, on one line, cut, without control characters. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'a map';
  if (typeof value !== 'string') return String(value);
  return quote(value);
}

export function quote(text: string): string {
  const cut = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
  return JSON.stringify(cut).replace(UNPRINTABLE, escapeUnit);
}

/** `a, b or c`. */
export function either(words: readonly string[], word = 'or'): string {
  if (words.length < 2) return words.join('');
  return `${words.slice(0, -1).join(', ')} ${word} ${words.at(-1)}`;
}

/** What JSON leaves as it is although a terminal would act on it: C1 controls and direction marks. */
const UNPRINTABLE = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function escapeUnit(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
