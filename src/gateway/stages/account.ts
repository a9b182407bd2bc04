// The end of a connection in figures: every count that it holds is undone, its reason is counted. Done by the worker
// that served it, or, when that worker has died, by the control thread.

import { type CloseReason, closeReasons, served } from '../close-reason.ts';
import type { RecordWriter } from '../shared/record-ring.ts';
import {
  ADMITTED,
  CLIENT,
  COUNTED,
  DIALING,
  HANDED_OVER,
  IDENTIFYING,
  PENDING,
  PENDING_COUNTED,
  RETURNED,
  type Rows,
  SOURCE_COUNTED,
  TUNNEL,
} from '../shared/rows.ts';
import {
  ACTIVE_AT,
  BACKEND_ACTIVE,
  BYTES_IN_AT,
  BYTES_OUT_AT,
  CLUSTER_ACTIVE,
  FIRST_SLOT,
  REASONS_AT,
  type RouteCounters,
  type SharedSlots,
  TOTAL_CONNECTIONS,
  TOTAL_HANDED_OVER,
  TOTAL_PENDING,
  TOTAL_WATCHED,
} from '../shared/shared-memory.ts';
import { GATEWAY_SCOPE, PENDING_SCOPE, type SourceCounts } from '../shared/source-counts.ts';
import type { Verdicts } from '../shared/verdicts.ts';

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

/** Where the end of a connection is told. */
export interface Ledger extends Counts {
  readonly verdicts: Verdicts;
  readonly records: RecordWriter;
}

/**
 * Counts the end and writes the record where `log`, or somebody who watches refusals, wants it. What a part of ours
 * (HTTP, TLS) says of a connection that it was handed stands above what the front saw; one that the HTTP part had gets
 * its last request's route.
 */
export function conclude(
  rows: Rows,
  ledger: Ledger,
  client: number,
  told: CloseReason,
  now: number,
  log: 'all' | 'refused' | 'none',
): void {
  const { verdicts, records } = ledger;
  const isHandedOver = (rows.flags[client] & HANDED_OVER) !== 0;
  const isOurs = isHandedOver && rows.slot[client] < FIRST_SLOT;
  const said = isHandedOver ? verdicts.reason(client) : -1;
  const reason = said < 0 || said === reasonIndex.done ? told : closeReasons[said];
  if (isHandedOver) {
    rows.dialMs[client] = verdicts.dialMs(client);
    if (said >= 0) rows.detail[client] = verdicts.failure(client);
    // What the part moved by itself.
    rows.bytesIn[client] += verdicts.bytesIn(client);
    rows.bytesOut[client] += verdicts.bytesOut(client);
  }
  if (isOurs) rows.slot[client] = verdicts.slot(client);
  account(rows, ledger, client, reason);
  // Only for the record: the HTTP part counts by itself what its requests have open.
  if (isOurs) rows.backendSlot[client] = verdicts.backendSlot(client);
  if ((rows.flags[client] & (HANDED_OVER | RETURNED)) !== 0) verdicts.end(client);
  // A probe that says nothing is counted and never logged.
  const isRefused = !served.has(reason);
  const isLogged = log === 'all' ? reason !== 'no-data' : log === 'refused' && isRefused;
  if (isLogged || (isRefused && ledger.totals[TOTAL_WATCHED] === 1))
    records.write(rows, client, reasonIndex[reason], now, isLogged);
}

function account(rows: Rows, counts: Counts, client: number, reason: CloseReason): void {
  const slot = rows.slot[client];
  const flags = rows.flags[client];
  Atomics.sub(counts.totals, TOTAL_CONNECTIONS, 1);
  leavePending(rows, counts, client);
  if ((flags & (HANDED_OVER | RETURNED)) !== 0) Atomics.sub(counts.totals, TOTAL_HANDED_OVER, 1);
  if ((flags & COUNTED) !== 0)
    counts.sources.remove(GATEWAY_SCOPE, rows.addresses, rows.addressAt(client, CLIENT));
  leavePlace(rows, counts, client);
  // The HTTP part counts the bytes of its requests by itself.
  if (slot === 0 && (flags & HANDED_OVER) === 0) {
    counts.counters.add(0, BYTES_IN_AT, rows.bytesIn[client]);
    counts.counters.add(0, BYTES_OUT_AT, rows.bytesOut[client]);
  }
  counts.counters.add(slot, REASONS_AT + reasonIndex[reason], 1);
}

/** Undoes what was counted for a connection that is not routed yet; once, whoever calls it. */
export function leavePending(rows: Rows, { totals, sources }: Counts, client: number): void {
  const flags = rows.flags[client];
  if ((flags & PENDING) === 0) return;
  rows.flags[client] = flags & ~(PENDING | PENDING_COUNTED);
  Atomics.sub(totals, TOTAL_PENDING, 1);
  if ((flags & PENDING_COUNTED) !== 0)
    sources.remove(PENDING_SCOPE, rows.addresses, rows.addressAt(client, CLIENT));
}

/** Undoes what `takePlace` and the choice of a backend counted, for a connection or a request. */
export function leavePlace(rows: Rows, counts: Counts, client: number): void {
  const flags = rows.flags[client];
  if ((flags & SOURCE_COUNTED) !== 0)
    counts.sources.remove(rows.cluster[client], rows.addresses, rows.addressAt(client, CLIENT));
  if ((flags & ADMITTED) !== 0) {
    counts.clusters.add(rows.cluster[client], CLUSTER_ACTIVE, -1);
    counts.counters.add(rows.slot[client], ACTIVE_AT, -1);
  }
  if (rows.backendSlot[client] !== 0) counts.backends.add(rows.backendSlot[client], BACKEND_ACTIVE, -1);
}

/** Whether the handle is the client's side of a connection that has no reason yet. */
export function isClient(rows: Rows, handle: number): boolean {
  const state = rows.state[handle];
  return state === IDENTIFYING || state === DIALING || (state === TUNNEL && rows.slot[handle] !== 0);
}
