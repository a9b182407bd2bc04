// What the stages of one worker share: rows, table, timing wheel, buffers, settings. A stage is a function over a row
// (accept → identify → route → admit → dial → tunnel) that completes, waits for readiness, or ends the connection with
// a reason. dispatch.ts calls the stages.

import { newRequestHead } from '../../wire/http-request.ts';
import { newResponseHead } from '../../wire/http-response.ts';
import type { CloseReason } from '../close-reason.ts';
import type { Reactor } from '../io/reactor.ts';
import { NonceShares } from '../shared/nonce-shares.ts';
import type { NonceTable } from '../shared/nonce-table.ts';
import { KEPT, QUEUED, type Rows } from '../shared/rows.ts';
import { type BucketPages, BYTES_IN_AT, type RequestCounters } from '../shared/shared-memory.ts';
import type { TableListener } from '../table/listener-table.ts';
import { Table, type TableRoute } from '../table/table.ts';
import type { ExchangeState } from './exchange-state.ts';
import { FRAME_ROOM } from './frame-body.ts';
import type { Purpose, Receiver } from './gift.ts';
import { HoldPool } from './hold-pool.ts';
import { IdentityVerifier } from './identity-verifier.ts';
import { KeptBackends } from './kept-backends.ts';
import { KeptBuffers } from './kept-buffers.ts';
import type { EndRecorder } from './record-end.ts';
import { TimingWheel } from './timing-wheel.ts';

/** The configured settings that apply to every connection. Times in ms; undefined is off. */
export interface Settings {
  readonly helloMs: number;
  readonly connectMs: number;
  readonly idleMs: number | undefined;
  readonly halfClosedMs: number | undefined;
  readonly keepaliveMs: number | undefined;
  /** How long a side may accept none of the bytes waiting for it. */
  readonly stalledMs: number | undefined;
  readonly retries: number;
  readonly connections: number;
  /** Clients and backends get only descriptors below this number: see open-files.ts. */
  readonly clientFiles: number;
  readonly pending: number;
  readonly pendingPerSource: number | undefined;
  readonly perSource: number | undefined;
  readonly log: 'all' | 'refused' | 'none';
  /** Secrets that verify signed cluster ids. Absent: signatures are ignored. */
  readonly secrets?: readonly Uint8Array[];
}

/** Memory shared with the control thread. */
export interface Shared extends EndRecorder {
  readonly requests: RequestCounters;
  readonly rows: Rows;
  readonly buckets: BucketPages;
  readonly nonces: NonceTable;
}

/** What a thread with Node's streams does for the stages. */
export interface StreamOwner {
  /** Dials the gateway over TLS, for an agent's client. */
  dialUplink(client: number): void;
  /** That client sent bytes before the gateway was reached. */
  clientSent(client: number): void;
  clientEnded(client: number, reason: CloseReason): void;
}

/** Calls back what became of dialling. */
export interface DialHooks {
  readonly failed: (backendSlot: number) => void;
  readonly uplinkRefused: (status: number, reported: string) => void;
}

export abstract class DataPath {
  readonly io: Reactor;
  readonly shared: Shared;
  readonly rows: Rows;
  readonly wheel: TimingWheel;
  readonly holds = new HoldPool();
  readonly table = new Table();
  readonly identity: IdentityVerifier;
  /** By listener index. The entry of a closed listener stays for its open connections. */
  readonly listeners: TableListener[] = [];
  settings: Settings;
  readonly kept: KeptBuffers;
  /** Backends in the order to try them, only for connections whose first attempt failed. */
  readonly dialOrders = new Map<number, readonly number[]>();
  /** Takes the connections that need Node's streams; undefined while there is none. */
  receiver: Receiver | undefined;
  /** Whether there may be one. */
  mayGive = false;
  /** Connections that wait for it. */
  readonly waiting = new Map<number, Purpose>();
  /** Called when a connection waits: the thread may not have started yet. */
  streamsWanted: () => void = () => {};
  /** Only in a thread that has Node's streams. */
  streams: StreamOwner | undefined;
  /** By client: connections that serve HTTP requests. */
  readonly exchanges: (ExchangeState | undefined)[] = [];
  readonly keptBackends = new KeptBackends();
  /** The heads that are being read. */
  readonly requestHead = newRequestHead();
  readonly responseHead = newResponseHead();
  /** For heads and chunks of HTTP, on their way to a socket. */
  readonly scratch = Buffer.allocUnsafeSlow(FRAME_ROOM);
  /** No more requests are served on a connection after the one in progress. */
  isDraining = false;
  /** Listeners that are closing, and accept what waits: whether the last look found nothing. */
  readonly closing = new Map<number, boolean>();
  /** Called when the last of them is closed. */
  listenersClosed: () => void = () => {};
  lingering = 0;
  /** Handles that used up their turn and have more to do. */
  #again: number[] = [];
  readonly #hooks: DialHooks;

  constructor(io: Reactor, shared: Shared, settings: Settings, hooks: DialHooks) {
    this.io = io;
    this.shared = shared;
    this.settings = settings;
    this.rows = shared.rows;
    this.wheel = new TimingWheel(io.capacity, io.now());
    this.kept = new KeptBuffers(shared.counters);
    this.identity = new IdentityVerifier(shared.nonces, new NonceShares(shared.nonces, shared.clusters));
    this.#hooks = hooks;
  }

  /** Our own code threw while serving `handle`, whose other side was `peer`: ends that connection and no other. */
  abstract contain(error: unknown, handle: number, peer: number): void;

  /** Works on a connection outside the reactor's events. */
  abstract run(handle: number, work: () => void): void;

  /** Resumes that tunnel or listener after the others had their turn. */
  resumeLater(handle: number): void {
    if ((this.rows.flags[handle] & QUEUED) !== 0) return;
    this.rows.flags[handle] |= QUEUED;
    this.#again.push(handle);
    this.io.soon();
  }

  /** The handles to resume now. */
  takeResumed(): readonly number[] {
    const again = this.#again;
    if (again.length > 0) this.#again = [];
    return again;
  }

  /** Frees the handle's buffers, deadline and row. The caller then closes or resets it in the reactor. */
  release(handle: number): void {
    if (this.rows.state[handle] === KEPT)
      this.keptBackends.remove(this.rows.backendSlot[handle], handle, this.rows.peer[handle]);
    const held = this.rows.held[handle];
    if (held !== undefined) this.holds.give(held);
    const kept = this.rows.kept[handle];
    if (kept !== undefined) this.giveBack(handle, kept);
    this.wheel.clear(handle);
    this.rows.clear(handle);
  }

  /** Counts bytes received from the client of a routed connection. */
  countIn(client: number, count: number): void {
    this.shared.counters.add(this.rows.slot[client], BYTES_IN_AT, count);
  }

  /** An attempt failed: the control thread may resolve the backend's name again. */
  dialFailed(route: TableRoute, index: number): void {
    this.#hooks.failed(route.backends[index]?.slot ?? 0);
  }

  /** The gateway refused an agent's CONNECT. */
  uplinkRefused(status: number, reported: string): void {
    this.#hooks.uplinkRefused(status, reported);
  }

  /** Returns a buffer that held bytes for that handle to the pool it came from. */
  giveBack(handle: number, buffer: Uint8Array): void {
    if (!this.kept.giveBack(handle, buffer)) this.holds.give(buffer);
  }
}
