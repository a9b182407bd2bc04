// Ends a connection in which our own code threw: with a reset and the reason `fault`, in whatever state it was left,
// and without harm to others. If the ordinary end throws as well, each step runs on its own; flags in the row show
// which counts are left to undo, so that none is undone twice.

import { CLOSING, FREE, LINGERING, LISTENER, OPENED } from '../shared/rows.ts';
import { retryListener } from './accept.ts';
import type { DataPath } from './data-path.ts';
import { endWithReset, forgetExchange } from './end.ts';
import { isClient, recordEndByForce } from './record-end.ts';

/** The code threw while serving `handle`, whose other side was `peer` before that, or -1 for none. */
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
        // Also covers a backend that no longer has a client.
        drop(path, one);
      }
    }
  }
}

/** The client's handle of the connection that this handle belongs to, or -1. */
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
    // Fall through to the single steps.
  }
  attempt(() => path.dialOrders.delete(client));
  attempt(() => path.streams?.clientEnded(client, 'fault'));
  attempt(() => forgetExchange(path, client, 'fault'));
  recordEndByForce(rows, shared, client, 'fault', io.now(), settings.log);
  if (backend >= 0) drop(path, backend);
  drop(path, client);
}

/** Also resets a handle whose row is already clear. The reactor ignores handles that are closed altogether. */
function drop(path: DataPath, handle: number): void {
  if (path.rows.state[handle] !== FREE) {
    attempt(() => path.release(handle));
    path.rows.clear(handle);
  }
  if (!attempt(() => path.io.reset(handle))) attempt(() => path.io.close(handle));
}

/** False when it threw: the original fault is already in the log. */
function attempt(step: () => void): boolean {
  try {
    step();
    return true;
  } catch {
    return false;
  }
}
