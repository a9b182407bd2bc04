// The end of a connection in figures: every count that it holds is undone, its reason is counted. Done by the worker
// that served it, or, when that worker has died, by the control thread.

import { type CloseReason, closeReasons, served } from '../close-reason.ts';
import type { RecordWriter } from '../shared/record-ring.ts';
import {
  ADMITTED,
  ALIVE,
  BACKEND_COUNTED,
  CLIENT,
  COUNTED,
  DIALING,
  HANDED_OFF,
  IDENTIFYING,
  PENDING,
  PENDING_COUNTED,
  RETURNED,
  ROUTE_COUNTED,
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
  TOTAL_HANDED_OFF,
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

const ALL_COUNTS =
  ALIVE |
  PENDING |
  PENDING_COUNTED |
  COUNTED |
  SOURCE_COUNTED |
  ADMITTED |
  ROUTE_COUNTED |
  BACKEND_COUNTED |
  HANDED_OFF |
  RETURNED;

export const reasonIndex = Object.fromEntries(closeReasons.map((reason, index) => [reason, index])) as Record<
  CloseReason,
  number
>;

/** Which ends the log wants. */
type LogLevel = 'all' | 'refused' | 'none';

/** Where the end of a connection is told. */
export interface EndRecorder extends Counts {
  readonly verdicts: Verdicts;
  readonly records: RecordWriter;
}

/**
 * Counts the end and writes the record where `log`, or somebody who watches refusals, wants it. What a part of ours
 * (HTTP, TLS) says of a connection that it was handed stands above what the front saw; one that the HTTP part had gets
 * its last request's route.
 */
export function recordEnd(
  rows: Rows,
  recorder: EndRecorder,
  client: number,
  observed: CloseReason,
  now: number,
  log: LogLevel,
): void {
  const { verdicts } = recorder;
  const isAlive = (rows.flags[client] & ALIVE) !== 0;
  const isHandedOff = (rows.flags[client] & HANDED_OFF) !== 0;
  const isOurs = isHandedOff && rows.slot[client] < FIRST_SLOT;
  const said = isHandedOff ? verdicts.reason(client) : -1;
  const reason = said < 0 || said === reasonIndex.done ? observed : closeReasons[said];
  if (isHandedOff) {
    rows.dialMs[client] = verdicts.dialMs(client);
    if (said >= 0) rows.detail[client] = verdicts.failure(client);
    // What the part moved by itself.
    rows.bytesIn[client] += verdicts.bytesIn(client);
    rows.bytesOut[client] += verdicts.bytesOut(client);
  }
  // Only for the record: the HTTP part counts by itself what its requests have open.
  const backendSlot = isOurs ? verdicts.backendSlot(client) : rows.backendSlot[client];
  if (isOurs) rows.slot[client] = verdicts.slot(client);
  for (const undo of undoings) undo(rows, recorder, client);
  countReason(rows, recorder, client, reason);
  rows.backendSlot[client] = backendSlot;
  // Otherwise it has its reason, and a fault in what follows from it has brought us here again.
  if (!isAlive) return;
  writeRecord(rows, recorder, client, reason, now, log);
  // The HTTP part counts the bytes of its requests by itself.
  if (rows.slot[client] !== 0 || isHandedOff) return;
  recorder.counters.add(0, BYTES_IN_AT, rows.bytesIn[client]);
  recorder.counters.add(0, BYTES_OUT_AT, rows.bytesOut[client]);
}

/**
 * What conclude() has left to do, after it threw: each step by itself, so that one that throws again keeps none of the
 * others from being done.
 */
export function recordEndByForce(
  rows: Rows,
  recorder: EndRecorder,
  client: number,
  reason: CloseReason,
  now: number,
  log: LogLevel,
): void {
  for (const undo of undoings) attemptTwice(() => undo(rows, recorder, client));
  if ((rows.flags[client] & ALIVE) === 0) return;
  // Where the counters of its route are out of reach, it is counted with those that have none.
  for (const slot of [rows.slot[client], 0]) {
    rows.slot[client] = slot;
    attemptTwice(() => countReason(rows, recorder, client, reason));
  }
  attemptTwice(() => writeRecord(rows, recorder, client, reason, now, log));
}

/** Tries again what throws, once. */
function attemptTwice(step: () => void): void {
  for (let tries = 0; tries < 2; tries++) {
    try {
      return step();
    } catch {
      // The fault that brought us here is told already.
    }
  }
}

/**
 * What a connection counts for, each undone while its flag stands, which goes when it is done: whatever throws in between,
 * nothing is undone twice.
 */
const undoings: readonly ((rows: Rows, recorder: EndRecorder, client: number) => void)[] = [
  releasePending,
  (rows, { sources }, client) => {
    if ((rows.flags[client] & COUNTED) === 0) return;
    sources.remove(GATEWAY_SCOPE, rows.addresses, rows.addressAt(client, CLIENT));
    rows.flags[client] &= ~COUNTED;
  },
  releaseSource,
  releaseCluster,
  releaseRoute,
  releaseBackend,
  (rows, { totals, verdicts }, client) => {
    if ((rows.flags[client] & (HANDED_OFF | RETURNED)) === 0) return;
    verdicts.end(client);
    rows.flags[client] &= ~(HANDED_OFF | RETURNED);
    Atomics.sub(totals, TOTAL_HANDED_OFF, 1);
  },
];

/** Undoes what `takeLimits` and `countBackend` counted, for a connection or a request. */
export function releaseLimits(rows: Rows, counts: Counts, client: number): void {
  releaseSource(rows, counts, client);
  releaseCluster(rows, counts, client);
  releaseRoute(rows, counts, client);
  releaseBackend(rows, counts, client);
}

/** It counts for that backend from here on, and for no other. */
export function countBackend(
  rows: Rows,
  counts: Pick<Counts, 'backends'>,
  client: number,
  slot: number,
): void {
  releaseBackend(rows, counts, client);
  rows.backendSlot[client] = slot;
  counts.backends.add(slot, BACKEND_ACTIVE, 1);
  rows.flags[client] |= BACKEND_COUNTED;
}

function releaseSource(rows: Rows, { sources }: Counts, client: number): void {
  if ((rows.flags[client] & SOURCE_COUNTED) === 0) return;
  sources.remove(rows.cluster[client], rows.addresses, rows.addressAt(client, CLIENT));
  rows.flags[client] &= ~SOURCE_COUNTED;
}

function releaseCluster(rows: Rows, { clusters }: Counts, client: number): void {
  if ((rows.flags[client] & ADMITTED) === 0) return;
  clusters.add(rows.cluster[client], CLUSTER_ACTIVE, -1);
  rows.flags[client] &= ~ADMITTED;
}

function releaseRoute(rows: Rows, { counters }: Counts, client: number): void {
  if ((rows.flags[client] & ROUTE_COUNTED) === 0) return;
  counters.add(rows.slot[client], ACTIVE_AT, -1);
  rows.flags[client] &= ~ROUTE_COUNTED;
}

function releaseBackend(rows: Rows, { backends }: Pick<Counts, 'backends'>, client: number): void {
  if ((rows.flags[client] & BACKEND_COUNTED) === 0) return;
  backends.add(rows.backendSlot[client], BACKEND_ACTIVE, -1);
  rows.flags[client] &= ~BACKEND_COUNTED;
}

/** From here on it is over. */
function countReason(rows: Rows, { counters, totals }: Counts, client: number, reason: CloseReason): void {
  if ((rows.flags[client] & ALIVE) === 0) return;
  counters.add(rows.slot[client], REASONS_AT + reasonIndex[reason], 1);
  rows.flags[client] &= ~ALIVE;
  Atomics.sub(totals, TOTAL_CONNECTIONS, 1);
}

function writeRecord(
  rows: Rows,
  { totals, records }: EndRecorder,
  client: number,
  reason: CloseReason,
  now: number,
  log: LogLevel,
): void {
  // A probe that says nothing is counted and never logged.
  const isRefused = !served.has(reason);
  const isLogged = log === 'all' ? reason !== 'no-data' : log === 'refused' && isRefused;
  if (isLogged || (isRefused && totals[TOTAL_WATCHED] === 1))
    records.write(rows, client, reasonIndex[reason], now, isLogged);
}

/** Undoes what was counted for a connection that is not routed yet; once, whoever calls it. */
export function releasePending(rows: Rows, { totals, sources }: Counts, client: number): void {
  if ((rows.flags[client] & PENDING_COUNTED) !== 0) {
    sources.remove(PENDING_SCOPE, rows.addresses, rows.addressAt(client, CLIENT));
    rows.flags[client] &= ~PENDING_COUNTED;
  }
  if ((rows.flags[client] & PENDING) === 0) return;
  rows.flags[client] &= ~PENDING;
  Atomics.sub(totals, TOTAL_PENDING, 1);
}

/** Whether the row is counted anywhere; also one whose thread died in the middle of conclude(). */
export function isCounted(rows: Rows, handle: number): boolean {
  return (rows.flags[handle] & ALL_COUNTS) !== 0;
}

/** Whether the handle is the client's side of a connection that has no reason yet. */
export function isClient(rows: Rows, handle: number): boolean {
  const state = rows.state[handle];
  return state === IDENTIFYING || state === DIALING || (state === TUNNEL && rows.slot[handle] !== 0);
}
