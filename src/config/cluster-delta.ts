// What changed between two lists of clusters, for a message from one thread to another: only new clusters are copied, and
// all others stay the same objects on the other side, so that plan and table need not compare them.

import type { Cluster } from '../cluster/cluster.ts';

export interface ClusterDelta {
  /** For each cluster its index in the list before, or NEW: the next one of `fresh`. */
  readonly order: Int32Array;
  readonly fresh: readonly Cluster[];
}

const NEW = -1;

export function deltaOf(before: readonly Cluster[], after: readonly Cluster[]): ClusterDelta {
  const places = new Map(before.map((cluster, index) => [cluster, index]));
  const order = Int32Array.from(after, cluster => places.get(cluster) ?? NEW);
  return { order, fresh: after.filter((_, index) => order[index] === NEW) };
}

export function applyDelta(before: readonly Cluster[], { order, fresh }: ClusterDelta): readonly Cluster[] {
  let taken = 0;
  return Array.from(order, index => (index === NEW ? fresh[taken++] : before[index]));
}
