// What a client hears last on a connection that is refused, and how it is left then.

import type { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import { HTTP } from '../shared/rows.ts';
import { refusalBytes, refusalStatus } from '../stages/refusal.ts';

interface Refusal {
  readonly refusal: Buffer;
  readonly status: number;
}

/** `text` takes the place of the reason's usual one. */
export function refusalFor(reason: CloseReason, text?: string): Refusal {
  const bytes = refusalBytes(reason, HTTP, text);
  const refusal = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return { refusal, status: refusalStatus(reason) };
}

/** FIN behind it. */
export function sayLast(socket: Socket, refusal: Uint8Array): void {
  socket.end(refusal);
  readNoMore(socket);
}

/**
 * What the client still sends is not even parsed: thousands of requests may stand behind the last one, and each would
 * cost as much as one that is served. node:http reads past the stream: its listeners alone stop it and start it again.
 */
export function readNoMore(socket: Socket): void {
  socket.pause();
  socket.emit('pause');
  socket.removeAllListeners('resume');
}
