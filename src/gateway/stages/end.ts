// Ends a connection, in whatever stage it is, with exactly one close reason, counted once and logged once. A refusal is
// answered in the client's protocol where that has an answer; see refusal.ts.

import type { CloseReason } from '../close-reason.ts';
import { ANSWERED, HANDED_OFF, HTTP, LENT, RETURNED } from '../shared/rows.ts';
import { BYTES_OUT_AT, HTTP_SLOT, REASONS_AT } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import { linger } from './linger.ts';
import { isClient, reasonIndex, recordEnd } from './record-end.ts';
import { refusalBytes, refusalStatus } from './refusal.ts';

const nothing = new Uint8Array(0);

/**
 * Sends the refusal for that reason, with `text` in place of its usual text, and lingers so that the client can read
 * it.
 */
export function refuse(path: DataPath, client: number, reason: CloseReason, text?: string): void {
  const { rows, shared } = path;
  hangUpBackend(path, client);
  const refusal = refusalBytes(reason, rows.protocol[client], text);
  if (rows.protocol[client] === HTTP) countRequest(path, client, reason);
  rows.bytesOut[client] += refusal.length;
  // Bytes of connections without a route are added to the counters when the connection ends.
  if (rows.slot[client] !== 0) shared.counters.add(rows.slot[client], BYTES_OUT_AT, refusal.length);
  recordAndForget(path, client, reason);
  linger(path, client, refusal);
}

/** A head refused here counts as a request, as in the HTTP thread. No connection ends in the HTTP slot itself. */
function countRequest({ rows, shared }: DataPath, client: number, reason: CloseReason): void {
  if (refusalStatus(reason) === 0) return;
  rows.flags[client] |= ANSWERED;
  shared.counters.add(HTTP_SLOT, REASONS_AT + reasonIndex[reason], 1);
}

/** Sends FIN to both sides. */
export function end(path: DataPath, client: number, reason: CloseReason): void {
  closeBoth(path, client, reason, false);
}

/** Sends RST to both sides. */
export function endWithReset(path: DataPath, client: number, reason: CloseReason): void {
  closeBoth(path, client, reason, true);
}

/**
 * The protocol thread has closed the connection, and all its bytes have reached the client, which gets time to read.
 */
export function endHandedOff(path: DataPath, client: number): void {
  hangUpBackend(path, client);
  const isBroken = path.shared.verdicts.isBroken(client);
  recordAndForget(path, client, 'done');
  if (!isBroken) return linger(path, client, nothing);
  path.release(client);
  path.io.reset(client);
}

/** Ends all open connections, when the drain time has run out or the process must exit now. */
export function cutAll(path: DataPath, reason: 'drained' | 'shutdown'): void {
  for (let handle = 0; handle < path.rows.used; handle++) {
    if (!isClient(path.rows, handle)) continue;
    try {
      end(path, handle, reason);
    } catch (error) {
      path.contain(error, handle, -1);
    }
  }
}

/**
 * A protocol thread died: its connections end with a reset, as those of a dead worker do, so that the client notices.
 */
export function cutHandedOff(path: DataPath, kind: 'http' | 'tls', thread: number): void {
  const { rows } = path;
  for (let handle = 0; handle < rows.used; handle++) {
    if ((rows.flags[handle] & HANDED_OFF) === 0 || rows.thread[handle] !== thread) continue;
    if ((rows.slot[handle] === HTTP_SLOT) !== (kind === 'http') || !isClient(rows, handle)) continue;
    try {
      endWithReset(path, handle, 'shutdown');
    } catch (error) {
      path.contain(error, handle, -1);
    }
  }
}

function closeBoth(path: DataPath, client: number, reason: CloseReason, reset: boolean): void {
  const backend = path.rows.peer[client];
  if (reset && (path.rows.flags[client] & RETURNED) !== 0) path.shared.verdicts.breakOff(client);
  // Unix sockets carry no reset, so the two connections of an agent's tunnel pass it on here.
  const inner = reset ? path.tunnelLinks.reset(path.shared.verdicts, client, reason) : undefined;
  recordAndForget(path, client, reason);
  for (const handle of [backend, client]) {
    if (handle < 0) continue;
    path.release(handle);
    if (reset) path.io.reset(handle);
    else path.io.close(handle);
  }
  if (inner !== undefined) endWithReset(path, inner, reason);
}

/** Closes the backend of a client that is about to be refused. */
function hangUpBackend(path: DataPath, client: number): void {
  const backend = path.rows.peer[client];
  if (backend < 0) return;
  path.rows.peer[client] = -1;
  path.release(backend);
  path.io.close(backend);
}

/** Counts the reason once, and writes the record if the log or a watcher of refusals wants it. */
function recordAndForget(path: DataPath, client: number, observed: CloseReason): void {
  path.dialOrders.delete(client);
  path.tunnelLinks.delete(client);
  discardLent(path, client);
  recordEnd(path.rows, path.shared, client, observed, path.io.now(), path.settings.log);
}

/** Closes the lent descriptor if the HTTP thread has not taken it. */
export function discardLent({ rows, shared, io }: DataPath, client: number): void {
  if ((rows.flags[client] & LENT) !== 0) shared.verdicts.takeBack(client, io.discard);
}
