// give: passes a connection to its next owner, which has Node's own streams: for HTTP/2 and for TLS of our own. On epoll
// that is another thread, which gets the descriptor; on net it is the same one. The row goes along, and so does what the
// connection is counted in. At every moment one row holds the counts and one thread the descriptor, whichever thread dies.

import { GIVING } from '../shared/rows.ts';
import type { DataPath } from './data-path.ts';
import { refuse } from './end.ts';
import type { Purpose } from './gift.ts';

export function give(path: DataPath, client: number, purpose: Purpose): void {
  const { rows, io, wheel, settings, receiver } = path;
  if (receiver === undefined) {
    // Its thread starts, for the first time or again.
    rows.state[client] = GIVING;
    path.waiting.set(client, purpose);
    wheel.set(client, io.now() + settings.connectMs);
    return path.streamsWanted();
  }
  const { arrivals, owned } = receiver;
  const at = client % arrivals.capacity;
  const first = rows.held[client]?.slice(rows.understood[client], rows.heldTo[client]) ?? new Uint8Array(0);
  const host = rows.host[client];
  arrivals.takeOver(rows, client, at);
  arrivals.counts[at] = rows.counts[client];
  rows.counts[client] = 0;
  path.release(client);
  receiver.take({ purpose, at, connection: io.give(client, owned), first, host });
}

/** A thread that takes connections is there. */
export function giveWaiting(path: DataPath): void {
  for (const [client, purpose] of path.waiting) {
    path.waiting.delete(client);
    if (path.rows.state[client] === GIVING) give(path, client, purpose);
  }
}

/** No thread took it in time. */
export function giveTimer(path: DataPath, client: number): void {
  refuse(path, client, 'connect-failed');
}
