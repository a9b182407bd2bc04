// An annotated Service may add a route to a cluster of its own namespace, whichever source that cluster comes from, and
// may name a cluster of its own. It can neither join a cluster of another namespace nor take a name that looks like one.

import type { Cluster } from '../cluster/cluster.ts';
import type { ClaimTable } from './settle-claims.ts';

/** `claims`: it wants a name of its own. */
export type Join = 'claims' | 'joins' | 'refused';

export function joinOf(claim: Cluster, owner: Cluster | undefined, table: ClaimTable): Join {
  const { object } = claim.origin;
  if (object?.kind !== 'Service') return 'claims';
  const { namespace } = object;
  const dot = claim.name.indexOf('.');
  if (dot >= 0 && claim.name.slice(0, dot) !== namespace) {
    const text = `cluster '${claim.name}' belongs to another namespace than Service '${namespace}/${object.name}'`;
    table.refuse(
      claim,
      'NameClaimed',
      text,
      `Use a cluster name that begins with '${namespace}.', or one without a dot`,
    );
    return 'refused';
  }
  if (owner === undefined) return 'claims';
  if ((owner.controlPlane?.namespace ?? owner.origin.object?.namespace) === namespace) return 'joins';
  const text = `cluster '${claim.name}' is not in namespace '${namespace}', and a Service can only join clusters of its own namespace`;
  table.refuse(claim, 'NameClaimed', text, `Set causeway.dev/cluster to another cluster`);
  return 'refused';
}
