// A valid causeway.yaml: defaults filled in, names normalized, durations in milliseconds. Plain data, so that one
// thread can read it and another use it.

import type { Cluster, UplinkKind } from '../cluster/cluster.ts';

export interface Config {
  /** At least one. */
  readonly listen: readonly Listener[];
  readonly admin: Admin;
  readonly clusters: readonly Cluster[];
  readonly timeouts: Timeouts;
  readonly retries: number;
  readonly limits: GatewayLimits;
  readonly engine: Engine;
  readonly workers: number | 'auto';
  readonly log: LogSettings;
  readonly stateDir?: string;
  /** Private sockets of this process. */
  readonly runDir?: string;
  readonly identity?: Identity;
  readonly tunnel?: Tunnel;
  readonly sources: readonly SourceSettings[];
  readonly outputs: readonly OutputSettings[];
  readonly lease?: Lease;
  readonly statusAnnotation?: boolean;
}

export interface ListenAddress {
  /** IP literal without brackets, `localhost`, or `''` for every address of both families. */
  readonly host: string;
  /** 0 means any free port. */
  readonly port: number;
}

export interface Listener extends ListenAddress {
  /** As written. */
  readonly on: string;
  readonly balancers: readonly string[];
  readonly agents: readonly string[];
  readonly idTlv: readonly number[];
  /** Route kinds reachable here; absent means all. */
  readonly only?: readonly string[];
}

export interface Admin {
  readonly on: ListenAddress | 'off';
  /** Further accepted Host values. */
  readonly hosts: readonly string[];
  readonly auth: readonly AdminUser[];
  readonly tls?: KeyPairFiles;
}

export interface AdminUser {
  readonly username: string;
  readonly passwordFile: string;
  readonly role: AdminRole;
}

export interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Absent means off. */
export interface Timeouts {
  readonly helloMs: number;
  readonly connectMs: number;
  readonly idleMs?: number;
  readonly stalledMs?: number;
  readonly halfClosedMs?: number;
  readonly drainDelayMs: number;
  readonly drainMs: number;
  readonly keepaliveMs?: number;
}

export interface GatewayLimits {
  /** Absent means computed from the open-file limit when the gateway starts. */
  readonly connections?: number;
  /** Absent means no limit. */
  readonly perSource?: number;
  /** Limit of connections that are not routed yet. */
  readonly pending: number;
  /** The same limit per source. Absent means no limit. */
  readonly pendingPerSource?: number;
}

export interface LogSettings {
  readonly level: LogLevel;
  readonly format: LogFormat;
  readonly connections: LoggedConnections;
}

export interface Identity {
  readonly secretFile: string;
  readonly required: boolean;
}

export interface Tunnel {
  /** Absent means that the tunnel is reached only by its hosts, on the listeners. */
  readonly on?: ListenAddress;
  readonly hosts: readonly string[];
  readonly certificates: readonly KeyPairFiles[];
}

/** Where clusters come from, besides `clusters`. */
export type SourceSettings = Plugged<SourceOptions>;

/** Where the plan goes to, besides the gateway's own table. */
export type OutputSettings = Plugged<OutputOptions>;

/** One kind with its options. */
export type Plugged<Options> = {
  readonly [Kind in keyof Options]: {
    readonly kind: Kind;
    /** The kind, and `-2`, `-3`, … for the second and third of that kind. */
    readonly name: string;
    readonly options: Options[Kind];
  };
}[keyof Options];

export interface SourceOptions {
  readonly kamaji: TenantControlPlaneOptions;
  readonly steward: TenantControlPlaneOptions;
  readonly hypershift: WatchOptions;
  readonly kubermatic: WatchOptions & { readonly zone?: string | undefined };
  /** `domains` is required: what its Services may claim. */
  readonly services: WatchOptions & { readonly domains: readonly string[] };
  /** `service`: a template for the names of Services, with `{name}` and `{namespace}` of the Cluster. */
  readonly clusterApi: WatchOptions & { readonly service: string };
  readonly k0smotron: WatchOptions;
  readonly directory: { readonly path: string };
}

/** Common to all sources in Kubernetes. */
export interface WatchOptions {
  /** A file. Absent: the service account of the pod. */
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  /** At least one. Absent: all. */
  readonly namespaces?: readonly string[] | undefined;
  readonly selector?: string | undefined;
  /** Absent: its objects may claim any host. */
  readonly domains?: readonly string[] | undefined;
  /** Backends are the endpoints of a Service, or its ClusterIP. */
  readonly via: 'endpoints' | 'clusterIP';
}

export interface TenantControlPlaneOptions extends WatchOptions {
  /** For objects that do not name one. */
  readonly domain?: string | undefined;
  readonly expose: 'annotated' | 'all';
  readonly fix: boolean;
}

export interface OutputOptions {
  readonly ingress: IngressOptions;
  readonly ingressRouteTCP: { readonly entryPoints: readonly string[] };
  readonly tlsRoute: {
    readonly gateway: {
      readonly name: string;
      readonly namespace?: string | undefined;
      readonly sectionName?: string | undefined;
    };
  };
  readonly transportServer: { readonly className?: string | undefined };
  readonly dnsEndpoint: {
    readonly zone: string;
    readonly targets: 'nodes' | 'gateway' | readonly string[];
    /** Of this gateway. */
    readonly addresses: readonly string[];
    readonly ttlMs: number;
  };
  readonly dnsServer: DnsServerOptions;
  readonly tenantAgent: TenantAgentOptions;
  /** `agents`, or an IP address. */
  readonly tenantEndpoints: { readonly address: string };
}

export interface DnsServerOptions {
  readonly on: ListenAddress;
  /** Of this gateway; at least one. */
  readonly addresses: readonly string[];
  /** Where the apps of clusters whose nodes are followed lead to. */
  readonly targets: 'gateway' | 'nodes';
  readonly ttlMs: number;
  /** Absent or empty: found from the hosts. */
  readonly zones: readonly string[];
  /** Empty: `ns.` and the zone, at `addresses`. */
  readonly nameServers: readonly string[];
}

export const ingressFlavors = [
  'haproxy',
  'haproxy-ingress',
  'nginx',
  'cilium',
  'generic',
  'fromCluster',
] as const;
export type IngressFlavor = (typeof ingressFlavors)[number];

export interface IngressOptions {
  readonly flavor: IngressFlavor;
  /** Absent: the one that the flavor's controller has by default. */
  readonly className?: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface TenantAgentOptions {
  readonly image?: string | undefined;
  readonly imagePullSecrets: readonly string[];
  readonly kind: 'Deployment' | 'DaemonSet';
  /** Of a Deployment. */
  readonly replicas: number;
  readonly resources: Readonly<Record<string, unknown>>;
  readonly gateway?: string | undefined;
  readonly gatewayAddresses: readonly string[];
  readonly uplink: UplinkKind;
  readonly tolerations: readonly Readonly<Record<string, unknown>>[];
  readonly priorityClassName: string;
}

export interface Lease {
  readonly name: string;
  readonly namespace: string;
}

export const DEFAULT_LEASE: Lease = { name: 'causeway', namespace: 'causeway-system' };

export const DEFAULT_ADMIN: ListenAddress = { host: '127.0.0.1', port: 9440 };

export const engines = ['auto', 'epoll', 'net', 'haproxy'] as const;
export type Engine = (typeof engines)[number];

export const adminRoles = ['admin', 'viewer'] as const;
export type AdminRole = (typeof adminRoles)[number];

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

export const logFormats = ['auto', 'json', 'text'] as const;
export type LogFormat = (typeof logFormats)[number];

export const loggedConnections = ['all', 'refused', 'none'] as const;
export type LoggedConnections = (typeof loggedConnections)[number];

export type SourceKind = keyof SourceOptions;
export type OutputKind = keyof OutputOptions;
