// The port to a Kubernetes API server: a few calls, each made once. Failures are data, since every caller has its
// own idea of when to try again. kube-client.ts is the real one; tests have one in memory.

import type { EndpointSlice, Endpoints, KubeObject, Lease, Service, ServiceCidr } from './kube-object.ts';

export interface Resource<T extends KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  /** Only for the type. */
  readonly object?: T;
}

export const services: Resource<Service> = core('services', 'Service');
export const endpoints: Resource<Endpoints> = core('endpoints', 'Endpoints');
export const endpointSlices: Resource<EndpointSlice> = {
  group: 'discovery.k8s.io',
  version: 'v1',
  plural: 'endpointslices',
  kind: 'EndpointSlice',
};
export const leases: Resource<Lease> = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
};
export const serviceCidrs: Resource<ServiceCidr> = {
  group: 'networking.k8s.io',
  version: 'v1',
  plural: 'servicecidrs',
  kind: 'ServiceCIDR',
};

export interface KubeFault {
  /** HTTP's; 0 where there was no answer. */
  readonly status: number;
  /** As the API server words it (`NotFound`, `Conflict`, …); without an answer `Unreachable`, `Timeout`, `Credentials`, `BadAnswer`. */
  readonly reason: string;
  readonly message: string;
}

export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly fault: KubeFault };

export interface ListOptions {
  /** Absent for what has no namespace. */
  readonly namespace?: string;
  readonly labelSelector?: string;
}

/** No call ever rejects, and each ends within a bounded time. */
export interface KubeApi {
  get<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string): Promise<Answer<T>>;
  list<T extends KubeObject>(resource: Resource<T>, options: ListOptions): Promise<Answer<readonly T[]>>;
  create<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>>;
  /** Refused with 409 when the object is no longer at the resourceVersion that it carries. */
  replace<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>>;
  /** Likewise, where the object carries a resourceVersion. */
  remove<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<undefined>>;
}

export function failed(status: number, reason: string, message: string): Answer<never> {
  return { ok: false, fault: { status, reason, message } };
}

function core<T extends KubeObject>(plural: string, kind: string): Resource<T> {
  return { group: '', version: 'v1', plural, kind };
}
