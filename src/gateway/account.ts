// The end of a connection in figures: every count that it holds is undone, its reason is counted. Done by the worker
// that served it, or, when that worker has died, by the control thread.

import type { CloseReason } from './close-reason.ts';
import { closeReasons } from './close-reason.ts';
import {
  ADMITTED,
  CLIENT,
  COUNTED,
  DIALING,
  IDENTIFYING,
  PENDING,
  type Rows,
  SOURCE_COUNTED,
  TUNNEL,
} from './rows.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  BYTES_IN_AT,
  BYTES_OUT_AT,
  CLUSTER_ACTIVE,
  REASONS_AT,
  type RouteCounters,
  type SharedSlots,
  TOTAL_CONNECTIONS,
  TOTAL_PENDING,
} from './shared-memory.ts';
import type { SourceCounts } from './source-counts.ts';

/** Where a connection is counted. `counters` are those of its worker. */
export interface Counts {
  readonly counters: RouteCounters;
  readonly clusters: SharedSlots;
  readonly backends: SharedSlots;
  readonly totals: Int32Array;
  readonly sources: SourceCounts;
}

export const reasonIndex = Object.fromEntries(closeReasons.map((reason, index) => [reason, index])) as Record<
  CloseReason,
  number
>;

export function account(rows: Rows, counts: Counts, client: number, reason: CloseReason): void {
  const slot = rows.slot[client];
  const flags = rows.flags[client];
  const address = rows.addressAt(client, CLIENT);
  Atomics.sub(counts.totals, TOTAL_CONNECTIONS, 1);
  if ((flags & PENDING) !== 0) Atomics.sub(counts.totals, TOTAL_PENDING, 1);
  if ((flags & COUNTED) !== 0) counts.sources.remove(0, rows.addresses, address);
  if ((flags & SOURCE_COUNTED) !== 0) counts.sources.remove(rows.cluster[client], rows.addresses, address);
  if ((flags & ADMITTED) !== 0) {
    counts.clusters.add(rows.cluster[client], CLUSTER_ACTIVE, -1);
    counts.counters.add(slot, ACTIVE_AT, -1);
  }
  if (rows.backendSlot[client] !== 0) counts.backends.add(rows.backendSlot[client], BACKEND_ACTIVE, -1);
  if (slot === 0) {
    counts.counters.add(0, BYTES_IN_AT, rows.bytesIn[client]);
    counts.counters.add(0, BYTES_OUT_AT, rows.bytesOut[client]);
  }
  counts.counters.add(slot, REASONS_AT + reasonIndex[reason], 1);
}

/** Whether the handle is the client's side of a connection that has no reason yet. */
export function isClient(rows: Rows, handle: number): boolean {
  const state = rows.state[handle];
  return state === IDENTIFYING || state === DIALING || (state === TUNNEL && rows.slot[handle] !== 0);
}
