// The gateway as the control side sees it: what the controller, the admin side and the metrics need of whatever moves
// the bytes. Gateway is our own data path; haproxy/haproxy-gateway.ts drives HAProxy.

import type { Cluster } from '../../cluster/cluster.ts';
import type { BackendHealth } from '../health/health-thread.ts';
import type { ConnectionRecord } from '../shared/record-ring.ts';
import type { Settings } from '../stages/data-path.ts';
import type { TlsConfig } from '../streams/tls-config.ts';
import type { RouteSlot } from '../table/table.ts';
import type { InheritedSocket } from './inherited-sockets.ts';
import type { IdentifiedRecord } from './open-connections.ts';
import type { Listener, OpenListener } from './open-listeners.ts';
import type { Figures } from './route-counts.ts';

export interface GatewayConfig {
  readonly listeners: readonly Listener[];
  readonly clusters: readonly Cluster[];
  readonly settings: Settings;
  /** How long connections may go on in a process that no longer accepts, on the engine that starts others. */
  readonly drainMs?: number;
  /** TLS of our own: an agent's uplink, or the end of the agents' tunnels. */
  readonly tls?: TlsConfig;
}

/** A connection's record, with the names of its slots. */
export interface NamedRecord extends ConnectionRecord {
  readonly on: string;
  readonly route: RouteSlot | undefined;
  readonly backend: string | undefined;
}

/** An HTTP request that has ended, with the names of its slots. */
export interface NamedRequest {
  /** The true client. */
  readonly address: Uint8Array;
  readonly port: number;
  readonly host: string | undefined;
  /** Route slot, 0 for none. */
  readonly slot: number;
  readonly route: RouteSlot | undefined;
  readonly backend: string | undefined;
  /** undefined if the request could not be read. */
  readonly method: string | undefined;
  readonly status: number;
  readonly ms: number;
}

/** A backend and the results of its health checks; `checks` is undefined if it is not checked. */
export interface CheckedBackend extends RouteSlot, BackendHealth {
  readonly slot: number;
  readonly backend: string;
  readonly checks: { readonly ok: number; readonly failed: number } | undefined;
}

/** An open connection, with the names of its slots. */
export interface OpenConnection extends IdentifiedRecord {
  readonly on: string;
  readonly route: RouteSlot | undefined;
  readonly backend: string | undefined;
}

export interface RouteFigures extends Figures {
  /** Open now. */
  readonly connections: number;
  /** Open now, by backend as written in the file. */
  readonly backends: ReadonlyMap<string, number>;
}

/** A route's counters: `get` takes an offset of shared-memory.ts. */
export interface RouteCounter {
  readonly slot: number;
  /** Undefined for slot 0, connections without a route. */
  readonly route: RouteSlot | undefined;
  get(offset: number): number;
}

export interface GatewayPort {
  /** The number of the last change that is served everywhere. */
  readonly generation: number;
  readonly listeners: readonly OpenListener[];
  /** The sockets of the listeners, for a process that takes over. */
  readonly sockets: readonly InheritedSocket[];
  readonly connections: number;
  /** How many backends are served, how many are down, and the factor by which check intervals are stretched. */
  readonly health: { readonly backends: number; readonly down: number; readonly stretch: number };
  /** Why this replica should get no new connections, in a few words; undefined when all is well. */
  readonly trouble: string | undefined;

  /** All or nothing: if it throws, what was served before still is. */
  apply(config: GatewayConfig): Promise<void>;
  useSecrets(secrets: readonly Uint8Array[]): Promise<void>;
  useTls(config: TlsConfig): Promise<void>;
  /** Whether another process has the listeners open too: then what waits there is left to that process. */
  shareListeners(isShared: boolean): void;
  /** Accepts nothing more. Resolves when all connections have ended, and cuts them after `limitMs`. */
  drain(limitMs: number): Promise<void>;
  /** Ends all connections now, and everything that was started for them. */
  stop(): Promise<void>;

  /** Before its figures are read, where they are not ours to count. */
  refresh?(): Promise<void>;
  backends(): Iterable<CheckedBackend>;
  backendHealth(cluster: string, kind: string, backend: string): BackendHealth;
  routes(): Iterable<RouteCounter>;
  /** The counts of a route; undefined if it is not served. */
  figuresOf(cluster: string, kind: string): RouteFigures | undefined;
  /** The sum over all routes since the start. */
  traffic(): Figures;
  /** HTTP requests of a route slot by status. */
  requests(slot: number): ReadonlyMap<number, number>;
  /** The newest open connections, newest first; only those of `cluster` if it is given. */
  openConnections(limit: number, cluster?: string): Promise<readonly OpenConnection[]>;
  /** Ends a connection with `revoked`. False if none with that id is open. */
  endConnection(id: string): Promise<boolean>;
  /** While watched, refusals produce records even if the log does not want them. */
  watchRefusals(watched: boolean): void;
}
