// The resources that we read and write: where an API server has them. Those of other systems stand with their source
// or output.

import type {
  CustomResourceDefinition,
  EndpointSlice,
  Endpoints,
  KubeEvent,
  KubeObject,
  Lease,
  Node,
  Service,
  ServiceCidr,
} from './kube-object.ts';

export interface Resource<T extends KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  /** Versions that we can write, the best first, where `version` is not the only one. The first that is served is used. */
  readonly versions?: readonly string[];
  /** Only for the type. */
  readonly object?: T;
}

export const services: Resource<Service> = resource('v1', 'services', 'Service');
export const endpoints: Resource<Endpoints> = resource('v1', 'endpoints', 'Endpoints');
export const endpointSlices: Resource<EndpointSlice> = resource(
  'discovery.k8s.io/v1',
  'endpointslices',
  'EndpointSlice',
);
export const nodes: Resource<Node> = resource('v1', 'nodes', 'Node');
export const leases: Resource<Lease> = resource('coordination.k8s.io/v1', 'leases', 'Lease');
export const serviceCidrs: Resource<ServiceCidr> = resource(
  'networking.k8s.io/v1',
  'servicecidrs',
  'ServiceCIDR',
);
export const events: Resource<KubeEvent> = resource('events.k8s.io/v1', 'events', 'Event');
export const customResourceDefinitions: Resource<CustomResourceDefinition> = resource(
  'apiextensions.k8s.io/v1',
  'customresourcedefinitions',
  'CustomResourceDefinition',
);

/** `apiVersion` as objects have it: `v1`, `discovery.k8s.io/v1`. */
export function resource<T extends KubeObject>(
  apiVersion: string,
  plural: string,
  kind: string,
): Resource<T> {
  const slash = apiVersion.indexOf('/');
  return {
    group: apiVersion.slice(0, Math.max(slash, 0)),
    version: apiVersion.slice(slash + 1),
    plural,
    kind,
  };
}

export function apiVersionOf({ group, version }: Resource<KubeObject>): string {
  return group === '' ? version : `${group}/${version}`;
}

/** Kubernetes' own groups with a dot; those of CustomResourceDefinitions always have one. */
const BUILT_IN_GROUPS: ReadonlySet<string> = new Set([
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'apiregistration.k8s.io',
  'authentication.k8s.io',
  'authorization.k8s.io',
  'certificates.k8s.io',
  'coordination.k8s.io',
  'discovery.k8s.io',
  'events.k8s.io',
  'flowcontrol.apiserver.k8s.io',
  'networking.k8s.io',
  'node.k8s.io',
  'rbac.authorization.k8s.io',
  'resource.k8s.io',
  'scheduling.k8s.io',
  'storage.k8s.io',
]);

/** Whether Kubernetes itself brings it, so that it cannot be uninstalled. */
export function isBuiltIn({ group }: Resource<KubeObject>): boolean {
  return !group.includes('.') || BUILT_IN_GROUPS.has(group);
}
