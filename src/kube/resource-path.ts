// Paths and queries of the Kubernetes API.

import type { Selection } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import type { Resource } from './resources.ts';

export function resourcePath(
  { group, version, plural }: Resource<KubeObject>,
  namespace?: string,
  name?: string,
  subresource?: string,
): string {
  const parts = group === '' ? ['api', version] : ['apis', group, version];
  if (namespace !== undefined) parts.push('namespaces', namespace);
  parts.push(plural);
  if (name !== undefined) parts.push(name);
  if (subresource !== undefined) parts.push(subresource);
  return `/${parts.map(encodeURIComponent).join('/')}`;
}

export function selectionQuery({ labelSelector, fieldSelector }: Selection): URLSearchParams {
  const query = new URLSearchParams();
  if (labelSelector !== undefined) query.set('labelSelector', labelSelector);
  if (fieldSelector !== undefined) query.set('fieldSelector', fieldSelector);
  return query;
}
