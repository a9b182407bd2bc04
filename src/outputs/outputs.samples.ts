// Clusters of objects in Kubernetes for tests of outputs.

import type { Cluster } from '../cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';

/** With the hosts and the Service of a TenantControlPlane with konnectivity. */
export function tenant(
  apiVersion: string,
  namespace: string,
  name: string,
  more: Partial<Cluster> = {},
): Cluster {
  const host = (kind: string) => `${namespace}-${name}.${kind}.clastix.cloud`;
  const route = (kind: string, label: string, port: number) =>
    sampleRoute({ kind, hosts: [host(label)], service: { namespace, name, port } });
  return sampleCluster(`${namespace}.${name}`, {
    origin: {
      source: apiVersion.split('.')[0],
      object: {
        apiVersion,
        kind: 'TenantControlPlane',
        namespace,
        name,
        uid: `uid-${namespace}.${name}`,
        createdAt: '2026-01-01T00:00:00Z',
      },
    },
    routes: [route('api', 'k8s', 6443), route('konnectivity', 'konnectivity', 8132)],
    ...more,
  });
}

/** Each with an id and apps. */
export function withApps(clusters: readonly Cluster[]): Cluster[] {
  return clusters.map((cluster, i) => {
    const others = cluster.routes.filter(({ kind }) => kind !== 'apps-https');
    return { ...cluster, id: `id-${i}`, routes: [...others, sampleRoute({ kind: 'apps-https' })] };
  });
}
