// Names of the objects that outputs write.

import { beginningAndHash } from '../kube/cluster-label.ts';

/**
 * A legal name of at most 63 characters, since controllers put names into labels: the cluster's name with its dot
 * replaced, and a hash. The hash tells `a.b` from `a-b`, and the objects of two outputs of one kind.
 */
export function objectName(output: string, cluster: string): string {
  const readable = cluster.toLowerCase().replaceAll(/[^a-z0-9-]+/g, '-');
  return beginningAndHash(readable, `${output} ${cluster}`);
}
