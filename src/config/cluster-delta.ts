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
  const order = new Int32Array(after.length);
  // Usually all but a few are where they were, seen from the beginning or from the end.
  let first = 0;
  while (first < after.length && after[first] === before[first]) order[first] = first++;
  let last = 0;
  const most = Math.min(before.length, after.length) - first;
  while (last < most && after[after.length - 1 - last] === before[before.length - 1 - last]) {
    last++;
    order[after.length - last] = before.length - last;
  }
  const places = new Map<Cluster, number>();
  for (let index = first; index < before.length - last; index++) places.set(before[index], index);
  for (let index = first; index < after.length - last; index++)
    order[index] = places.get(after[index]) ?? NEW;
  return { order, fresh: after.filter((_, index) => order[index] === NEW) };
}

export function applyDelta(before: readonly Cluster[], { order, fresh }: ClusterDelta): readonly Cluster[] {
  let taken = 0;
  return Array.from(order, index => (index === NEW ? fresh[taken++] : before[index]));
}
