// What --fix can do: additions to objects of sources, as `fix: true` makes them, and endpoints that Causeway wrote itself.
// Each is shown before it is made.

import type { Clock } from '../kube/clock.ts';
import { addressesOf } from '../kube/desired-endpoints.ts';
import { EndpointsWriter } from '../kube/endpoint-objects.ts';
import { type KubeApi, wordsOf } from '../kube/kube-api.ts';
import type { SourceFix } from '../sources/source-set.ts';
import type { TenantEndpointsFound } from './check-tenant-endpoints.ts';

export interface Repair {
  readonly cluster: string;
  readonly what: string;
  /** The same by hand. */
  readonly command: string;
  /** Undefined where it worked; else why not. Never rejects. */
  apply(): Promise<string | undefined>;
}

/** The patch tests the version of the object, so that it fails where somebody has changed it meanwhile. */
export function repairObject({ cluster, resource, operations }: SourceFix, api: KubeApi): Repair | undefined {
  const { object } = cluster.origin;
  if (object === undefined) return undefined;
  const added = operations.filter(({ op, path }) => op === 'add' && path !== '/metadata/resourceVersion');
  return {
    cluster: cluster.name,
    what: `Add to ${object.kind} ${object.namespace}/${object.name}: ${added.map(operation => `${operation.path.replace(/\/-$/, '')} ${JSON.stringify('value' in operation ? operation.value : null)}`).join(', ')}`,
    command: `kubectl patch --namespace ${object.namespace} ${resource.plural}.${resource.group}/${object.name} --type json --patch '${JSON.stringify(operations).replaceAll("'", "'\\''")}'`,
    async apply() {
      const answer = await api.patch(resource, object.namespace, object.name, operations);
      return answer.ok ? undefined : wordsOf(answer.fault);
    },
  };
}

export function repairEndpoints(
  cluster: string,
  { existing, desired }: NonNullable<TenantEndpointsFound['repair']>,
  api: KubeApi,
  clock: Clock,
): Repair {
  const [first] = desired.slices;
  const addresses = first === undefined ? [] : addressesOf(first);
  const slice = { endpoints: first?.endpoints ?? [], ports: first?.ports ?? [] };
  return {
    cluster,
    what: `Write EndpointSlice and Endpoints default/kubernetes of the tenant: ${addresses.join(', ')}`,
    command: `kubectl patch --namespace default endpointslice kubernetes --type merge --patch '${JSON.stringify(slice)}'`,
    async apply() {
      const outcome = await new EndpointsWriter(api, clock, () => {}).write(desired, existing);
      if (outcome === 'done') return undefined;
      return outcome === 'conflict'
        ? 'somebody else changed them meanwhile: run doctor again'
        : wordsOf(outcome);
    },
  };
}
