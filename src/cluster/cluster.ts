// The data model that all other folders share: a cluster and its routes.
// Plain readonly data: sources produce it, `plan` resolves conflicts in it, outputs apply it.

/** One Kubernetes cluster behind the gateway. */
export interface Cluster {
  readonly name: string;
  /** Identifies the cluster when there is no usable SNI: in a PROXY header's TLV or a CONNECT. */
  readonly id?: string;
  readonly origin: Origin;
  /** CIDRs of allowed clients; absent means anyone, an empty list means nobody. */
  readonly allow?: readonly string[];
  readonly limits: ClusterLimits;
  /** Refuse an id without a signature. */
  readonly identityRequired: boolean;
  readonly routes: readonly Route[];
  /** Absent for clusters of files. */
  readonly controlPlane?: ControlPlane;
}

/** Properties of the object in Kubernetes that outputs need and the gateway does not. */
export interface ControlPlane {
  /** Annotation `causeway.dev/paused`: objects that exist for this cluster stay as they are. */
  readonly isPaused: boolean;
  /** Where its Services are, if not in the namespace of its object. */
  readonly namespace?: string;
  /**
   * IP addresses of its nodes that can serve, or the last ones that could. Absent where its nodes are not followed or were
   * never seen.
   */
  readonly nodes?: readonly string[];
  /** How its own ingress controller is configured. */
  readonly ingress?: {
    /** Steward: `haproxy`, `nginx`, `traefik`, `generic`. */
    readonly controllerType?: string;
    readonly className?: string;
    readonly annotations: Readonly<Record<string, string>>;
  };
  /** The Secret with its admin kubeconfig, and the keys to look for, best first. */
  readonly kubeconfig?: {
    readonly namespace: string;
    readonly secret: string;
    readonly keys: readonly string[];
  };
  /** The Secret with the API server's own certificate and key, and their keys in it. */
  readonly servingCertificate?: {
    readonly namespace: string;
    readonly secret: string;
    readonly certKey: string;
    readonly keyKey: string;
  };
  /**
   * The names that its API server's certificate should have besides those that every one has. Absent where nobody lists
   * them: its operator knows them.
   */
  readonly certSANs?: readonly string[];
  /** Steward's `addons.tcpProxy`. */
  readonly agent?: AgentAddon;
}

export interface AgentAddon {
  readonly image?: string;
  readonly resources?: Readonly<Record<string, unknown>>;
  readonly hostAliases: readonly { readonly ip: string; readonly hostnames: readonly string[] }[];
  /** A further address of the gateway. */
  readonly internalEndpoint?: string;
  /** Steward runs its own tcp-proxy in the tenant: `status.addons.tcpProxy.enabled`. */
  readonly isRunning?: boolean;
}

/** Where a cluster comes from. */
export interface Origin {
  /** `file`, `directory`, `kamaji`, `kamaji-2`, … */
  readonly source: string;
  /** The Kubernetes object; absent for clusters of files. */
  readonly object?: SourceObject;
}

export interface SourceObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** `metadata.creationTimestamp`: RFC 3339, UTC, so that text order is time order. */
  readonly createdAt: string;
}

/** Absent means no limit. */
export interface ClusterLimits {
  readonly connections?: number;
  readonly perSource?: number;
  readonly newPerSecond?: number;
}

/** One way in. A cluster has at most one route of each kind. */
export interface Route {
  /** `api`, `konnectivity`, `apps-https`, `apps-http`, or a user-defined name. */
  readonly kind: string;
  /** Exact names, `*.x.y` for one label in front, or `*` for all unclaimed hosts. Lower case, no trailing dot. */
  readonly hosts: readonly string[];
  /** Further names that select this route by CONNECT. Lower case, no trailing dot. */
  readonly connect: readonly string[];
  /** Matches only if the client offers one of these protocols; empty means always. */
  readonly alpn: readonly string[];
  /** Narrows the cluster's list; absent means that only the cluster's list applies. */
  readonly allow?: readonly string[];
  /** The header sent to the backend before the client's bytes. */
  readonly proxyProtocol: ProxyProtocol;
  /** `apps-http` may redirect to https instead of having backends. */
  readonly redirect: boolean;
  /** Only on the single route of an agent, whose backend is the gateway: how connections carry the cluster id. */
  readonly uplink?: Uplink;
  /** The Service whose endpoints are the backends; absent for routes of files. */
  readonly service?: ServicePort;
  readonly pool: Pool;
}

export interface ServicePort {
  readonly namespace: string;
  readonly name: string;
  /** The Service's own port, not that of its endpoints. */
  readonly port: number;
}

/** How an agent reaches the gateway. */
export interface Uplink {
  readonly kind: UplinkKind;
  readonly clusterId: string;
  /** The key that signs the id, in base64url. Absent means unsigned. */
  readonly key?: string;
}

export interface Pool {
  readonly backends: readonly Backend[];
  readonly balance: Balance;
  readonly health: Health;
}

/** `text` (`host:port`) is the hash key, log field and label. A DNS name is one backend with alternative addresses. */
export interface Backend {
  readonly text: string;
  /** An IP literal without brackets, or a DNS name. */
  readonly host: string;
  readonly port: number;
}

export interface Health {
  readonly check: HealthCheck;
  readonly everyMs: number;
  readonly timeoutMs: number;
  readonly rise: number;
  readonly fall: number;
  readonly path?: string;
  readonly serverName?: string;
}

export const balances = ['source', 'host', 'round-robin', 'least-connections', 'random'] as const;
export type Balance = (typeof balances)[number];

export const uplinkKinds = ['proxy', 'connect', 'tunnel', 'terminate'] as const;
export type UplinkKind = (typeof uplinkKinds)[number];

/** Whether the uplink opens its own TLS connection to the gateway. */
export function needsTls(uplink: Pick<Uplink, 'kind'> | undefined): boolean {
  return uplink?.kind === 'tunnel' || uplink?.kind === 'terminate';
}

export const healthChecks = ['tcp', 'tls', 'https', 'http', 'none'] as const;
export type HealthCheck = (typeof healthChecks)[number];

export const proxyProtocols = ['none', 'v1', 'v2'] as const;
export type ProxyProtocol = (typeof proxyProtocols)[number];

/** The kinds with their own key in causeway.yaml; all others are under `routes`. */
export const knownKinds = ['api', 'konnectivity', 'apps-https', 'apps-http'] as const;
