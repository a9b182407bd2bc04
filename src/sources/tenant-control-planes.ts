// The sources of TenantControlPlanes: Kamaji, and Steward, its fork.

import type { Cluster } from '../cluster/cluster.ts';
import type { SourceOptions, TenantControlPlaneOptions } from '../config/config.ts';
import type { PatchOperation } from '../kube/kube-api.ts';
import { fixControlPlane } from './fix-control-plane.ts';
import { openObjectSource } from './object-source.ts';
import type { OpenSource, Source, SourceContext } from './source.ts';
import { tenantCluster } from './tenant-cluster.ts';
import {
  kamaji,
  keepTenantControlPlane,
  steward,
  type TenantControlPlane,
  type TenantSystem,
} from './tenant-control-plane.ts';

export interface TenantControlPlanes extends Source {
  /** Where the object of a cluster is, for those who patch it. */
  readonly resource: TenantSystem['resource'];
  /**
   * What to add to the object of this cluster, as the plan has settled it. Empty without `fix: true`, where nothing is
   * missing, and for a cluster of another source.
   */
  fixesFor(cluster: Cluster): readonly PatchOperation[];
}

type OpenTenants = (...args: Parameters<OpenSource<TenantControlPlaneOptions>>) => TenantControlPlanes;

export const openKamaji = openSystem(kamaji) satisfies OpenSource<SourceOptions['kamaji']>;
export const openSteward = openSystem(steward) satisfies OpenSource<SourceOptions['steward']>;

function openSystem(system: TenantSystem): OpenTenants {
  return (options, context, changed) => openTenants(system, options, context, changed);
}

function openTenants(
  system: TenantSystem,
  options: TenantControlPlaneOptions,
  context: SourceContext,
  changed: () => void,
): TenantControlPlanes {
  const { resource } = system;
  const { name, wantsReconcilerNone = false } = context;
  const { domain, expose, via, fix } = options;
  const source = openObjectSource<TenantControlPlane>(
    {
      what: `TenantControlPlanes of ${system.title}`,
      resource,
      versions: [resource.version],
      keep: keepTenantControlPlane,
      make: (object, lookup) =>
        tenantCluster(object, lookup, { source: name, system, domain, expose, via, wantsReconcilerNone }),
    },
    options,
    context,
    changed,
  );

  return {
    name,
    resource,
    observe: source.observe,
    fixesFor(cluster) {
      const { object } = cluster.origin;
      const found = object && source.objects.get(`${object.namespace}/${object.name}`);
      if (!fix || found === undefined || found.metadata.uid !== object?.uid) return [];
      return fixControlPlane(found, cluster, system, wantsReconcilerNone);
    },
    [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
  };
}
