// An object that gives a cluster: what is kept of its metadata, and what all kinds of them have in common.

import type { Cluster, ControlPlane, Route, SourceObject } from '../cluster/cluster.ts';
import { CLUSTER_ID } from '../cluster/cluster-id.ts';
import { DNS_LABEL, DNS_LABEL_WORDS } from '../config/names.ts';
import { quote } from '../config/reading.ts';
import type { KubeObject, ObjectMeta } from '../kube/kube-object.ts';
import { pick, type Shape } from './json-fields.ts';
import type { Report } from './report.ts';

const ALLOW = 'causeway.dev/allow';
const PAUSED = 'causeway.dev/paused';
const OWN: Shape = { [ALLOW]: true, [PAUSED]: true };

/** Custom resources, of which nothing but the metadata has a known form. */
export interface ClusterObject extends KubeObject {
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** Drops the fields that we never read, such as pod templates and conditions: there may be 10,000 objects. */
export function keepClusterObject<T extends ClusterObject>(
  { apiVersion, kind, metadata, spec, status }: T,
  shape: { readonly spec: Shape; readonly status?: Shape; readonly annotations?: Shape },
): ClusterObject {
  return {
    apiVersion,
    kind,
    metadata: keptMetadata(metadata, { ...OWN, ...shape.annotations }),
    spec: pick(spec, shape.spec),
    ...(shape.status && { status: pick(status, shape.status) }),
  };
}

function keptMetadata(metadata: ObjectMeta, shape: Shape): ObjectMeta {
  const { name, namespace, uid, resourceVersion, creationTimestamp, annotations } = metadata;
  return {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(creationTimestamp !== undefined && { creationTimestamp }),
    annotations: (pick(annotations, shape) ?? {}) as Record<string, string>,
  };
}

/** `unknown` fields are still to be checked. */
export interface CommonFields {
  readonly object: SourceObject;
  /** Annotation `causeway.dev/allow`. */
  readonly allow: unknown;
  readonly isPaused: boolean;
}

export function commonFields(given: ClusterObject): CommonFields {
  const { apiVersion, kind, metadata } = given;
  return {
    object: {
      apiVersion,
      kind,
      namespace: metadata.namespace ?? '',
      name: metadata.name,
      uid: metadata.uid ?? '',
      createdAt: metadata.creationTimestamp ?? '',
    },
    allow: annotationOf(given, ALLOW),
    isPaused: annotationOf(given, PAUSED) === 'true',
  };
}

export function annotationOf({ metadata }: ClusterObject, key: string): unknown {
  const annotations: Readonly<Record<string, unknown>> = metadata.annotations ?? {};
  return Object.hasOwn(annotations, key) ? annotations[key] : undefined;
}

/** Names of objects may have dots, those of Services may not. */
export function hasServiceName({ object: { name } }: CommonFields, report: Report): boolean {
  if (DNS_LABEL.test(name)) return true;
  const text = `its name ${quote(name)} cannot be that of a Service, so its control plane has none`;
  report('error', 'ServiceMissing', text, `Use a name that is ${DNS_LABEL_WORDS}`);
  return false;
}

/** `<namespace>.<name>`. */
export function clusterNameOf({ namespace, name }: SourceObject): string {
  return `${namespace}.${name}`;
}

export function toCluster(
  { object }: CommonFields,
  source: string,
  given: {
    readonly allow: readonly string[] | undefined;
    readonly routes: readonly Route[];
    readonly controlPlane: ControlPlane;
  },
): Cluster {
  const { allow, routes, controlPlane } = given;
  return {
    name: clusterNameOf(object),
    ...(CLUSTER_ID.test(object.uid) && { id: object.uid }),
    origin: { source, object },
    ...(allow !== undefined && { allow }),
    limits: {},
    identityRequired: false,
    routes,
    controlPlane,
  };
}
