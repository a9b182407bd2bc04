// Which kubeconfig is whose: --kubeconfig is that of the API server with the objects, --tenant-kubeconfig that of one
// cluster, and the Secrets of sources have those of theirs.

import { resolve } from 'node:path';
import type { Cluster } from '../cluster/cluster.ts';
import { normalizeHost, patternFor } from '../cluster/hostname.ts';
import type { Config } from '../config/config.ts';
import type { Clock } from '../kube/clock.ts';
import { KubeAccessError } from '../kube/kube-access.ts';
import type { KubeServers } from '../kube/kube-servers.ts';
import { openKubeAccess } from '../kube/open-kube-access.ts';
import { TenantCredentials } from '../kube/tenant-credentials.ts';
import type { GatewayPlaces } from './gateway-places.ts';
import { sourcesFrom } from './list-clusters.ts';
import { openTenant } from './open-tenant.ts';
import { apiHostOf, routeOfKind, type World } from './world.ts';

export interface KubeconfigFlags {
  readonly kubeconfig?: string | undefined;
  readonly tenantKubeconfig?: string | undefined;
}

/** A kubeconfig that was asked for and cannot be used means that the question cannot be answered. */
export async function unusableKubeconfigs({
  kubeconfig,
  tenantKubeconfig,
}: KubeconfigFlags): Promise<readonly string[]> {
  const files = [kubeconfig, tenantKubeconfig].filter(file => file !== undefined);
  const results = await Promise.all(
    files.map(file =>
      openKubeAccess({ kubeconfig: file }).then(
        () => [],
        (error: unknown) => {
          if (error instanceof KubeAccessError) return [error.message];
          throw error;
        },
      ),
    ),
  );
  return results.flat();
}

/** The kubeconfig file of a cluster, or undefined. */
export type TenantFor = (cluster: Cluster) => string | undefined;

/** A string says why the cluster of --tenant-kubeconfig is not known. */
export async function chooseTenant(
  { kubeconfig, tenantKubeconfig }: KubeconfigFlags,
  chosen: readonly Cluster[],
): Promise<TenantFor | string> {
  if (tenantKubeconfig !== undefined) {
    if (chosen.length === 1) return () => tenantKubeconfig;
    const name = await serverNameOf(tenantKubeconfig);
    const owner = chosen.find(cluster => hasApiHost(cluster, name));
    if (owner !== undefined) return cluster => (cluster === owner ? tenantKubeconfig : undefined);
    return `The kubeconfig '${tenantKubeconfig}' names the server ${name}, which is no API host in the file: name its cluster, as in causeway doctor CLUSTER --tenant-kubeconfig F`;
  }
  if (kubeconfig === undefined) return () => undefined;
  // For a cluster of the file, people give its own kubeconfig here, too.
  const name = await serverNameOf(kubeconfig);
  return cluster => (hasApiHost(cluster, name) ? kubeconfig : undefined);
}

async function serverNameOf(kubeconfig: string): Promise<string> {
  try {
    return (await (await openKubeAccess({ kubeconfig })).credentials()).serverName;
  } catch {
    return '';
  }
}

function hasApiHost(cluster: Cluster, name: string): boolean {
  return patternFor(normalizeHost(name), routeOfKind(cluster, 'api')?.hosts ?? []) !== undefined;
}

export interface Tenancy extends KubeconfigFlags {
  readonly config: Config;
  readonly servers: KubeServers;
  readonly tenantFor: TenantFor;
}

export function managementOf({ kubeconfig, config, servers, tenantFor }: Tenancy): World['management'] {
  const absolute = kubeconfig === undefined ? undefined : resolve(kubeconfig);
  const settings = new Map(sourcesFrom(config, absolute).map(source => [source.name, source]));
  return cluster => {
    const source = settings.get(cluster.origin.source);
    if (source !== undefined && source.kind !== 'directory') return servers.api(source.options);
    // That kubeconfig is the cluster's own.
    if (absolute === undefined || tenantFor(cluster) === kubeconfig) return undefined;
    return servers.api({ kubeconfig: absolute });
  };
}

/** Clients are closed with `resources`. */
export function tenantOf(
  tenancy: Tenancy,
  places: GatewayPlaces,
  clock: Clock,
  resources: DisposableStack,
): World['tenant'] {
  const management = managementOf(tenancy);
  return async cluster => {
    const route = routeOfKind(cluster, 'api');
    const place = route && places.placeOf(route);
    const serverName = apiHostOf(cluster);
    const through = place && serverName ? { at: place.at, serverName } : undefined;
    const file = tenancy.tenantFor(cluster);
    if (file !== undefined) {
      const access = await openKubeAccess({ kubeconfig: file });
      const from = `kubeconfig ${file}`;
      return resources.use(
        await openTenant({ from, access, through, isPersonal: true, problem: () => undefined }),
      );
    }
    const secret = cluster.controlPlane?.kubeconfig;
    const api = management(cluster);
    if (secret === undefined || api === undefined) return undefined;
    const access = new TenantCredentials(api, secret, clock);
    const from = `kubeconfig in ${access.name}`;
    return resources.use(
      await openTenant({ from, access, through, isPersonal: false, problem: () => access.problem }),
    );
  };
}
