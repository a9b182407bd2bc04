// Holds what an HTTP client has sent ahead, up to a limit: the rest of a head, a body, or further requests. A client is
// read while its request is in progress, so that its reset is noticed.

import { AGAIN } from '../io/reactor.ts';
import { ENDED, MORE, OPEN } from '../shared/rows.ts';
import type { DataPath } from './data-path.ts';

/** Bytes read ahead; more stay in the kernel. */
const MAX_AHEAD = 64 * 1024;

/** Returns 0, or the error with which the client has left. FIN is noted in the row. */
export function readAhead(path: DataPath, client: number): number {
  const { rows, io } = path;
  for (;;) {
    if (rows.input[client] >= ENDED) return 0;
    dropUsed(path, client);
    if (rows.heldTo[client] >= MAX_AHEAD) {
      rows.flags[client] |= MORE;
      return 0;
    }
    let held = rows.held[client] ?? path.holds.take();
    if (rows.heldTo[client] === held.length) {
      const larger = path.holds.grow(held, held.length);
      if (larger === undefined) {
        rows.flags[client] |= MORE;
        return 0;
      }
      held = larger;
    }
    rows.held[client] = held;
    const space = held.length - rows.heldTo[client];
    const count = io.read(client, held, rows.heldTo[client], held.length);
    if (count > 0) {
      rows.heldTo[client] += count;
      rows.bytesIn[client] += count;
      rows.activeAt[client] = io.now();
      if (count === space) continue;
      rows.flags[client] &= ~MORE;
      if (rows.input[client] === OPEN) return 0;
      continue;
    }
    if (rows.heldTo[client] === 0) giveBackHeld(path, client);
    if (count < 0 && count !== AGAIN) return count;
    rows.flags[client] &= ~MORE;
    if (count === 0) {
      rows.input[client] = ENDED;
      rows.activeAt[client] = io.now();
    }
    return 0;
  }
}

/** Bytes that are held and not used yet. */
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
  if (from === to) giveBackHeld(path, client);
  else rows.held[client]?.copyWithin(0, from, to);
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

function giveBackHeld(path: DataPath, client: number): void {
  const { rows } = path;
  const held = rows.held[client];
  if (held !== undefined) path.holds.give(held);
  rows.held[client] = undefined;
  rows.heldTo[client] = 0;
}
