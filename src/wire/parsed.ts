// The three possible results of every codec in this folder. Hostile bytes are data, not exceptions: a parser asks for
// more bytes, returns what it found, or names what is wrong; it never throws.

export type Parsed<T> =
  | { readonly kind: 'incomplete'; readonly need?: number }
  | { readonly kind: 'found'; readonly value: T }
  | { readonly kind: 'reject'; readonly reason: string };

/** The bytes so far are a valid beginning: call again when more bytes have arrived. */
export const incomplete: Parsed<never> = Object.freeze({ kind: 'incomplete' });

/** The same, when fewer than `need` bytes in total cannot be enough: calling earlier is useless. */
export function incompleteBelow(need: number): Parsed<never> {
  return { kind: 'incomplete', need };
}

export function found<T>(value: T): Parsed<T> {
  return { kind: 'found', value };
}

/** More bytes cannot make it valid. The reason is a short kebab-case identifier for the debug log. */
export function reject(reason: string): Parsed<never> {
  return { kind: 'reject', reason };
}
