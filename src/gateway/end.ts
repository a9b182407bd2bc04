// How a connection ends: with exactly one close reason, counted once and logged once, whatever stage it is in.
// A refusal says a word to the client where its protocol has one; see refusal.ts.

import { account, isClient, reasonIndex } from './account.ts';
import { type CloseReason, served } from './close-reason.ts';
import type { DataPath } from './data-path.ts';
import { linger } from './linger.ts';
import { refusalWord } from './refusal.ts';
import { TOTAL_WATCHED } from './shared-memory.ts';
import { hangUpBackend } from './tunnel.ts';

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
    if (isClient(path.rows, handle)) end(path, handle, reason);
  }
}

/** Counts the reason, once, and writes the record that the log or those who watch refusals want. */
function finish(path: DataPath, client: number, reason: CloseReason): void {
  const { rows, shared, settings } = path;
  path.dialOrders.delete(client);
  account(rows, shared, client, reason);
  const refused = !served.has(reason);
  const logged = settings.log === 'all' ? reason !== 'no-data' : settings.log === 'refused' && refused;
  if (!logged && !(refused && shared.totals[TOTAL_WATCHED] === 1)) return;
  shared.records.write(rows, client, reasonIndex[reason], path.io.now(), logged);
}
