// Records the end of a connection: undoes every count it holds and counts its reason. The worker that served it does
// so, or, if that worker has died, the control thread.

import { type CloseReason, closeReasons, served } from '../close-reason.ts';
import type { RecordWriter } from '../shared/record-ring.ts';
import {
  ADMITTED,
  ALIVE,
  BACKEND_COUNTED,
  BY_REQUEST,
  CLIENT,
  CLIENT_SIDE,
  COUNTED,
  PENDING,
  PENDING_COUNTED,
  ROUTE_COUNTED,
  type Rows,
  SESSION,
  SOURCE_COUNTED,
} from '../shared/rows.ts';
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
  TOTAL_WATCHED,
} from '../shared/shared-memory.ts';
import { GATEWAY_SCOPE, PENDING_SCOPE, type SourceCounts } from '../shared/source-counts.ts';

/** Where a connection is counted. `counters` are those of its worker. */
export interface Counts {
  readonly counters: RouteCounters;
  readonly clusters: SharedSlots;
  readonly backends: SharedSlots;
  readonly totals: Int32Array;
  readonly sources: SourceCounts;
}

const reasonIndex = Object.fromEntries(closeReasons.map((reason, index) => [reason, index])) as Record<
  CloseReason,
  number
>;

/** Which ends are logged. */
type LogLevel = 'all' | 'refused' | 'none';

/** Where the end of a connection is recorded. */
export interface EndRecorder extends Counts {
  readonly records: RecordWriter;
}

/**
 * Counts the end and writes the record if `log` or a watcher of refusals wants it.
 */
export function recordEnd(
  rows: Rows,
  recorder: EndRecorder,
  client: number,
  reason: CloseReason,
  now: number,
  log: LogLevel,
): void {
  const isAlive = (rows.counts[client] & ALIVE) !== 0;
  const backendSlot = rows.backendSlot[client];
  for (const release of releases) release(rows, recorder, client);
  countReason(rows, recorder, client, reason);
  rows.backendSlot[client] = backendSlot;
  // Otherwise the reason is already counted, and a fault in a later step has brought us here again.
  if (!isAlive) return;
  writeRecord(rows, recorder, client, reason, now, log);
  // What is within a session is counted by its streams.
  if (rows.state[client] === SESSION || rows.slot[client] !== 0 || (rows.flags[client] & BY_REQUEST) !== 0)
    return;
  recorder.counters.add(0, BYTES_IN_AT, rows.bytesIn[client]);
  recorder.counters.add(0, BYTES_OUT_AT, rows.bytesOut[client]);
}

/**
 * The rest of recordEnd() after it threw: each step runs on its own, so that one that throws again does not prevent the
 * others.
 */
export function recordEndByForce(
  rows: Rows,
  recorder: EndRecorder,
  client: number,
  reason: CloseReason,
  now: number,
  log: LogLevel,
): void {
  for (const release of releases) attemptTwice(() => release(rows, recorder, client));
  if ((rows.counts[client] & ALIVE) === 0) return;
  // If its route's counters are unreachable, count it among the connections without a route.
  for (const slot of [rows.slot[client], 0]) {
    rows.slot[client] = slot;
    attemptTwice(() => countReason(rows, recorder, client, reason));
  }
  attemptTwice(() => writeRecord(rows, recorder, client, reason, now, log));
}

/** Runs the step, and once more if it throws. */
function attemptTwice(step: () => void): void {
  for (let tries = 0; tries < 2; tries++) {
    try {
      return step();
    } catch {
      // The original fault is already in the log.
    }
  }
}

/**
 * One function per count that a connection can hold. Each undoes its count if the flag is set, then clears the flag:
 * wherever one throws or its thread is terminated (see thread-control.ts), nothing is undone twice or left behind.
 */
const releases: readonly ((rows: Rows, recorder: EndRecorder, client: number) => void)[] = [
  releasePending,
  (rows, { sources }, client) => {
    if ((rows.counts[client] & COUNTED) === 0) return;
    sources.remove(GATEWAY_SCOPE, rows.addresses, rows.addressAt(client, CLIENT), rows, client, COUNTED);
  },
  releaseSource,
  releaseCluster,
  releaseRoute,
  releaseBackend,
];

/** Undoes the counts of `takeLimits` and `countBackend`, for a connection or a request. */
export function releaseLimits(rows: Rows, counts: Counts, client: number): void {
  releaseSource(rows, counts, client);
  releaseCluster(rows, counts, client);
  releaseRoute(rows, counts, client);
  releaseBackend(rows, counts, client);
}

/** Counts the connection for that backend, and no longer for another. */
export function countBackend(
  rows: Rows,
  counts: Pick<Counts, 'backends'>,
  client: number,
  slot: number,
): void {
  releaseBackend(rows, counts, client);
  rows.backendSlot[client] = slot;
  counts.backends.add(slot, BACKEND_ACTIVE, 1);
  rows.counts[client] |= BACKEND_COUNTED;
}

function releaseSource(rows: Rows, { sources }: Counts, client: number): void {
  if ((rows.counts[client] & SOURCE_COUNTED) === 0) return;
  const at = rows.addressAt(client, CLIENT);
  sources.remove(rows.cluster[client], rows.addresses, at, rows, client, SOURCE_COUNTED);
}

function releaseCluster(rows: Rows, { clusters }: Counts, client: number): void {
  if ((rows.counts[client] & ADMITTED) === 0) return;
  clusters.add(rows.cluster[client], CLUSTER_ACTIVE, -1);
  rows.counts[client] &= ~ADMITTED;
}

function releaseRoute(rows: Rows, { counters }: Counts, client: number): void {
  if ((rows.counts[client] & ROUTE_COUNTED) === 0) return;
  counters.add(rows.slot[client], ACTIVE_AT, -1);
  rows.counts[client] &= ~ROUTE_COUNTED;
}

function releaseBackend(rows: Rows, { backends }: Pick<Counts, 'backends'>, client: number): void {
  if ((rows.counts[client] & BACKEND_COUNTED) === 0) return;
  backends.add(rows.backendSlot[client], BACKEND_ACTIVE, -1);
  rows.counts[client] &= ~BACKEND_COUNTED;
}

/** The connection has ended from here on. */
function countReason(rows: Rows, { counters, totals }: Counts, client: number, reason: CloseReason): void {
  if ((rows.counts[client] & ALIVE) === 0) return;
  counters.add(rows.slot[client], REASONS_AT + reasonIndex[reason], 1);
  Atomics.sub(totals, TOTAL_CONNECTIONS, 1);
  rows.counts[client] &= ~ALIVE;
}

function writeRecord(
  rows: Rows,
  { totals, records }: EndRecorder,
  client: number,
  reason: CloseReason,
  now: number,
  log: LogLevel,
): void {
  // A probe without data is counted and never logged.
  const isRefused = !served.has(reason);
  const isLogged = log === 'all' ? reason !== 'no-data' : log === 'refused' && isRefused;
  if (isLogged || (isRefused && totals[TOTAL_WATCHED] === 1))
    records.write(rows, client, reasonIndex[reason], now, isLogged);
}

/** Undoes the counts of a connection that is not routed yet; safe to call more than once. */
export function releasePending(rows: Rows, { totals, sources }: Counts, client: number): void {
  if ((rows.counts[client] & PENDING_COUNTED) !== 0) {
    const at = rows.addressAt(client, CLIENT);
    sources.remove(PENDING_SCOPE, rows.addresses, at, rows, client, PENDING_COUNTED);
  }
  if ((rows.counts[client] & PENDING) === 0) return;
  Atomics.sub(totals, TOTAL_PENDING, 1);
  rows.counts[client] &= ~PENDING;
}

/** Whether the row holds any count; also true if its thread died inside recordEnd(). */
export function isCounted(rows: Rows, handle: number): boolean {
  return rows.counts[handle] !== 0;
}

/** Whether the handle is the client's side of a connection that has not ended. */
export function isClient(rows: Rows, handle: number): boolean {
  return rows.side[handle] === CLIENT_SIDE;
}
