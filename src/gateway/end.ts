// How a connection ends: with exactly one close reason, counted once and logged once, whatever stage it is in.
// A refusal says a word to the client where its protocol has one; see refusal.ts.

import { type CloseReason, closeReasons } from './close-reason.ts';
import type { DataPath } from './data-path.ts';
import { linger } from './linger.ts';
import { refusalWord } from './refusal.ts';
import {
  ADMITTED,
  CLIENT,
  COUNTED,
  DIALING,
  FREE,
  IDENTIFYING,
  PENDING,
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
  TOTAL_CONNECTIONS,
  TOTAL_PENDING,
} from './shared-memory.ts';
import { hangUpBackend } from './tunnel.ts';

/** The connection was served, or left by itself: not worth a line where only refusals are logged. */
const served: ReadonlySet<CloseReason> = new Set([
  'done',
  'client-reset',
  'backend-reset',
  'idle-timeout',
  'half-closed-timeout',
  'drained',
  'no-data',
  'client-gone',
  'shutdown',
]);

const reasonIndex = Object.fromEntries(closeReasons.map((reason, index) => [reason, index])) as Record<
  CloseReason,
  number
>;

/** Says the word for that reason, then waits a moment for the client to read it. */
export function refuse(path: DataPath, client: number, reason: CloseReason): void {
  hangUpBackend(path, client);
  const word = refusalWord(reason, path.rows.protocol[client]);
  path.rows.bytesOut[client] += word.length;
  finish(path, client, reason);
  linger(path, client, word);
}

/** Without a word: for those that are too many to talk to. */
export function refuseAtOnce(path: DataPath, client: number, reason: CloseReason): void {
  end(path, client, reason);
}

/** FIN to both sides. */
export function end(path: DataPath, client: number, reason: CloseReason): void {
  const backend = path.rows.peer[client];
  finish(path, client, reason);
  if (backend >= 0) {
    path.release(backend);
    path.io.close(backend);
  }
  path.release(client);
  path.io.close(client);
}

/** RST to both sides. */
export function endWithReset(path: DataPath, client: number, reason: CloseReason): void {
  const backend = path.rows.peer[client];
  finish(path, client, reason);
  if (backend >= 0) {
    path.release(backend);
    path.io.reset(backend);
  }
  path.release(client);
  path.io.reset(client);
}

/** Ends all that is open, when the drain time has run out or the process must go now. */
export function cutAll(path: DataPath, reason: 'drained' | 'shutdown'): void {
  for (let handle = 0; handle < path.rows.capacity; handle++) {
    if (isClient(path, handle)) end(path, handle, reason);
  }
}

/** Whether the handle is the client's side of a connection that has no reason yet. */
export function isClient(path: DataPath, handle: number): boolean {
  const state = path.rows.state[handle];
  return (
    state !== FREE &&
    (state === IDENTIFYING || state === DIALING || (state === TUNNEL && path.rows.slot[handle] !== 0))
  );
}

/** Undoes every count that the connection holds, counts its reason and writes its log line. */
function finish(path: DataPath, client: number, reason: CloseReason): void {
  const { rows, shared, settings } = path;
  const slot = rows.slot[client];
  const flags = rows.flags[client];
  const address = rows.addressAt(client, CLIENT);
  path.dialOrders.delete(client);
  Atomics.sub(shared.totals, TOTAL_CONNECTIONS, 1);
  if ((flags & PENDING) !== 0) Atomics.sub(shared.totals, TOTAL_PENDING, 1);
  if ((flags & COUNTED) !== 0) shared.sources.remove(0, rows.addresses, address);
  if ((flags & SOURCE_COUNTED) !== 0) shared.sources.remove(rows.cluster[client], rows.addresses, address);
  if ((flags & ADMITTED) !== 0) {
    shared.clusters.add(rows.cluster[client], CLUSTER_ACTIVE, -1);
    shared.counters.add(slot, ACTIVE_AT, -1);
  }
  if (rows.backendSlot[client] !== 0) shared.backends.add(rows.backendSlot[client], BACKEND_ACTIVE, -1);
  if (slot === 0) {
    shared.counters.add(0, BYTES_IN_AT, rows.bytesIn[client]);
    shared.counters.add(0, BYTES_OUT_AT, rows.bytesOut[client]);
  }
  shared.counters.add(slot, REASONS_AT + reasonIndex[reason], 1);
  if (reason === 'no-data' || settings.log === 'none' || (settings.log === 'refused' && served.has(reason)))
    return;
  shared.records.write(rows, client, reasonIndex[reason], path.io.now());
}
