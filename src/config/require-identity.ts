// `identity.required`: the same for every cluster, from the file or from a source.

import type { Cluster } from '../cluster/cluster.ts';

/** The same object for the same cluster, so that callers can still compare references. */
const required = new WeakMap<Cluster, Cluster>();

export function requireIdentity(cluster: Cluster): Cluster {
  if (cluster.identityRequired) return cluster;
  const known = required.get(cluster) ?? { ...cluster, identityRequired: true };
  required.set(cluster, known);
  return known;
}
