// The deadlines of an HTTP exchange: `idle`, `halfClosed` and `stalled`, and TCP keepalive once it has lasted.

import { ENDED, LASTING, type Rows } from '../shared/rows.ts';
import type { DataPath } from './data-path.ts';
import { end, endWithReset, refuse } from './end.ts';
import type { ExchangeState } from './exchange-state.ts';

/** An exchange that lasts this long gets TCP keepalive towards the backend. */
export const LASTS_MS = 1000;
/** An idle connection is kept this long for another request, or `timeouts.idle` where that is shorter. */
const KEEP_ALIVE_MS = 75_000;

export function keepAliveMs({ settings }: DataPath): number {
  return Math.min(KEEP_ALIVE_MS, settings.idleMs ?? KEEP_ALIVE_MS);
}

/** `idle`, `halfClosed` or `stalled` may have expired. Deadlines are checked only here, not moved with every byte. */
export function exchangeTimer(path: DataPath, client: number): void {
  const { rows, io, settings } = path;
  const exchange = path.exchanges[client];
  if (exchange === undefined) return;
  const backend = rows.peer[client];
  if ((rows.flags[client] & LASTING) === 0) {
    rows.flags[client] |= LASTING;
    if (backend >= 0) io.keepAlive(backend);
  }
  const now = io.now();
  if (stalledSince(path, client, exchange) + (settings.stalledMs ?? Infinity) <= now)
    return endStalled(path, client, exchange);
  const isHalfClosed = rows.input[client] >= ENDED;
  const idle = rows.activeAt[client] + (settings.idleMs ?? Infinity);
  const halfClosed = isHalfClosed ? rows.activeAt[client] + (settings.halfClosedMs ?? Infinity) : Infinity;
  if (Math.min(idle, halfClosed) > now) return watch(path, client, exchange);
  end(path, client, halfClosed < idle ? 'half-closed-timeout' : 'idle-timeout');
}

/** Sets the timer for the earliest of the deadlines that apply now. */
export function watch(path: DataPath, client: number, exchange: ExchangeState): void {
  const { rows, wheel, io, settings } = path;
  if ((rows.flags[client] & LASTING) === 0) return wheel.set(client, io.now() + LASTS_MS);
  const isHalfClosed = rows.input[client] >= ENDED;
  const deadline = Math.min(
    stalledSince(path, client, exchange) + (settings.stalledMs ?? Infinity),
    rows.activeAt[client] + (settings.idleMs ?? Infinity),
    isHalfClosed ? rows.activeAt[client] + (settings.halfClosedMs ?? Infinity) : Infinity,
  );
  if (deadline < Infinity) wheel.set(client, deadline);
}

/** Since when bytes wait to be taken, or the rest of the request does not come; Infinity if neither. */
function stalledSince({ rows }: DataPath, client: number, exchange: ExchangeState): number {
  const since = Math.min(keptSince(rows, client), keptSince(rows, rows.peer[client]));
  const isAwaited = !exchange.isWhole && !exchange.isUnwanted && since === Infinity;
  return isAwaited ? rows.activeAt[client] : since;
}

function keptSince({ kept, keptAt }: Rows, handle: number): number {
  return handle < 0 || kept[handle] === undefined ? Infinity : keptAt[handle];
}

/** A client that stopped in the middle of its request gets a refusal; others are cut off. */
function endStalled(path: DataPath, client: number, exchange: ExchangeState): void {
  const { rows } = path;
  const isRequestStalled =
    !exchange.isWhole && !exchange.isStarted && rows.kept[rows.peer[client]] === undefined;
  if (isRequestStalled) refuse(path, client, 'idle-timeout');
  else endWithReset(path, client, 'idle-timeout');
}
