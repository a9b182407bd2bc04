// Writes to one side of an HTTP exchange. What that side does not take is kept, and the other side is not read
// meanwhile.

import { AGAIN } from '../io/reactor.ts';
import type { DataPath } from './data-path.ts';

const nothing = new Uint8Array(0);

/** False if that side has failed. `client` is the exchange's. */
export function sendBytes(
  path: DataPath,
  target: number,
  client: number,
  bytes: Uint8Array,
  from: number,
  to: number,
): boolean {
  const { rows, io } = path;
  if (from === to) return true;
  if (rows.kept[target] !== undefined) {
    // A final response right behind an informational one that was not taken whole.
    const all = Buffer.concat([takeKept(path, target), bytes.subarray(from, to)]);
    keep(path, target, client, all, 0, all.length);
    return true;
  }
  const sent = io.write(target, bytes, from, to);
  if (sent === to - from) return true;
  if (sent < 0 && sent !== AGAIN) return false;
  keep(path, target, client, bytes, from + Math.max(sent, 0), to);
  return true;
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

function keep(
  path: DataPath,
  target: number,
  client: number,
  bytes: Uint8Array,
  from: number,
  to: number,
): void {
  const { rows, io } = path;
  const kept = path.kept.keep(target, rows.cluster[client], rows.slot[client], from, to, bytes);
  const at = kept === bytes ? from : 0;
  rows.kept[target] = kept;
  rows.keptFrom[target] = at;
  rows.keptTo[target] = at + to - from;
  rows.keptAt[target] = io.now();
}

/** Writes what is kept for that side. False if it has failed. */
export function flushBytes(path: DataPath, target: number): boolean {
  const { rows, io } = path;
  const bytes = rows.kept[target];
  if (bytes === undefined) return true;
  const sent = io.write(target, bytes, rows.keptFrom[target], rows.keptTo[target]);
  if (sent === AGAIN) return true;
  if (sent >= 0) {
    rows.keptFrom[target] += sent;
    rows.keptAt[target] = io.now();
    if (rows.keptFrom[target] < rows.keptTo[target]) return true;
  }
  rows.kept[target] = undefined;
  path.giveBack(target, bytes);
  return sent >= 0;
}
