// After a refusal: closing a socket with unread bytes sends a reset, which can overtake the alert that explains the
// refusal. So the refusal and FIN are sent, and the client's input is read and dropped until it closes, for a short
// while. The connection itself has already ended: nothing here is counted or logged.

import { AGAIN, WRITABLE } from '../io/reactor.ts';
import { LINGERING } from '../shared/rows.ts';
import type { DataPath } from './data-path.ts';
import { flushKept, keep } from './kept-bytes.ts';

/** Enough for a round trip to anywhere. */
const LINGER_MS = 2000;
/** A client that sends more than this is unlikely to read the refusal. */
const MAX_DROPPED = 256 * 1024;
/** Beyond this many, refused clients are closed at once, so that an attack cannot hold descriptors. */
const MAX_LINGERING = 512;

export function linger(path: DataPath, client: number, refusal: Uint8Array): void {
  const { rows, io, wheel } = path;
  path.release(client);
  rows.state[client] = LINGERING;
  path.lingering++;
  if (refusal.length > 0) keep(path, client, refusal, 0, refusal.length);
  if (!sendRefusal(path, client)) return close(path, client);
  if (path.lingering > MAX_LINGERING) return close(path, client);
  wheel.set(client, io.now() + LINGER_MS);
  drop(path, client);
}

export function lingerEvent(path: DataPath, client: number, events: number): void {
  const isWaiting = path.rows.kept[client] !== undefined;
  if (isWaiting && (events & WRITABLE) !== 0 && !sendRefusal(path, client)) return close(path, client);
  drop(path, client);
}

export function lingerTimer(path: DataPath, client: number): void {
  close(path, client);
}

/** FIN follows the refusal. False if the client has left. */
function sendRefusal(path: DataPath, client: number): boolean {
  if (flushKept(path, client) < 0) return false;
  if (path.rows.kept[client] === undefined) path.io.shutdown(client);
  return true;
}

function drop(path: DataPath, client: number): void {
  const { rows, io } = path;
  while (rows.bytesIn[client] < MAX_DROPPED) {
    const count = io.read(client, path.kept.buffer, 0, path.kept.buffer.length);
    if (count === AGAIN) return;
    if (count <= 0) break;
    rows.bytesIn[client] += count;
  }
  close(path, client);
}

function close(path: DataPath, client: number): void {
  path.release(client);
  path.lingering--;
  path.io.close(client);
}
