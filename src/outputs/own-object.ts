// An object of ours: how it should be, what is kept of it as it is, and whether the two agree. Pure.

import type { Cluster } from '../cluster/cluster.ts';
import { CLUSTER_LABEL, MANAGER, ownLabels } from '../kube/cluster-label.ts';
import type { KubeObject, ObjectMeta } from '../kube/kube-object.ts';
import type { DesiredObject, OutputResource, Refusal } from './output.ts';

/** The source of the cluster that an object is for: decides whether the object may be removed when it is not desired. */
const SOURCE_ANNOTATION = 'causeway.dev/source';

type Fields = Readonly<Record<string, unknown>>;

/** What is kept of an object in the API server. */
export interface KeptObject {
  /** Without its status and managedFields. */
  readonly object: KubeObject;
  /** The fields that we own by server-side apply, as managedFields have them. */
  readonly owned: Fields;
  /** Why the controller that reads it does not serve it. */
  readonly refusal?: Refusal;
}

export function keepObject(given: KubeObject, refusalOf?: OutputResource['refusalOf']): KeptObject {
  const { status: _, ...object } = given as KubeObject & { status?: unknown };
  const { managedFields = [], ...metadata } = object.metadata;
  const ours = managedFields.find(
    ({ manager, operation, subresource }) => manager === MANAGER && operation === 'Apply' && !subresource,
  );
  const refusal = refusalOf?.(given);
  return {
    object: { ...object, metadata },
    owned: ours?.fieldsV1 ?? {},
    ...(refusal && { refusal }),
  };
}

/** The whole object to apply: with the labels, annotations and owner reference that all our objects have. */
export function ownObject({ cluster, object }: DesiredObject, instance: string): KubeObject {
  const { metadata } = object;
  const own = ownLabels(cluster.name, instance);
  const owner = ownerOf(cluster, metadata.namespace);
  return {
    ...object,
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, ...own.labels },
      annotations: {
        ...metadata.annotations,
        ...own.annotations,
        [SOURCE_ANNOTATION]: cluster.origin.source,
      },
      ...(owner && { ownerReferences: owner }),
    },
  };
}

export function sourceOf({ object }: KeptObject): string | undefined {
  return object.metadata.annotations?.[SOURCE_ANNOTATION];
}

/** As `clusterLabel()` gives it. */
export function clusterLabelOf({ object }: KeptObject): string | undefined {
  return object.metadata.labels?.[CLUSTER_LABEL];
}

/** Has every field that we set, as we set it, and none that we set earlier. Ignores the fields of others. */
export function isAsDesired({ object, owned }: KeptObject, wanted: KubeObject): boolean {
  const { apiVersion: _, kind: __, metadata, ...rest } = wanted;
  const { labels, annotations, ownerReferences } = metadata;
  return (
    contains(object.metadata, { labels, annotations, ownerReferences }) &&
    contains(object, rest) &&
    !hasMore(owned, wanted as unknown as Fields)
  );
}

/** Tells whether somebody has changed an object that the API server keeps otherwise than we applied it. */
export function essenceOf({ object }: KeptObject): string {
  const { apiVersion: _, metadata, ...rest } = object;
  const { uid, labels, annotations, ownerReferences } = metadata;
  return JSON.stringify([uid, labels, annotations, ownerReferences, rest]);
}

function ownerOf({ origin }: Cluster, namespace: string | undefined): ObjectMeta['ownerReferences'] {
  const owner = origin.object;
  if (owner === undefined || owner.namespace !== namespace || owner.uid === '') return undefined;
  const { apiVersion, kind, name, uid } = owner;
  return [{ apiVersion, kind, name, uid }];
}

/** API servers add defaults, also within the entries of lists, and leave out what is empty. */
function contains(found: unknown, wanted: unknown): boolean {
  if (wanted === undefined || found === wanted) return true;
  if (Array.isArray(wanted)) {
    if (!Array.isArray(found)) return found === undefined && wanted.length === 0;
    return found.length === wanted.length && wanted.every((each, i) => contains(found[i], each));
  }
  if (!isMap(wanted)) return false;
  if (found === undefined) return Object.values(wanted).every(each => each === undefined);
  return isMap(found) && Object.entries(wanted).every(([key, each]) => contains(found[key], each));
}

/** Whether we own a field that is no longer wanted. Entries of lists are compared by contains(). */
function hasMore(owned: Fields, wanted: Fields): boolean {
  return Object.entries(owned).some(([key, inner]) => {
    if (!key.startsWith('f:')) return false;
    const value = wanted[key.slice(2)];
    if (value === undefined) return true;
    return isMap(inner) && isMap(value) && hasMore(inner, value);
  });
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
