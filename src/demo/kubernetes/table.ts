// Lists, single objects and watch events as a `Table` of meta.k8s.io/v1, which kubectl requests to print columns.

import type { KubeObject } from './kube-object.ts';
import type { Resource } from './resources.ts';

export interface Table {
  readonly kind: 'Table';
  readonly apiVersion: 'meta.k8s.io/v1';
  readonly metadata: { readonly resourceVersion: string };
  readonly columnDefinitions: readonly object[];
  readonly rows: readonly { readonly cells: readonly (string | number)[]; readonly object: object }[];
}

/** Whether an Accept header prefers tables. */
export function wantsTable(accept: string): boolean {
  const [first] = accept.split(',');
  return /;\s*as=Table/.test(first) && /;\s*g=meta\.k8s\.io/.test(first);
}

export function toTable(
  resource: Resource,
  objects: readonly KubeObject[],
  resourceVersion: string,
  now: number,
): Table {
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion },
    columnDefinitions: resource.columns.map(({ name, type = 'string', format = '', wide = false }) => ({
      name,
      type,
      format,
      description: '',
      priority: wide ? 1 : 0,
    })),
    rows: objects.map(object => ({
      cells: resource.columns.map(({ cell }) => cell(object, now)),
      // kubectl takes name and namespace from here.
      object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata },
    })),
  };
}
