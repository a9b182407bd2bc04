// What a client hears last on a connection that is refused, and how it is left then.

import type { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import { HTTP } from '../shared/rows.ts';
import { refusalStatus, refusalWord } from '../stages/refusal.ts';

const words = new Map<CloseReason, { readonly word: Buffer; readonly status: number }>();

export function wordFor(reason: CloseReason): { readonly word: Buffer; readonly status: number } {
  let found = words.get(reason);
  if (found === undefined) {
    const bytes = refusalWord(reason, HTTP);
    const word = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    found = { word, status: refusalStatus(reason) };
    words.set(reason, found);
  }
  return found;
}

/** FIN behind it. */
export function sayLast(socket: Socket, word: Uint8Array): void {
  socket.end(word);
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
