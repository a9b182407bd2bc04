// The three answers of every codec in this folder. Hostile bytes are data, not exceptions: a parser asks
// for more, says what it found, or names what is wrong; it never throws.

export type Parsed<T> =
  | { readonly kind: 'incomplete'; readonly need?: number }
  | { readonly kind: 'found'; readonly value: T }
  | { readonly kind: 'reject'; readonly reason: string };

/** What is there so far is a proper beginning: ask again when more bytes have arrived. */
export const incomplete: Parsed<never> = Object.freeze({ kind: 'incomplete' });

/** The same, where it is known that fewer than `need` bytes in all cannot be enough: asking earlier is in vain. */
export function incompleteBelow(need: number): Parsed<never> {
  return { kind: 'incomplete', need };
}

export function found<T>(value: T): Parsed<T> {
  return { kind: 'found', value };
}

/** No further bytes can mend it. The reason is a short kebab-case word for the debug log. */
export function reject(reason: string): Parsed<never> {
  return { kind: 'reject', reason };
}
