// The response to a refused client, and the end of reading from it.

import type { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import { HTTP } from '../shared/rows.ts';
import { refusalBytes, refusalStatus } from '../stages/refusal.ts';

interface Refusal {
  readonly refusal: Buffer;
  readonly status: number;
}

/** `text` replaces the reason's usual text. */
export function refusalFor(reason: CloseReason, text?: string): Refusal {
  const bytes = refusalBytes(reason, HTTP, text);
  const refusal = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return { refusal, status: refusalStatus(reason) };
}

/** Sends the refusal and FIN. */
export function sendRefusal(socket: Socket, refusal: Uint8Array): void {
  socket.end(refusal);
  stopReading(socket);
}

/**
 * Further bytes from the client are not even parsed: thousands of requests may follow the last one, and each would cost
 * as much as one that is served. node:http reads the handle directly, not the stream: only its own listeners stop and
 * restart it.
 */
export function stopReading(socket: Socket): void {
  socket.pause();
  socket.emit('pause');
  socket.removeAllListeners('resume');
}
