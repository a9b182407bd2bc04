// Ends a connection, in whatever stage it is, with exactly one close reason, counted once and logged once. A refusal is
// answered in the client's protocol where that has an answer; see refusal.ts.

import { type CloseReason, served } from '../close-reason.ts';
import { BY_REQUEST, HTTP } from '../shared/rows.ts';
import { BYTES_OUT_AT } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import { countBytes, endRequest, recordUnreadable } from './end-request.ts';
import { closeKeptFor } from './keep-backend.ts';
import { linger } from './linger.ts';
import { isClient, recordEnd } from './record-end.ts';
import { refusalBytes, refusalStatus } from './refusal.ts';

const nothing = new Uint8Array(0);
/** In counters and log, for a request that met a fault of ours; its client sees a reset. */
const FAULT_STATUS = 500;

/**
 * Sends the refusal for that reason, with `text` in place of its usual text, and lingers so that the client can read
 * it.
 */
export function refuse(path: DataPath, client: number, reason: CloseReason, text?: string): void {
  const { rows, shared } = path;
  // A response has begun: only a reset can tell the client that it is incomplete.
  const exchange = path.exchanges[client];
  if (exchange?.isOpen === true && (exchange.isStarted || rows.kept[client] !== undefined))
    return endWithReset(path, client, reason);
  hangUpBackend(path, client);
  let refusal = refusalBytes(reason, rows.protocol[client], text);
  if (rows.protocol[client] === HTTP) refusal = refuseRequest(path, client, reason, refusal);
  rows.bytesOut[client] += refusal.length;
  // Bytes of connections without a route are added to the counters when the connection ends, those of requests with them.
  if (rows.slot[client] !== 0 && (rows.flags[client] & BY_REQUEST) === 0)
    shared.counters.add(rows.slot[client], BYTES_OUT_AT, refusal.length);
  recordAndForget(path, client, reason);
  linger(path, client, refusal);
}

/** A refusal over HTTP is the answer to a request, readable or not. Half a head is none. */
function refuseRequest(path: DataPath, client: number, reason: CloseReason, refusal: Uint8Array): Uint8Array {
  const { rows, io } = path;
  const status = refusalStatus(reason);
  const exchange = path.exchanges[client];
  if (exchange?.isOpen === true) {
    exchange.status = status;
    if (exchange.method !== 'HEAD' || refusal.length === 0) return refusal;
    return refusal.subarray(
      0,
      Buffer.from(refusal.buffer, refusal.byteOffset, refusal.length).indexOf('\r\n\r\n') + 4,
    );
  }
  const since = exchange?.startedAt ?? rows.startedAt[client];
  if (status !== 0) recordUnreadable(path, client, status, io.now() - since);
  return refusal;
}

/** Sends FIN to both sides. */
export function end(path: DataPath, client: number, reason: CloseReason): void {
  closeBoth(path, client, reason, false);
}

/** Sends RST to both sides. */
export function endWithReset(path: DataPath, client: number, reason: CloseReason): void {
  closeBoth(path, client, reason, true);
}

/** Records the end of a connection whose session closes it by itself. */
export function endSession(path: DataPath, client: number, reason: CloseReason): void {
  recordAndForget(path, client, reason);
  path.release(client);
}

/** An HTTP connection that serves no more requests: its client gets time to read the last response. */
export function endInOrder(path: DataPath, client: number, reason: CloseReason): void {
  hangUpBackend(path, client);
  recordAndForget(path, client, reason);
  linger(path, client, nothing);
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

function closeBoth(path: DataPath, client: number, reason: CloseReason, reset: boolean): void {
  const backend = path.rows.peer[client];
  recordAndForget(path, client, reason);
  for (const handle of [backend, client]) {
    if (handle < 0) continue;
    path.release(handle);
    if (reset) path.io.reset(handle);
    else path.io.close(handle);
  }
}

/** Closes the backend of a client that is about to be refused. */
export function hangUpBackend(path: DataPath, client: number): void {
  const backend = path.rows.peer[client];
  if (backend < 0) return;
  path.rows.peer[client] = -1;
  path.release(backend);
  path.io.close(backend);
}

/** Counts the reason once, and writes the record if the log or a watcher of refusals wants it. */
function recordAndForget(path: DataPath, client: number, observed: CloseReason): void {
  path.dialOrders.delete(client);
  path.waiting.delete(client);
  path.streams?.clientEnded(client, observed);
  forgetExchange(path, client, observed);
  recordEnd(path.rows, path.shared, client, observed, path.io.now(), path.settings.log);
}

/** The request in progress ends with its connection. */
export function forgetExchange(path: DataPath, client: number, reason: CloseReason): void {
  const exchange = path.exchanges[client];
  if (exchange === undefined) return;
  path.exchanges[client] = undefined;
  closeKeptFor(path, client);
  if (reason === 'fault' && exchange.status === 0) exchange.status = FAULT_STATUS;
  if (exchange.isOpen) endRequest(path, client, exchange, !served.has(reason));
  else countBytes(path, client, exchange);
  // A connection is known by the host that it was opened for.
  path.rows.host[client] = exchange.firstHost;
}
