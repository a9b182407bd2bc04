// The vocabulary that every other folder speaks: what a cluster is, and the ways in that it has.
// Plain readonly data, no behaviour: sources make it, `plan` settles conflicts in it, outputs carry it out.

/** One Kubernetes cluster behind the gateway. */
export interface Cluster {
  readonly name: string;
  /** Names the cluster where there is no usable SNI: in a PROXY header's TLV or a CONNECT. */
  readonly id?: string;
  readonly origin: Origin;
  /** CIDRs of true clients; absent means anyone, an empty list nobody. */
  readonly allow?: readonly string[];
  readonly limits: ClusterLimits;
  /** An id without a signature is refused. */
  readonly identityRequired: boolean;
  readonly routes: readonly Route[];
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
  /** `api`, `konnectivity`, `apps-https`, `apps-http`, or a name of the user's own. */
  readonly kind: string;
  /** Exact names, `*.x.y` for exactly one label in front, or `*` for all that nobody else has. Lower case, no trailing dot. */
  readonly hosts: readonly string[];
  /** Further names that select this route by CONNECT. Lower case, no trailing dot. */
  readonly connect: readonly string[];
  /** Taken only when the client offers one of these; empty means always. */
  readonly alpn: readonly string[];
  /** Narrows the cluster's list; absent means the cluster's alone. */
  readonly allow?: readonly string[];
  /** The header sent to the backend in front of the client's bytes. */
  readonly proxyProtocol: ProxyProtocol;
  /** `apps-http` may redirect to https instead of having backends. */
  readonly redirect: boolean;
  /** Of an agent's one route: how its connections are marked for the gateway, which is the backend. */
  readonly uplink?: Uplink;
  readonly pool: Pool;
}

/** How an agent reaches the gateway. */
export interface Uplink {
  readonly kind: UplinkKind;
  readonly clusterId: string;
  /** Signs the id: base64url. Absent means unsigned. */
  readonly key?: string;
}

export interface Pool {
  readonly backends: readonly Backend[];
  readonly balance: Balance;
  readonly health: Health;
}

/** `host:port`; the text is hash key, log field and label. A name is one backend, its addresses alternatives. */
export interface Backend {
  readonly text: string;
  /** IP literal without brackets, or a DNS name. */
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

/** Of those, the ones that open TLS of their own towards the gateway. */
export function needsTls(uplink: Pick<Uplink, 'kind'> | undefined): boolean {
  return uplink?.kind === 'tunnel' || uplink?.kind === 'terminate';
}

export const healthChecks = ['tcp', 'tls', 'https', 'http', 'none'] as const;
export type HealthCheck = (typeof healthChecks)[number];

export const proxyProtocols = ['none', 'v1', 'v2'] as const;
export type ProxyProtocol = (typeof proxyProtocols)[number];

/** The kinds that causeway.yaml has keys of its own for; any other kind stands under `routes`. */
export const knownKinds = ['api', 'konnectivity', 'apps-https', 'apps-http'] as const;
