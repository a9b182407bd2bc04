// The messages between the control thread and the threads that serve clients.

import type { MessagePort } from 'node:worker_threads';
import type { FaultReport } from '../fault-log.ts';
import type { EngineName } from '../io/open-reactor.ts';
import type { SocketAddress } from '../io/reactor.ts';
import type { Settings } from '../stages/data-path.ts';
import type { TlsConfig } from '../streams/tls-config.ts';
import type { ListenerEntry } from '../table/listener-table.ts';
import type { ClusterEntry } from '../table/table.ts';

/** The start options of a worker or a stream thread. */
export interface WorkerStart {
  /** For messages. */
  readonly name: string;
  readonly number: number;
  /** See shared/thread-control.ts. */
  readonly control: SharedArrayBuffer;
  readonly settings: Settings;
  readonly rows: SharedArrayBuffer;
  readonly totals: SharedArrayBuffer;
  readonly sources: SharedArrayBuffer;
  readonly nonces: SharedArrayBuffer;
  readonly seed: number;
  readonly engine: EngineName;
  readonly arch: string;
  readonly capacity: number;
  /** Other workers open the same listeners. */
  readonly share: boolean;
  readonly records: SharedArrayBuffer;
  /** Other threads give it connections. */
  readonly isGiven: boolean;
  /** Rows of connections that are being given to it; on net a worker gives them to itself. */
  readonly arrivals: SharedArrayBuffer;
}

/** Shared memory for new slots. `counters` belong to one thread. */
export interface Pages {
  readonly counters: readonly SharedArrayBuffer[];
  readonly clusters: readonly SharedArrayBuffer[];
  readonly buckets: readonly SharedArrayBuffer[];
  readonly backends: readonly SharedArrayBuffer[];
  /** Only for a worker. */
  readonly requests: readonly SharedArrayBuffer[];
}

/** Messages that the control thread awaits an answer to: the `Answer` with the same `request` number. */
export type Question =
  /** Opens a listener without accepting on it yet. */
  | {
      readonly kind: 'open';
      readonly request: number;
      readonly index: number;
      readonly address: SocketAddress;
    }
  /** Memory for slots that are about to be served. All threads have it before any gets the table. */
  | { readonly kind: 'pages'; readonly request: number; readonly pages: Pages }
  | TableMessage
  /** Answered once no listener is closing any more. */
  | { readonly kind: 'listeners-closed'; readonly request: number }
  /** Asks for the texts of these connections, and whether they are still open. */
  | {
      readonly kind: 'describe';
      readonly request: number;
      readonly handles: Int32Array;
      readonly generations: Uint32Array;
    }
  /** Ends one connection, if it is still open. */
  | {
      readonly kind: 'revoke';
      readonly request: number;
      readonly handle: number;
      readonly generation: number;
    };

export type ToWorker =
  | Question
  | { readonly kind: 'close'; readonly indexes: readonly number[] }
  /** Whether another process has these listeners open too, which then accepts what is left when they close. */
  | { readonly kind: 'shared'; readonly indexes: readonly number[]; readonly isShared: boolean }
  | {
      readonly kind: 'addresses';
      readonly backends: readonly (readonly [slot: number, addresses: readonly string[]])[];
    }
  /** The settings alone, without a table. */
  | { readonly kind: 'settings'; readonly settings: Settings }
  /** Closes all listeners; the backlog is still served. */
  | { readonly kind: 'drain' }
  /** For a worker: the thread that takes connections from it, which may be itself, or starts when it is wanted. */
  | { readonly kind: 'streams'; readonly thread?: StreamThread }
  /** That thread has died. */
  | { readonly kind: 'streams-gone' }
  /** For a stream thread: where a worker's connections come from. */
  | { readonly kind: 'gifts'; readonly port: MessagePort }
  /** The names of tunnel hosts. */
  | { readonly kind: 'tunnels'; readonly hosts: readonly string[] }
  /** For a thread that has Node's streams: the whole configuration of TLS. */
  | { readonly kind: 'tls'; readonly config: TlsConfig }
  | { readonly kind: 'cut'; readonly reason: 'drained' | 'shutdown' }
  | { readonly kind: 'stop' };

/** How a worker gives connections to a stream thread. */
export interface StreamThread {
  readonly port: MessagePort;
  readonly arrivals: SharedArrayBuffer;
  /** See shared/thread-control.ts. */
  readonly control: SharedArrayBuffer;
}

/** All of it takes effect at once, between two events. */
export interface TableMessage {
  readonly kind: 'table';
  readonly request: number;
  readonly removed: readonly string[];
  readonly put: readonly ClusterEntry[];
  /** All listeners that accept from now on, by index. */
  readonly listeners: readonly (readonly [index: number, entry: ListenerEntry])[];
  readonly settings: Settings;
}

/** The texts of a row, which are not in shared memory. */
export interface RowTexts {
  readonly host: string;
  readonly clusterId: string;
}

/** The answers to a `Question`. */
export type Answer =
  /** A port, or one of the reactor's error numbers; and the listening socket. */
  | {
      readonly kind: 'opened';
      readonly request: number;
      readonly result: number;
      readonly descriptor: number;
    }
  /** Pages or a table are in use; listeners are closed. */
  | { readonly kind: 'applied'; readonly request: number }
  /** One for each row; null if it is no longer that connection. */
  | { readonly kind: 'described'; readonly request: number; readonly texts: readonly (RowTexts | null)[] }
  | { readonly kind: 'revoked'; readonly request: number; readonly done: boolean };

export type FromWorker =
  | Answer
  /** Sent before anything else. */
  | { readonly kind: 'started' }
  | { readonly kind: 'records' }
  /** A connection waits for a stream thread. */
  | { readonly kind: 'streams-wanted' }
  | { readonly kind: 'dial-failed'; readonly slot: number }
  /** Our own code threw, and the connection concerned has ended. */
  | { readonly kind: 'fault'; readonly report: FaultReport }
  /** An agent could not reach the gateway over TLS. */
  | { readonly kind: 'gateway-failed' }
  /** The gateway refused an agent. */
  | { readonly kind: 'uplink-refused'; readonly status: number; readonly reported: string }
  /** A problem with TLS, for the log. */
  | { readonly kind: 'tls-trouble'; readonly what: string; readonly why: string };
