// Writes to one side of an HTTP exchange. What that side does not take is kept, and the other side is not read
// meanwhile.

import { AGAIN } from '../io/reactor.ts';
import type { DataPath } from './data-path.ts';

/** False if that side has failed. `target` has nothing kept; `client` is the exchange's. */
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
  const sent = io.write(target, bytes, from, to);
  if (sent === to - from) return true;
  if (sent < 0 && sent !== AGAIN) return false;
  const rest = from + Math.max(sent, 0);
  const kept = path.kept.keep(target, rows.cluster[client], rows.slot[client], rest, to, bytes);
  const at = kept === bytes ? rest : 0;
  rows.kept[target] = kept;
  rows.keptFrom[target] = at;
  rows.keptTo[target] = at + to - rest;
  rows.keptAt[target] = io.now();
  return true;
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
