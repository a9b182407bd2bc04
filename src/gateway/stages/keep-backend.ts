// keep: an HTTP backend that has answered waits for another request; see kept-backends.ts.

import { KEPT, NO_SIDE } from '../shared/rows.ts';
import type { DataPath } from './data-path.ts';

/** Shorter than the 5 s after which common servers close, so that a request rarely crosses a close. */
const IDLE_MS = 4000;

/** Keeps the connection to a backend that has answered: for `client`, or for any client if that is -1. */
export function keepBackend(path: DataPath, handle: number, slot: number, client: number): void {
  const { rows, wheel, io } = path;
  path.release(handle);
  // A backend that is gone since: its slot may become another cluster's.
  if (!path.table.hasBackend(slot) || !path.keptBackends.add(slot, handle, client)) return io.close(handle);
  rows.state[handle] = KEPT;
  rows.side[handle] = NO_SIDE;
  rows.peer[handle] = client;
  rows.backendSlot[handle] = slot;
  wheel.set(handle, io.now() + IDLE_MS);
}

/** Closes a kept connection: it was idle for too long, the backend closed it, or unsolicited bytes arrived. */
export function closeKept(path: DataPath, handle: number): void {
  path.release(handle);
  path.io.close(handle);
}

/** The client has left: the connections kept for it serve no other client. */
export function closeKeptFor(path: DataPath, client: number): void {
  for (const handle of path.keptBackends.ownOf(client)) closeKept(path, handle);
}

/** Closes the oldest kept connection when descriptors are short. False if there is none. */
export function makeRoom(path: DataPath): boolean {
  const { oldest } = path.keptBackends;
  if (oldest === undefined) return false;
  closeKept(path, oldest);
  return true;
}

/** The addresses of a backend have changed: its connections finish the requests in progress and serve no more. */
export function leaveAddresses(path: DataPath, slot: number): void {
  closeKeptOf(path, slot);
  const { rows, exchanges } = path;
  for (let client = 0; client < rows.used; client++) {
    const exchange = exchanges[client];
    if (exchange !== undefined && rows.backendSlot[client] === slot) exchange.isKept = false;
  }
}

/** After a table change. */
export function closeKeptOfGone(path: DataPath): void {
  for (const slot of path.keptBackends.slots) if (!path.table.hasBackend(slot)) closeKeptOf(path, slot);
}

function closeKeptOf(path: DataPath, slot: number): void {
  for (const handle of path.keptBackends.handlesOf(slot)) closeKept(path, handle);
}
