// The data path of one worker: its rows, table, timing wheel and everything the stages share. A stage is a function
// over a row (accept → identify → route → admit → dial → tunnel) that completes, waits for readiness, or ends the
// connection with a reason. This file dispatches each event to the stage of its row.

import { FAILED, HUNG_UP, READABLE, type Reactor, type ReactorHandlers } from '../io/reactor.ts';
import { NonceShares } from '../shared/nonce-shares.ts';
import type { NonceTable } from '../shared/nonce-table.ts';
import {
  CLOSING,
  CONNECTING,
  DIALING,
  GREETING,
  HUNG,
  IDENTIFYING,
  LINGERING,
  LISTENER,
  QUEUED,
  type Rows,
  TUNNEL,
} from '../shared/rows.ts';
import { type BucketPages, BYTES_IN_AT } from '../shared/shared-memory.ts';
import type { TableListener } from '../table/listener-table.ts';
import { Table, type TableRoute } from '../table/table.ts';
import { acceptAll, listenerTimer } from './accept.ts';
import { clientWhileDialing, dialEvent, dialTimer, greetingEvent } from './dial.ts';
import { cutAll } from './end.ts';
import { clientOf, endByFault } from './end-by-fault.ts';
import { HoldPool } from './hold-pool.ts';
import { identify, identifyTimer } from './identify.ts';
import { IdentityVerifier } from './identity-verifier.ts';
import { KeptBuffers } from './kept-buffers.ts';
import { lingerEvent, lingerTimer } from './linger.ts';
import type { EndRecorder } from './record-end.ts';
import { TimingWheel } from './timing-wheel.ts';
import { continueTunnel, tunnelEvent, tunnelTimer } from './tunnel.ts';
import { TunnelLinks } from './tunnel-links.ts';

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
  readonly rows: Rows;
  readonly buckets: BucketPages;
  readonly nonces: NonceTable;
}

/** Something to read: bytes, end of stream, or an error. */
const ARRIVED = READABLE | HUNG_UP | FAILED;

export class DataPath implements ReactorHandlers {
  /** This worker's number. */
  readonly worker: number;
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
  readonly tunnelLinks = new TunnelLinks();
  /** Listeners that are closing, and accept what waits: whether the last look found nothing. */
  readonly closing = new Map<number, boolean>();
  /** Called when the last of them is closed. */
  listenersClosed: () => void = () => {};
  lingering = 0;
  /** Handles that used up their turn and have more to do. */
  #again: number[] = [];
  readonly #onMessage: (message: unknown) => void;
  readonly #onDialFailed: (backendSlot: number) => void;
  readonly #onUplinkRefused: (status: number, reported: string) => void;
  readonly #onFault: (error: unknown, client: number) => void;

  /** `onFault` gets exceptions of our own code, with the client's handle or -1. It must not throw. */
  constructor(
    worker: number,
    io: Reactor,
    shared: Shared,
    settings: Settings,
    onMessage: (message: unknown) => void,
    onDialFailed: (backendSlot: number) => void,
    onUplinkRefused: (status: number, reported: string) => void,
    onFault: (error: unknown, client: number) => void,
  ) {
    this.worker = worker;
    this.io = io;
    this.shared = shared;
    this.settings = settings;
    this.rows = shared.rows;
    this.wheel = new TimingWheel(io.capacity, io.now());
    this.kept = new KeptBuffers(shared.counters);
    this.identity = new IdentityVerifier(shared.nonces, new NonceShares(shared.nonces, shared.clusters));
    this.#onMessage = onMessage;
    this.#onDialFailed = onDialFailed;
    this.#onUplinkRefused = onUplinkRefused;
    this.#onFault = onFault;
  }

  event(handle: number, events: number): void {
    const peer = this.rows.peer[handle];
    try {
      this.#serve(handle, events);
    } catch (error) {
      this.contain(error, handle, peer);
    }
    this.#arm();
  }

  turn(): void {
    const again = this.#again;
    if (again.length > 0) {
      this.#again = [];
      for (const handle of again) {
        if ((this.rows.flags[handle] & QUEUED) === 0) continue;
        this.rows.flags[handle] &= ~QUEUED;
        const peer = this.rows.peer[handle];
        try {
          if (this.rows.state[handle] === TUNNEL) continueTunnel(this, handle);
          else acceptAll(this, handle);
        } catch (error) {
          this.contain(error, handle, peer);
        }
      }
    }
    this.wheel.advance(this.io.now(), this.#expired);
    this.#arm();
  }

  message(message: unknown): void {
    this.#onMessage(message);
    this.#arm();
  }

  /** Our own code threw while serving `handle`, whose other side was `peer`: ends that connection and no other. */
  contain(error: unknown, handle: number, peer: number): void {
    const client = clientOf(this, handle);
    try {
      this.#onFault(error, client < 0 && peer >= 0 ? clientOf(this, peer) : client);
    } finally {
      endByFault(this, handle, peer);
    }
  }

  /** Resumes that tunnel or listener after the others had their turn. */
  resumeLater(handle: number): void {
    if ((this.rows.flags[handle] & QUEUED) !== 0) return;
    this.rows.flags[handle] |= QUEUED;
    this.#again.push(handle);
    this.io.soon();
  }

  /** Frees the handle's buffer, deadline and row. The caller then closes or resets it in the reactor. */
  release(handle: number): void {
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
    this.#onDialFailed(route.backends[index]?.slot ?? 0);
  }

  /** The gateway refused an agent's CONNECT. */
  uplinkRefused(status: number, reported: string): void {
    this.#onUplinkRefused(status, reported);
  }

  /** Returns a buffer that held bytes for that handle to the pool it came from. */
  giveBack(handle: number, buffer: Uint8Array): void {
    if (!this.kept.giveBack(handle, buffer)) this.holds.give(buffer);
  }

  cut(reason: 'drained' | 'shutdown'): void {
    cutAll(this, reason);
  }

  #serve(handle: number, events: number): void {
    if ((events & (HUNG_UP | FAILED)) !== 0) this.rows.flags[handle] |= HUNG;
    switch (this.rows.state[handle]) {
      case TUNNEL:
        tunnelEvent(this, handle, events);
        break;
      case LISTENER:
      case CLOSING:
        acceptAll(this, handle);
        break;
      case IDENTIFYING:
        if ((events & ARRIVED) !== 0) identify(this, handle);
        break;
      case CONNECTING:
        dialEvent(this, handle, events);
        break;
      case GREETING:
        greetingEvent(this, handle);
        break;
      case DIALING:
        if ((events & ARRIVED) !== 0) clientWhileDialing(this, handle);
        break;
      case LINGERING:
        lingerEvent(this, handle, events);
        break;
      default:
    }
  }

  readonly #expired = (handle: number): void => {
    const peer = this.rows.peer[handle];
    try {
      this.#expire(handle);
    } catch (error) {
      this.contain(error, handle, peer);
    }
  };

  #expire(handle: number): void {
    switch (this.rows.state[handle]) {
      case TUNNEL:
        tunnelTimer(this, handle);
        break;
      case IDENTIFYING:
        identifyTimer(this, handle);
        break;
      case CONNECTING:
      case GREETING:
      case DIALING:
        dialTimer(this, handle);
        break;
      case LINGERING:
        lingerTimer(this, handle);
        break;
      case LISTENER:
      case CLOSING:
        listenerTimer(this, handle);
        break;
      default:
    }
  }

  #arm(): void {
    this.io.wakeAt(this.wheel.nextAt());
  }
}
