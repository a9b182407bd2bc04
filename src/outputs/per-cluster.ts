// Outputs whose objects depend on one cluster at a time. The result for a cluster is remembered for as long as the
// cluster is the same object, which plan() guarantees for unchanged ones: a change costs the changed clusters only.

import type { Cluster } from '../cluster/cluster.ts';
import type { Plan } from '../plan/plan.ts';
import type { Desired } from './output.ts';

export function perCluster(desiredOf: (cluster: Cluster) => Desired): (plan: Plan) => Desired {
  const remembered = new WeakMap<Cluster, Desired>();
  return ({ clusters }) => {
    const all = clusters.map(cluster => {
      let desired = remembered.get(cluster);
      if (desired === undefined) {
        desired = desiredOf(cluster);
        remembered.set(cluster, desired);
      }
      return desired;
    });
    return {
      objects: all.flatMap(({ objects }) => objects),
      findings: all.flatMap(({ findings }) => findings),
    };
  };
}
