// `timeouts.idle` and `timeouts.halfClosed` for clients whose descriptor was lent to the HTTP thread: the worker, which
// enforces them for all others, does not see their bytes. Checked periodically, so that no byte has to set a timer.

import type { Settings } from '../stages/data-path.ts';
import type { HttpConnection } from './exchange.ts';

/** The reason to end the connection, if a timeout has expired. Times in ms. */
export function expiredTimeout(
  connection: Pick<HttpConnection, 'moved' | 'movedAt'> & {
    readonly socket: Pick<
      HttpConnection['socket'],
      'bytesRead' | 'bytesWritten' | 'readableEnded' | 'writableEnded'
    >;
  },
  {
    idleMs = Number.POSITIVE_INFINITY,
    halfClosedMs = Number.POSITIVE_INFINITY,
  }: Pick<Settings, 'idleMs' | 'halfClosedMs'>,
  now: number,
): 'idle-timeout' | 'half-closed-timeout' | undefined {
  const { bytesRead, bytesWritten, readableEnded, writableEnded } = connection.socket;
  // A FIN counts like a byte.
  const moved = bytesRead + bytesWritten + Number(readableEnded) + Number(writableEnded);
  if (moved !== connection.moved) {
    connection.moved = moved;
    connection.movedAt = now;
    return undefined;
  }
  const isHalfClosed = (readableEnded || writableEnded) && halfClosedMs < idleMs;
  if (now - connection.movedAt < (isHalfClosed ? halfClosedMs : idleMs)) return undefined;
  return isHalfClosed ? 'half-closed-timeout' : 'idle-timeout';
}
