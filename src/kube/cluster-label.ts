// The labels of every object that we write. A label's value has at most 63 characters, a cluster's name may have
// more: then the label has its beginning and a hash, and an annotation the whole name.

import { createHash } from 'node:crypto';
import type { ObjectMeta } from './kube-object.ts';

export const CLUSTER_LABEL = 'causeway.dev/cluster';
export const MANAGED_BY_LABEL = 'app.kubernetes.io/managed-by';
/** What `app.kubernetes.io/managed-by` says, and who the API server's books name for our fields. */
export const MANAGER = 'causeway';

const LABEL_VALUE = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const BEGINNING = 52;
const HASH_DIGITS = 10;

/** What metadata must have besides name and namespace. */
export function ownLabels(cluster: string): Required<Pick<ObjectMeta, 'labels' | 'annotations'>> {
  const value = clusterLabel(cluster);
  return {
    labels: { [MANAGED_BY_LABEL]: MANAGER, [CLUSTER_LABEL]: value },
    annotations: value === cluster ? {} : { [CLUSTER_LABEL]: cluster },
  };
}

export function clusterLabel(cluster: string): string {
  if (LABEL_VALUE.test(cluster)) return cluster;
  const hash = createHash('sha256').update(cluster).digest('hex').slice(0, HASH_DIGITS);
  // An id may begin with what a label must not.
  const beginning = cluster.slice(0, BEGINNING).replace(/^[^A-Za-z0-9]+/, '');
  return beginning === '' ? hash : `${beginning}-${hash}`;
}
