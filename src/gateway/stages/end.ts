// How a connection ends: with exactly one close reason, counted once and logged once, whatever stage it is in.
// A refusal says a word to the client where its protocol has one; see refusal.ts.

import type { CloseReason } from '../close-reason.ts';
import { ANSWERED, HANDED_OVER, HTTP, LENT, RETURNED } from '../shared/rows.ts';
import { BYTES_OUT_AT, HTTP_SLOT, REASONS_AT } from '../shared/shared-memory.ts';
import { conclude, isClient, reasonIndex } from './account.ts';
import type { DataPath } from './data-path.ts';
import { linger } from './linger.ts';
import { refusalStatus, refusalWord } from './refusal.ts';
import { hangUpBackend } from './tunnel.ts';

const nothing = new Uint8Array(0);

/** Says the word for that reason, then waits a moment for the client to read it. */
export function refuse(path: DataPath, client: number, reason: CloseReason): void {
  const { rows, shared } = path;
  hangUpBackend(path, client);
  const word = refusalWord(reason, rows.protocol[client]);
  if (rows.protocol[client] === HTTP) countRequest(path, client, reason);
  rows.bytesOut[client] += word.length;
  // What belongs to no route is added up when it ends.
  if (rows.slot[client] !== 0) shared.counters.add(rows.slot[client], BYTES_OUT_AT, word.length);
  finish(path, client, reason);
  linger(path, client, word);
}

/** A refused head is a request as much as one that the HTTP part refuses. No connection ends in that part's slot. */
function countRequest({ rows, shared }: DataPath, client: number, reason: CloseReason): void {
  if (refusalStatus(reason) === 0) return;
  rows.flags[client] |= ANSWERED;
  shared.counters.add(HTTP_SLOT, REASONS_AT + reasonIndex[reason], 1);
}

/** FIN to both sides. */
export function end(path: DataPath, client: number, reason: CloseReason): void {
  leave(path, client, reason, false);
}

/** RST to both sides. */
export function endWithReset(path: DataPath, client: number, reason: CloseReason): void {
  leave(path, client, reason, true);
}

/** The part that it was handed to has closed it, and all that it said is with the client, which gets time to read. */
export function endOfPart(path: DataPath, client: number): void {
  hangUpBackend(path, client);
  const isBroken = path.shared.verdicts.isBroken(client);
  finish(path, client, 'done');
  if (!isBroken) return linger(path, client, nothing);
  path.release(client);
  path.io.reset(client);
}

/** Ends all that is open, when the drain time has run out or the process must go now. */
export function cutAll(path: DataPath, reason: 'drained' | 'shutdown'): void {
  for (let handle = 0; handle < path.rows.used; handle++) {
    if (isClient(path.rows, handle)) end(path, handle, reason);
  }
}

/** A thread of a part died: its connections end as those of a worker that died, cut off for the client to see. */
export function cutPart(path: DataPath, part: 'http' | 'tls', thread: number): void {
  const { rows } = path;
  for (let handle = 0; handle < rows.used; handle++) {
    if ((rows.flags[handle] & HANDED_OVER) === 0 || rows.backend[handle] !== thread) continue;
    if ((rows.slot[handle] === HTTP_SLOT) === (part === 'http') && isClient(rows, handle))
      endWithReset(path, handle, 'shutdown');
  }
}

function leave(path: DataPath, client: number, reason: CloseReason, reset: boolean): void {
  const backend = path.rows.peer[client];
  if (reset && (path.rows.flags[client] & RETURNED) !== 0) path.shared.verdicts.breakOff(client);
  // Between the two connections of an agent's tunnel there is no reset but this.
  const inner = reset ? path.tunnelLinks.reset(path.shared.verdicts, client, reason) : undefined;
  finish(path, client, reason);
  for (const handle of [backend, client]) {
    if (handle < 0) continue;
    path.release(handle);
    if (reset) path.io.reset(handle);
    else path.io.close(handle);
  }
  if (inner !== undefined) endWithReset(path, inner, reason);
}

/** Counts the reason, once, and writes the record that the log or those who watch refusals want. */
function finish(path: DataPath, client: number, told: CloseReason): void {
  path.dialOrders.delete(client);
  path.tunnelLinks.delete(client);
  const isLent = (path.rows.flags[client] & LENT) !== 0;
  const lent = isLent ? path.shared.verdicts.takeBack(client) : undefined;
  if (lent !== undefined) path.io.discard(lent);
  conclude(path.rows, path.shared, client, told, path.io.now(), path.settings.log);
}
