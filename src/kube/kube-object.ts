// Kubernetes objects as JSON has them: only what we read or write. Where the API server sends more, a replaced
// object carries it back unseen.

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Grows with every change of the spec. */
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly managedFields?: readonly ManagedFields[];
}

/** The owner is in the same namespace, or has none. An object is garbage-collected once all its owners are gone. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** Who has set which fields last: the API server keeps these books. */
export interface ManagedFields {
  readonly manager?: string;
  readonly operation?: string;
  /** Of the last change of these fields. */
  readonly time?: string;
  /** Of a subresource's own books, such as `status`. */
  readonly subresource?: string;
  /** Keys are `f:` and the name of a field. */
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
}

export interface Service extends KubeObject {
  readonly spec?: {
    readonly clusterIPs?: readonly string[];
    readonly ipFamilies?: readonly string[];
  };
}

export interface ServiceCidr extends KubeObject {
  readonly spec?: { readonly cidrs?: readonly string[] };
}

export interface Lease extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    /** RFC 3339 with exactly six digits of a second. */
    readonly acquireTime?: string;
    readonly renewTime?: string;
    /** How often it has gone from one holder to another. */
    readonly leaseTransitions?: number;
  };
}

/** Of `events.k8s.io/v1`. In the core group its `reportingController` is called `reportingComponent`. */
export interface KubeEvent extends KubeObject {
  /** RFC 3339 with exactly six digits of a second. */
  readonly eventTime: string;
  readonly reportingController: string;
  readonly reportingInstance: string;
  readonly action: string;
  readonly reason: string;
  readonly regarding: ObjectReference;
  readonly note: string;
  readonly type: 'Normal' | 'Warning';
}

export interface ObjectReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
}

/** Only that it is there, and whether it is being deleted. */
export type CustomResourceDefinition = KubeObject;

export interface EndpointPort {
  readonly name?: string;
  readonly port?: number;
  readonly protocol?: string;
}

export interface EndpointSlice extends KubeObject {
  /** Immutable: 'IPv4' or 'IPv6' (or 'FQDN', which is not ours). */
  readonly addressType: string;
  readonly endpoints?: readonly EndpointOfSlice[] | null;
  readonly ports?: readonly EndpointPort[] | null;
}

export interface EndpointOfSlice {
  readonly addresses: readonly string[];
  readonly conditions?: { readonly ready?: boolean };
}

export interface Endpoints extends KubeObject {
  readonly subsets?: readonly EndpointSubset[] | null;
}

export interface EndpointSubset {
  readonly addresses?: readonly { readonly ip: string }[];
  readonly notReadyAddresses?: readonly { readonly ip: string }[];
  readonly ports?: readonly EndpointPort[];
}

export interface Node extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
  };
}
