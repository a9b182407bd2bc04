// labelSelector and fieldSelector of a request: equality, inequality and, for labels, presence. Sets (`in (a, b)`) are
// not supported; an unsupported selector is refused, not ignored.

import { type KubeObject, valueAt } from './kube-object.ts';

export type Selector = (object: KubeObject) => boolean;

const TERM = /^(!?)([\w./-]+)(?:(==?|!=)(.*))?$/;

/** `unclear` is the unsupported part. */
export type ParsedSelector = { readonly selects: Selector } | { readonly unclear: string };

export function parseLabelSelector(text: string | null): ParsedSelector {
  return parseSelector(text, (object, key) => object.metadata.labels?.[key]);
}

export function parseFieldSelector(text: string | null): ParsedSelector {
  return parseSelector(text, (object, key) => String(valueAt(object, key) ?? ''));
}

function parseSelector(
  text: string | null,
  valueOf: (object: KubeObject, key: string) => string | undefined,
): ParsedSelector {
  const terms: Selector[] = [];
  for (const part of (text ?? '').split(',').filter(part => part.trim() !== '')) {
    const match = TERM.exec(part.trim());
    if (match === null || (match[1] === '!' && match[3] !== undefined)) return { unclear: part.trim() };
    const [, not, key, operator, wanted] = match;
    terms.push(object => {
      const value = valueOf(object, key);
      if (operator === undefined) return (value !== undefined) === (not === '');
      return (value === wanted) === (operator !== '!=');
    });
  }
  return { selects: object => terms.every(term => term(object)) };
}
