// A valid causeway.yaml: defaults filled in, names normalized, durations in milliseconds. Plain data, so that one
// thread can read it and another use it.

import type { Cluster } from '../cluster/cluster.ts';

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
  readonly identity?: Identity;
  readonly tunnel?: Tunnel;
  readonly sources: readonly Plugged<SourceKind>[];
  readonly outputs: readonly Plugged<OutputKind>[];
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

/** A source or an output with its options. */
export interface Plugged<Kind extends string> {
  readonly kind: Kind;
  readonly options: Readonly<Record<string, unknown>>;
}

export interface Lease {
  readonly name: string;
  readonly namespace: string;
}

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

export type SourceKind =
  | 'kamaji'
  | 'steward'
  | 'hypershift'
  | 'kubermatic'
  | 'services'
  | 'clusterApi'
  | 'k0smotron'
  | 'directory';

export type OutputKind =
  | 'ingress'
  | 'ingressRouteTCP'
  | 'tlsRoute'
  | 'transportServer'
  | 'dnsEndpoint'
  | 'dnsServer'
  | 'tenantAgent'
  | 'tenantEndpoints';
