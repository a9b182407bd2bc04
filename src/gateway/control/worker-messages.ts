// What the control thread and a worker say to each other.

import type { FaultReport } from '../fault-log.ts';
import type { RequestRecord } from '../http/request-log.ts';
import type { EngineName } from '../io/open-reactor.ts';
import type { SocketAddress } from '../io/reactor.ts';
import type { Settings } from '../stages/data-path.ts';
import type { ListenerEntry } from '../table/listener-table.ts';
import type { ClusterEntry } from '../table/table.ts';
import type { TlsConfig } from '../tls/tls-config.ts';

/** What every thread that serves clients is given when it starts. */
export interface ThreadStart {
  readonly number: number;
  /** See shared/thread-control.ts. */
  readonly control: SharedArrayBuffer;
  readonly settings: Settings;
  readonly rows: SharedArrayBuffer;
  readonly totals: SharedArrayBuffer;
  readonly sources: SharedArrayBuffer;
  readonly nonces: SharedArrayBuffer;
  readonly seed: number;
}

/** Given to a worker thread. */
export interface WorkerStart extends ThreadStart {
  readonly engine: EngineName;
  readonly arch: string;
  readonly capacity: number;
  /** Other workers open the same listeners. */
  readonly share: boolean;
  readonly records: SharedArrayBuffer;
  readonly verdicts: SharedArrayBuffer;
}

/** Given to a thread of a part of ours, HTTP or TLS. */
export interface ProtocolThreadStart extends ThreadStart {
  /** The unix socket on which the front hands connections over. */
  readonly socket: string;
  /** By worker. */
  readonly verdicts: readonly SharedArrayBuffer[];
  /** An HTTP thread counts the lines there that it holds. */
  readonly records: SharedArrayBuffer;
}

/** Shared memory for slots that are new. `counters` are the worker's own. */
export interface Pages {
  readonly counters: readonly SharedArrayBuffer[];
  readonly clusters: readonly SharedArrayBuffer[];
  readonly buckets: readonly SharedArrayBuffer[];
  readonly backends: readonly SharedArrayBuffer[];
  /** An HTTP thread's own. */
  readonly requests: readonly SharedArrayBuffer[];
}

/** What the control thread waits for an answer to: the message of `FromWorker` with the same number in `request`. */
export type Question =
  /** Opens a listener without accepting on it yet. */
  | {
      readonly kind: 'open';
      readonly request: number;
      readonly index: number;
      readonly address: SocketAddress;
    }
  /** Memory for slots that are about to be served. Every thread has it before any thread gets the table. */
  | { readonly kind: 'pages'; readonly request: number; readonly pages: Pages }
  | TableMessage
  /** Where a thread of a part listens from now on. */
  | { readonly kind: 'listen'; readonly request: number; readonly socket: string }
  /** What only the worker knows of these connections, and whether they are still those. */
  | {
      readonly kind: 'describe';
      readonly request: number;
      readonly handles: Int32Array;
      readonly generations: Uint32Array;
    }
  /** Ends one connection, if it is still that one. */
  | {
      readonly kind: 'revoke';
      readonly request: number;
      readonly handle: number;
      readonly generation: number;
    };

export type ToWorker =
  | Question
  | { readonly kind: 'close'; readonly indexes: readonly number[] }
  | {
      readonly kind: 'addresses';
      readonly backends: readonly (readonly [slot: number, addresses: readonly string[]])[];
    }
  /** As in a table message, without a table. */
  | { readonly kind: 'settings'; readonly settings: Settings }
  /** Closes all listeners; what is queued is still served. */
  | { readonly kind: 'drain' }
  /** Where the HTTP threads listen, for a worker. */
  | { readonly kind: 'http'; readonly sockets: readonly string[] }
  /** Names that lead to the end of the agents' tunnels, and where the TLS threads listen, for a worker. */
  | { readonly kind: 'tunnels'; readonly hosts: readonly string[]; readonly sockets: readonly string[] }
  /** That thread of a part has died with all that it had. */
  | { readonly kind: 'part-died'; readonly part: 'http' | 'tls'; readonly index: number }
  /** What a TLS thread does, in full. */
  | { readonly kind: 'tls'; readonly config: TlsConfig }
  /** Where connections come back to, by worker, for a thread of a part of ours. */
  | { readonly kind: 'internal-listeners'; readonly internalListeners: readonly string[] }
  /** The last batch of request lines is written, for an HTTP thread. */
  | { readonly kind: 'requests-taken' }
  | { readonly kind: 'cut'; readonly reason: 'drained' | 'shutdown' }
  | { readonly kind: 'stop' };

/** Everything in it takes effect between two events. */
export interface TableMessage {
  readonly kind: 'table';
  readonly request: number;
  readonly removed: readonly string[];
  readonly put: readonly ClusterEntry[];
  /** All listeners that are to accept, by index. */
  readonly listeners: readonly (readonly [index: number, entry: ListenerEntry])[];
  readonly settings: Settings;
}

/** What a row has as text, which is not in shared memory. */
export interface RowTexts {
  readonly host: string;
  readonly clusterId: string;
}

/** The answers to a `Question`. */
export type Answer =
  /** A port, or one of the reactor's error words. */
  | { readonly kind: 'opened'; readonly request: number; readonly result: number }
  /** Pages or a table are in use. */
  | { readonly kind: 'applied'; readonly request: number }
  | { readonly kind: 'listening'; readonly request: number; readonly error?: string }
  /** For each that was asked for; null where it is no longer that connection. */
  | { readonly kind: 'described'; readonly request: number; readonly texts: readonly (RowTexts | null)[] }
  | { readonly kind: 'revoked'; readonly request: number; readonly done: boolean };

export type FromWorker =
  | Answer
  /** Before anything else. */
  | { readonly kind: 'started' }
  | { readonly kind: 'records' }
  | {
      readonly kind: 'requests';
      readonly thread: number;
      readonly records: readonly RequestRecord[];
      readonly dropped: number;
    }
  | { readonly kind: 'dial-failed'; readonly slot: number }
  /** Our own code threw, and a connection has ended by it. */
  | { readonly kind: 'fault'; readonly report: FaultReport }
  /** An agent's TLS part has not reached the gateway. */
  | { readonly kind: 'gateway-failed' }
  /** The gateway answered an agent with no. */
  | { readonly kind: 'uplink-refused'; readonly status: number; readonly reported: string }
  /** Something in a TLS part that a person should know, in words. */
  | { readonly kind: 'tls-trouble'; readonly what: string; readonly why: string };
