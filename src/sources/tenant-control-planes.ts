// The sources of TenantControlPlanes: Kamaji, and Steward, its fork.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { SourceOptions, TenantControlPlaneOptions } from '../config/config.ts';
import type { PatchOperation } from '../kube/kube-api.ts';
import { openReflector } from '../kube/reflector.ts';
import { fixControlPlane } from './fix-control-plane.ts';
import { rememberClusters } from './remember-clusters.ts';
import { openServiceBackends } from './service-backends.ts';
import type { Observation, OpenSource, Source, SourceContext } from './source.ts';
import { tenantCluster } from './tenant-cluster.ts';
import {
  kamaji,
  keepTenantControlPlane,
  steward,
  type TenantControlPlane,
  type TenantSystem,
} from './tenant-control-plane.ts';
import { joinedState, watchState } from './watch-state.ts';

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
  const { name: source, clock, wantsReconcilerNone = false } = context;
  const { kubeconfig, namespaces, selector, domain, expose, via, fix } = options;
  const api = context.kubeApi({ kubeconfig, context: options.context });
  const make = rememberClusters<TenantControlPlane>((object, lookup) =>
    tenantCluster(object, lookup, { source, system, domain, expose, via, wantsReconcilerNone }),
  );

  let last: Observation | undefined;
  /** As of the last observation. */
  let objects: ReadonlyMap<string, TenantControlPlane> = new Map();
  const onChange = () => {
    last = undefined;
    changed();
  };
  const reflector = openReflector(
    api,
    resource,
    {
      ...(namespaces && { namespaces }),
      ...(selector !== undefined && { labelSelector: selector }),
      versions: [resource.version],
      keep: keepTenantControlPlane,
      ...(clock && { clock }),
    },
    onChange,
  );
  const backends = openServiceBackends(api, { source, namespaces, via, clock }, onChange);

  function observe(): Observation {
    const own = watchState(source, [{ what: `TenantControlPlanes of ${system.title}`, reflector }]);
    const observed = joinedState(own, backends.state);
    if (!observed.synced) return { ...observed, clusters: [] };
    objects = new Map(reflector.objects);
    const clusters: Cluster[] = [];
    const findings: Finding[] = [...observed.findings];
    for (const made of make(objects, backends)) {
      if (made.cluster !== undefined) clusters.push(made.cluster);
      findings.push(...made.findings);
    }
    return { ...observed, clusters, findings };
  }

  return {
    name: source,
    resource,
    observe: () => (last ??= observe()),
    fixesFor(cluster) {
      const { object } = cluster.origin;
      const found = object && objects.get(`${object.namespace}/${object.name}`);
      if (!fix || found === undefined || found.metadata.uid !== object?.uid) return [];
      return fixControlPlane(found, cluster, system, wantsReconcilerNone);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([reflector[Symbol.asyncDispose](), backends[Symbol.asyncDispose]()]);
    },
  };
}
