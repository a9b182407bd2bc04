// Whether a custom resource is still defined. Deleting a CustomResourceDefinition deletes its objects one by one, and a
// watch reports that exactly as if somebody had deleted each of them. The definition tells the two apart: it carries
// its deletionTimestamp before the first object goes, and reads are consistent. So a definition that is intact *after*
// an object was reported deleted had nothing to do with it.

import type { KubeApi, KubeFault } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import { customResourceDefinitions, isBuiltIn, type Resource } from './resources.ts';

/**
 * Without permission to read definitions there is only discovery, which follows the definition with a delay: seconds on
 * a busy API server.
 */
const DISCOVERY_DELAY_MS = 3000;

export type Definition =
  /** `uid`: of its CustomResourceDefinition, where there is one that we may read. */
  | { readonly is: 'intact'; readonly uid?: string }
  /** Deleted or being deleted. */
  | { readonly is: 'gone' }
  | { readonly is: 'unknown'; readonly fault: KubeFault };

/** `known`: the uid from an earlier call. A definition that replaces it is intact, with another uid. */
export async function resourceDefinition(
  api: KubeApi,
  resource: Resource<KubeObject>,
  known: string | undefined,
  wait: (ms: number) => Promise<void>,
): Promise<Definition> {
  if (isBuiltIn(resource)) return { is: 'intact' };
  const { plural, group } = resource;
  const found = await api.get(customResourceDefinitions, undefined, `${plural}.${group}`);
  if (found.ok) {
    const { uid, deletionTimestamp } = found.value.metadata;
    return deletionTimestamp === undefined ? { is: 'intact', ...(uid && { uid }) } : { is: 'gone' };
  }
  const { fault } = found;
  // Where there never was one, an aggregated API server serves the resource.
  if (fault.status === 404) return known === undefined ? { is: 'intact' } : { is: 'gone' };
  if (fault.status !== 403) return { is: 'unknown', fault };
  await wait(DISCOVERY_DELAY_MS);
  return discoveredDefinition(api, resource);
}

/** While a definition is being deleted, discovery lists its resource without the verbs that write. */
async function discoveredDefinition(api: KubeApi, resource: Resource<KubeObject>): Promise<Definition> {
  const discovered = await api.discover(resource.group);
  if (!discovered.ok) {
    const { fault } = discovered;
    return fault.status === 404 ? { is: 'gone' } : { is: 'unknown', fault };
  }
  const served = discovered.value.versions
    .filter(({ version }) => version === resource.version)
    .flatMap(({ resources }) => resources)
    .find(({ plural }) => plural === resource.plural);
  return served?.verbs.includes('create') ? { is: 'intact' } : { is: 'gone' };
}
