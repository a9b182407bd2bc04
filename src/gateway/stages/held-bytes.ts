// The bytes that were read from a handle and are not used yet: first bytes, heads, and what an HTTP client sends ahead.
// One buffer per handle, from a pool; a handle that has sent nothing owns none.

import { AGAIN } from '../io/reactor.ts';
import { ENDED, MORE, OPEN } from '../shared/rows.ts';
import type { DataPath } from './data-path.ts';

/** Returned by readHeld(): no more may be held. No error of the reactor has this number. */
export const FULL = -100;
/** Bytes of HTTP read ahead, enough for any head (MAX_HTTP_HEAD); more stay in the kernel. */
const MAX_AHEAD = 16 * 1024;

/**
 * Reads what is there, behind the bytes that are held. Returns the count, 0 at the end of the stream, AGAIN, an error or
 * FULL, and notes in the row whether there may be more.
 */
export function readHeld({ rows, io, holds }: DataPath, handle: number): number {
  let held = rows.held[handle] ?? holds.take();
  const used = rows.heldTo[handle];
  if (used === held.length) {
    const larger = holds.grow(held, used);
    if (larger === undefined) return FULL;
    held = larger;
  }
  rows.held[handle] = held;
  const count = io.read(handle, held, used, held.length);
  if (used + count === held.length) rows.flags[handle] |= MORE;
  else rows.flags[handle] &= ~MORE;
  if (count > 0) rows.heldTo[handle] = used + count;
  else if (used === 0) {
    holds.give(held);
    rows.held[handle] = undefined;
  }
  return count;
}

/**
 * Reads an HTTP client, also while its request is in progress, so that its reset is noticed. Returns 0, or the error
 * with which it has left. FIN is noted in the row.
 */
export function readAhead(path: DataPath, client: number): number {
  const { rows, io } = path;
  for (;;) {
    if (rows.input[client] >= ENDED) return 0;
    dropUsed(path, client);
    if (rows.heldTo[client] >= MAX_AHEAD) {
      rows.flags[client] |= MORE;
      return 0;
    }
    const count = readHeld(path, client);
    if (count === AGAIN) return 0;
    if (count < 0) return count;
    rows.activeAt[client] = io.now();
    if (count === 0) {
      rows.input[client] = ENDED;
      return 0;
    }
    rows.bytesIn[client] += count;
    if ((rows.flags[client] & MORE) === 0 && rows.input[client] === OPEN) return 0;
  }
}

/** The number of bytes that are held and not used yet. */
export function heldBytes({ rows }: DataPath, client: number): number {
  return rows.heldTo[client] - rows.understood[client];
}

/** Moves what is left to the beginning of the buffer, or gives the buffer back. */
export function dropUsed(path: DataPath, client: number): void {
  const { rows } = path;
  const from = rows.understood[client];
  if (from === 0) return;
  const to = rows.heldTo[client];
  rows.understood[client] = 0;
  rows.needed[client] = 0;
  rows.heldTo[client] = to - from;
  if (from < to) rows.held[client]?.copyWithin(0, from, to);
  else dropHeld(path, client);
}

/** Nothing is held any more. */
export function dropHeld({ rows, holds }: DataPath, handle: number): void {
  const held = rows.held[handle];
  if (held !== undefined) holds.give(held);
  rows.held[handle] = undefined;
  rows.heldTo[handle] = 0;
}

/** Holds bytes that were read with the end of a body, and belong to the next request. Nothing else is held. */
export function hold(path: DataPath, client: number, bytes: Uint8Array): void {
  const { rows } = path;
  const usual = path.holds.take();
  const held = bytes.length <= usual.length ? usual : Buffer.allocUnsafeSlow(bytes.length);
  if (held !== usual) path.holds.give(usual);
  held.set(bytes);
  rows.held[client] = held;
  rows.understood[client] = 0;
  rows.heldTo[client] = bytes.length;
}
