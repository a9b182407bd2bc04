// The bytes that a side has not taken yet: at most one write of them is kept, and the other side is not read meanwhile.

import { AGAIN } from '../io/reactor.ts';
import type { DataPath } from './data-path.ts';

const nothing = new Uint8Array(0);

/** Writes, and keeps what is not taken. Returns 0, or the error of a side that has failed. `client` is the connection. */
export function sendBytes(
  path: DataPath,
  target: number,
  client: number,
  bytes: Uint8Array,
  from: number,
  to: number,
): number {
  const { rows, io } = path;
  if (from === to) return 0;
  if (rows.kept[target] !== undefined) {
    // A final response right behind an informational one that was not taken whole.
    const all = Buffer.concat([takeKept(path, target), bytes.subarray(from, to)]);
    share(path, target, client, all, 0, all.length);
    return 0;
  }
  const sent = io.write(target, bytes, from, to);
  if (sent === to - from) return 0;
  if (sent < 0 && sent !== AGAIN) return sent;
  share(path, target, client, bytes, from + Math.max(sent, 0), to);
  return 0;
}

/** Writes what is kept for that side. Returns 0, or the error of a side that has failed: then nothing is kept any more. */
export function flushKept(path: DataPath, target: number): number {
  const { rows, io } = path;
  const bytes = rows.kept[target];
  if (bytes === undefined) return 0;
  const sent = io.write(target, bytes, rows.keptFrom[target], rows.keptTo[target]);
  if (sent === AGAIN) return 0;
  if (sent >= 0) {
    rows.keptFrom[target] += sent;
    rows.keptAt[target] = io.now();
    if (rows.keptFrom[target] < rows.keptTo[target]) return 0;
  }
  rows.kept[target] = undefined;
  path.giveBack(target, bytes);
  return Math.min(sent, 0);
}

/** What is kept for that side, which has nothing kept from now on. */
export function takeKept(path: DataPath, target: number): Uint8Array {
  const { rows } = path;
  const bytes = rows.kept[target];
  if (bytes === undefined) return nothing;
  const copy = Uint8Array.prototype.slice.call(bytes, rows.keptFrom[target], rows.keptTo[target]);
  rows.kept[target] = undefined;
  path.giveBack(target, bytes);
  return copy;
}

/** Keeps these bytes as they are: they are few, and count for no cluster. */
export function keep(
  { rows, io }: DataPath,
  target: number,
  bytes: Uint8Array,
  from: number,
  to: number,
): void {
  rows.kept[target] = bytes;
  rows.keptFrom[target] = from;
  rows.keptTo[target] = to;
  rows.keptAt[target] = io.now();
}

/** Keeps them in the memory that clusters share. */
function share(
  path: DataPath,
  target: number,
  client: number,
  bytes: Uint8Array,
  from: number,
  to: number,
): void {
  const { rows } = path;
  const kept = path.kept.keep(target, rows.cluster[client], rows.slot[client], from, to, bytes);
  const at = kept === bytes ? from : 0;
  keep(path, target, kept, at, at + to - from);
}
