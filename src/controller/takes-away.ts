// Whether a change takes something away from clients. Such a change may be half of a replacement (an object is deleted and
// created again, an endpoint moves from one slice to another), so it is worth waiting for the rest.

import type { Cluster } from '../cluster/cluster.ts';

export function takesAway(before: readonly Cluster[], after: readonly Cluster[]): boolean {
  const byName = new Map(after.map(cluster => [cluster.name, cluster]));
  return before.some(cluster => {
    const now = byName.get(cluster.name);
    return (
      now !== cluster && (now === undefined || now.routes.some(({ pool }) => pool.backends.length === 0))
    );
  });
}
