// A user cluster of Kubermatic in its seed cluster, as far as a source reads it.

import { wholeKubermatic } from '../../src/sources/kubermatic.samples.ts';
import type { ApiServer } from '../../testbed/start-api-server.ts';

export interface UserCluster {
  /** The name of its Cluster. */
  readonly id: string;
  /** The admin kubeconfig file that goes into its Secret. */
  readonly kubeconfig: string;
}

/** Adds a Cluster with its external name, its namespace `cluster-<id>` and its admin kubeconfig there. */
export async function addUserCluster(seed: ApiServer, { id, kubeconfig }: UserCluster): Promise<void> {
  const namespace = `cluster-${id}`;
  await seed.apply(wholeKubermatic(id));
  const status = { namespaceName: namespace, address: { externalName: `${id}.eu.k8c.lab` } };
  const patch = ['--subresource=status', '--type=merge', '-p', JSON.stringify({ status })];
  await seed.kubectl('patch', 'clusters.kubermatic.k8c.io', id, ...patch);
  await seed.kubectl('create', 'namespace', namespace);
  const file = `--from-file=kubeconfig=${kubeconfig}`;
  await seed.kubectl('create', 'secret', 'generic', 'admin-kubeconfig', '-n', namespace, file);
}
