// What a client hears last on a connection that is refused, and how it is left then.

import type { Socket } from 'node:net';
import type { CloseReason } from '../close-reason.ts';
import { HTTP } from '../shared/rows.ts';
import { refusalStatus, refusalWord } from '../stages/refusal.ts';

interface Word {
  readonly word: Buffer;
  readonly status: number;
}

/** `text` takes the place of the reason's usual one. */
export function wordFor(reason: CloseReason, text?: string): Word {
  const bytes = refusalWord(reason, HTTP, text);
  const word = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return { word, status: refusalStatus(reason) };
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
