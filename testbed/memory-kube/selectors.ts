// Label and field selectors, as API servers read them.

import type { Selection } from '../../src/kube/kube-api.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { valueAt } from './json-value.ts';

/** `a in (x,y)`, `a notin (x)`, `a=x`, `a==x`, `a!=x`, `a`, `!a`. */
const TERM = /^(!?)([^\s=!]+)(?:\s+(in|notin)\s+\(([^)]*)\)|\s*(==|=|!=)\s*(.*))?$/;

export function isSelected(object: KubeObject, selection: Selection): boolean {
  const { namespace, labelSelector = '', fieldSelector = '' } = selection;
  const { metadata } = object;
  return (
    (namespace === undefined || metadata.namespace === namespace) &&
    matches(labelSelector, key => metadata.labels?.[key]) &&
    matches(fieldSelector, key => valueAt(object, key.split('.')) as string | undefined)
  );
}

function matches(selector: string, valueOf: (key: string) => string | undefined): boolean {
  return terms(selector).every(term => {
    const [, not, key, set, list, operator, wanted] = TERM.exec(term) ?? [];
    if (key === undefined) throw new Error(`Not a selector: '${term}'`);
    const value = valueOf(key);
    if (set !== undefined) {
      const isIn = value !== undefined && list.split(',').some(each => each.trim() === value);
      return set === 'in' ? isIn : !isIn;
    }
    if (operator === undefined) return (value !== undefined) === (not === '');
    return operator === '!=' ? value !== wanted : value === wanted;
  });
}

/** Commas within parentheses belong to a term. */
function terms(selector: string): string[] {
  return selector
    .split(/,(?![^(]*\))/)
    .map(term => term.trim())
    .filter(term => term !== '');
}
