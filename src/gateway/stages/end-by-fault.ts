// How a connection ends in which our own code threw: with a reset and the reason `fault`, whatever state it was left in, and
// without harm to any other. Where the ordinary way out throws as well, each step of it is taken on its own; flags in the
// row say which counts are still to be undone, so that none is undone twice.

import { CLOSING, FREE, LINGERING, LISTENER, OPENED } from '../shared/rows.ts';
import { retryListener } from './accept.ts';
import type { DataPath } from './data-path.ts';
import { discardLent, endWithReset } from './end.ts';
import { isClient, recordEndByForce } from './record-end.ts';

/** The code threw while it served `handle`, whose other side was `peer` before that; -1 when it had none. */
export function endByFault(path: DataPath, handle: number, peer: number): void {
  const { rows } = path;
  for (const one of [handle, peer]) {
    if (one < 0) continue;
    switch (rows.state[one]) {
      case OPENED:
      case CLOSING:
        break;
      case LISTENER:
        attempt(() => retryListener(path, one));
        break;
      case LINGERING:
        path.lingering--;
        drop(path, one);
        break;
      case FREE:
        drop(path, one);
        break;
      default: {
        const client = clientOf(path, one);
        if (client >= 0) endClient(path, client);
        // A backend that nobody has any more.
        drop(path, one);
      }
    }
  }
}

/** The client's side of the connection that this handle is a side of; -1 when there is none. */
export function clientOf({ rows }: DataPath, handle: number): number {
  if (isClient(rows, handle)) return handle;
  const peer = rows.peer[handle];
  return peer >= 0 && isClient(rows, peer) ? peer : -1;
}

function endClient(path: DataPath, client: number): void {
  const { rows, shared, io, settings } = path;
  const backend = rows.peer[client];
  try {
    return endWithReset(path, client, 'fault');
  } catch {
    // Step by step, then.
  }
  attempt(() => path.dialOrders.delete(client));
  attempt(() => path.tunnelLinks.delete(client));
  attempt(() => discardLent(path, client));
  recordEndByForce(rows, shared, client, 'fault', io.now(), settings.log);
  if (backend >= 0) drop(path, backend);
  drop(path, client);
}

/** Also where only the reactor's part of it was left to do; one that is given back altogether is nobody's yet. */
function drop(path: DataPath, handle: number): void {
  if (path.rows.state[handle] !== FREE) {
    attempt(() => path.release(handle));
    path.rows.clear(handle);
  }
  if (!attempt(() => path.io.reset(handle))) attempt(() => path.io.close(handle));
}

/** False when it threw: the fault that brought us here is told already. */
function attempt(step: () => void): boolean {
  try {
    step();
    return true;
  } catch {
    return false;
  }
}
