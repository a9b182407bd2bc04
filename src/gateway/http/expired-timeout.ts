// `timeouts.idle` and `halfClosed` of a client that the HTTP part serves by its own descriptor: the front, which keeps them
// for everybody else, does not see its bytes. Looked at now and then, so that no byte has to set a timer.

import type { Settings } from '../stages/data-path.ts';
import type { HttpConnection } from './exchange.ts';

/** Why it is to end, or undefined. Times in ms. */
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
  // An end counts as a byte does.
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
