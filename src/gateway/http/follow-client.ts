// Every byte of a client is read by our own rules before node:http sees it, and none without the other: a request counts
// that both have read, and what ours refuse is refused, the first time and every time after.

import { followRequests, isInsideRequest } from '../../wire/request-stream.ts';
import type { HttpConnection } from './exchange.ts';
import { now } from './http-part.ts';

export interface Followed {
  /** What the client says cannot be read on. */
  unreadable(): void;
  /** It has said FIN in the middle of a request, which will never be whole. */
  leftInside(): void;
}

/** Called when node:http has the socket: a listener for its bytes then keeps it from reading past the stream. */
export function followClient(connection: HttpConnection, told: Followed): void {
  const { socket, requests } = connection;
  const onData = (bytes: Buffer) => {
    if (requests.stage === 'over') {
      socket.off('data', onData);
      return;
    }
    if (!isInsideRequest(requests)) connection.begunAt = now();
    followRequests(requests, bytes);
    // Of a body, before node:http takes it for whole.
    if (requests.fault === 'body') told.unreadable();
    // Once node:http has read what stands in front of it.
    else if (requests.fault === 'request') queueMicrotask(told.unreadable);
  };
  socket.prependListener('data', onData);
  socket.prependListener('end', () => {
    if (isInsideRequest(requests)) told.leftInside();
  });
}
