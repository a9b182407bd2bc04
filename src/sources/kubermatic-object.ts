// Cluster of Kubermatic: what is kept of an object, and its fields as we read them. A field that cannot be read counts as
// absent, except where that would hide a mistake (host names) or let more clients in (ranges): those are passed on.

import type { SourceObject } from '../cluster/cluster.ts';
import { DNS_LABEL } from '../config/names.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { at, pick, type Shape, textAt } from './json-fields.ts';

export interface KubermaticObject extends KubeObject {
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** Without namespace. */
export const kubermaticClusters: Resource<KubermaticObject> = resource(
  'kubermatic.k8c.io/v1',
  'clusters',
  'Cluster',
);

export interface KubermaticFields {
  readonly object: SourceObject;
  /** Of its control plane. */
  readonly namespace: string;
  readonly exposeStrategy: string | undefined;
  readonly externalName: unknown;
  /** Clients that may reach the control plane. */
  readonly ranges: unknown;
  /** Annotation `causeway.dev/allow`. */
  readonly allow: unknown;
  readonly isPaused: boolean;
}

const ALLOW = 'causeway.dev/allow';
const PAUSED = 'causeway.dev/paused';
const ANNOTATIONS: Shape = { [ALLOW]: true, [PAUSED]: true };
const SPEC: Shape = { exposeStrategy: true, apiServerAllowedIPRanges: true };
const STATUS: Shape = { address: { externalName: true }, namespaceName: true };

/** Once for each object: nothing else is kept of it. */
export function keepKubermaticCluster(given: KubermaticObject): KubermaticFields {
  const { apiVersion, kind, metadata } = given;
  const [spec, status] = [pick(given.spec, SPEC), pick(given.status, STATUS)];
  const annotations = pick(metadata.annotations, ANNOTATIONS);
  const { name } = metadata;
  const { [ALLOW]: allow, [PAUSED]: paused } = (annotations ?? {}) as Record<string, unknown>;
  const namespace = textAt(status, 'namespaceName');
  return {
    object: {
      apiVersion,
      kind,
      namespace: '',
      name,
      uid: metadata.uid ?? '',
      createdAt: metadata.creationTimestamp ?? '',
    },
    namespace: namespace !== undefined && DNS_LABEL.test(namespace) ? namespace : `cluster-${name}`,
    exposeStrategy: textAt(spec, 'exposeStrategy'),
    externalName: at(status, 'address.externalName'),
    ranges: rangesOf(at(spec, 'apiServerAllowedIPRanges')),
    allow,
    isPaused: paused === 'true',
  };
}

/** What stands there instead of a map with a list must not let anyone in. */
function rangesOf(given: unknown): unknown {
  if (given === undefined || given === null) return undefined;
  return typeof given === 'object' && !Array.isArray(given) ? at(given, 'cidrBlocks') : given;
}
