// The labels and annotations of every object that we write. A label's value has at most 63 characters, a cluster's name
// may have more: then the label has its beginning and a hash, and an annotation has the whole name.

import { hash } from 'node:crypto';
import type { ObjectMeta } from './kube-object.ts';

export const CLUSTER_LABEL = 'causeway.dev/cluster';
/** The whole name, where the label has only its beginning. */
export const CLUSTER_NAME_ANNOTATION = 'causeway.dev/cluster-name';
/** Which deployment of Causeway has written it; another one leaves it alone. */
export const INSTANCE_LABEL = 'causeway.dev/instance';
export const MANAGED_BY_LABEL = 'app.kubernetes.io/managed-by';
/** The value of `app.kubernetes.io/managed-by`, and our field manager. */
export const MANAGER = 'causeway';

const LABEL_VALUE = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const BEGINNING = 52;
const HASH_DIGITS = 10;

/**
 * What metadata must have besides name and namespace. `instance` is `<lease namespace>.<lease name>`; absent for an
 * agent's objects, since agents have no such lease.
 */
export function ownLabels(
  cluster: string,
  instance?: string,
): Required<Pick<ObjectMeta, 'labels' | 'annotations'>> {
  const value = clusterLabel(cluster);
  return {
    labels: {
      [MANAGED_BY_LABEL]: MANAGER,
      [CLUSTER_LABEL]: value,
      ...(instance !== undefined && { [INSTANCE_LABEL]: instanceLabel(instance) }),
    },
    annotations: value === cluster ? {} : { [CLUSTER_NAME_ANNOTATION]: cluster },
  };
}

export function clusterLabel(cluster: string): string {
  return LABEL_VALUE.test(cluster) ? cluster : beginningAndHash(cluster);
}

/** Of `<lease namespace>.<lease name>`. */
export function instanceLabel(instance: string): string {
  return clusterLabel(instance);
}

/** Selects the objects that an instance may change and delete, and no others. */
export function ownSelector(instance: string): string {
  return `${MANAGED_BY_LABEL}=${MANAGER},${INSTANCE_LABEL}=${instanceLabel(instance)}`;
}

export function isOwn({ labels }: Pick<ObjectMeta, 'labels'>, instance: string): boolean {
  return labels?.[MANAGED_BY_LABEL] === MANAGER && labels[INSTANCE_LABEL] === instanceLabel(instance);
}

/** At most 63 characters. `hashed`: what the hash is of, where the text alone does not tell two names apart. */
export function beginningAndHash(text: string, hashed = text): string {
  const digits = hash('sha256', hashed).slice(0, HASH_DIGITS);
  // An id may begin with what a label must not.
  const beginning = text.slice(0, BEGINNING).replace(/^[^A-Za-z0-9]+/, '');
  return beginning === '' ? digits : `${beginning}-${digits}`;
}
