// Chooses the version in which a custom resource is read, by discovery: operators are upgraded on their own schedule.

import { type Answer, failed, type KubeApi } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import type { Resource } from './resources.ts';

/**
 * The resource in the first of `versions` that the server serves. A fault, 404, where the group, the resource or each of
 * these versions is absent; the message says which.
 */
export async function servedResource<T extends KubeObject>(
  api: KubeApi,
  resource: Resource<T>,
  versions: readonly string[],
): Promise<Answer<Resource<T>>> {
  const { group, plural } = resource;
  const discovered = await api.discover(group);
  if (!discovered.ok) return discovered.fault.status === 404 ? notServed(resource) : discovered;
  const served = discovered.value.versions
    .filter(({ resources }) => resources.some(each => each.plural === plural))
    .map(({ version }) => version);
  if (served.length === 0) return notServed(resource);
  const version = versions.find(each => served.includes(each));
  if (version !== undefined) return { ok: true, value: { ...resource, version } };
  const message = `The API server serves '${plural}.${group}' as ${served.join(', ')}; supported: ${versions.join(', ')}`;
  return failed(404, 'NotFound', message);
}

export function notServed({ group, plural }: Resource<KubeObject>) {
  const name = group === '' ? plural : `${plural}.${group}`;
  return failed(404, 'NotFound', `The API server does not serve '${name}'`);
}
