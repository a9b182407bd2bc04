// tunnel: bytes from one side to the other, both ways at once. No byte is lost, doubled or reordered; what one
// side cannot take is kept in one buffer and the other side is not read meanwhile; FIN passes on in each
// direction by itself; a reset passes on after what came before it. An idle tunnel owns no buffer and no timer. A side
// that takes nothing of what waits for it ends the connection after `timeouts.stalled`: the reactor sees to what the
// kernel has, and here it is looked, now and then, at what is kept.

import { type CloseReason, closeReasons } from '../close-reason.ts';
import { AGAIN, FAILED, HUNG_UP, READABLE, TIMED_OUT, WRITABLE } from '../io/reactor.ts';
import {
  ENDED,
  FAILING,
  FIRST_TO_END,
  HANDED_OFF,
  HUNG,
  LASTING,
  LENT,
  LOOKED_AFTER,
  MORE,
  RETURNED,
  SHUT,
  STALLED,
  TUNNEL,
  UNWRITABLE,
} from '../shared/rows.ts';
import { BYTES_IN_AT, BYTES_OUT_AT, HTTP_SLOT } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import { end, endHandedOff, endWithReset, refuse } from './end.ts';

/** Reads of one direction before others get their turn. */
const READS_PER_TURN = 2;
/** A tunnel that lasts gets what short ones can do without: TCP keepalive towards the backend. */
const LASTS_MS = 1000;
/** For a part to pass on what came before a reset. */
const LAST_BYTES_MS = 2000;

/** Joins both sides. `first` goes to the backend, `answer` to the client, each before anything else. */
export function beginTunnel(
  path: DataPath,
  client: number,
  backend: number,
  first: Uint8Array | undefined,
  from: number,
  to: number,
  answer: Uint8Array | undefined,
): void {
  const { rows, io, settings } = path;
  rows.state[client] = TUNNEL;
  rows.state[backend] = TUNNEL;
  rows.activeAt[client] = io.now();
  path.wheel.set(client, rows.activeAt[client] + Math.min(LASTS_MS, settings.idleMs ?? LASTS_MS));
  if (first !== undefined) keep(path, backend, first, from, to);
  if (answer !== undefined) {
    keep(path, client, answer, 0, answer.length);
    countOut(path, client, answer.length);
  }
  if (!flush(path, backend) || !flush(path, client)) return;
  if (rows.kept[backend] !== undefined) lookAfter(path, backend);
  if (rows.kept[client] !== undefined) lookAfter(path, client);
  if ((rows.flags[client] & MORE) !== 0 && !pump(path, client)) return;
  if ((rows.flags[backend] & MORE) !== 0) pump(path, backend);
}

export function tunnelEvent(path: DataPath, handle: number, events: number): void {
  const { rows } = path;
  if ((rows.flags[handle] & LENT) !== 0) return lentEvent(path, handle, events);
  const broken = (events & HUNG_UP) === 0 ? undefined : breakOff(path, handle);
  if (broken !== undefined) return endWithReset(path, handle, broken);
  if ((events & FAILED) !== 0) rows.flags[handle] |= FAILING | MORE;
  if ((events & (READABLE | HUNG_UP)) !== 0) rows.flags[handle] |= MORE;
  if ((events & WRITABLE) !== 0) {
    if (!flush(path, handle)) return;
    if ((rows.flags[rows.peer[handle]] & MORE) !== 0 && !pump(path, rows.peer[handle])) return;
  }
  if ((rows.flags[handle] & MORE) === 0) return;
  if (!pump(path, handle) || (events & FAILED) === 0) return;
  // What waits for it goes nowhere. And a side that failed while the other is stalled does not wait for it forever.
  if (rows.kept[handle] === undefined || lost(path, handle)) limitHalfClosed(path, clientOf(path, handle));
}

/** Its turn has come again. */
export function continueTunnel(path: DataPath, handle: number): void {
  pump(path, handle);
}

/**
 * Of a client: `idle` or `halfClosed` may have run out. Of a backend: `stalled` may have, for either side. The deadlines are
 * only looked at here, not moved with every byte.
 */
export function tunnelTimer(path: DataPath, handle: number): void {
  if (path.rows.slot[handle] === 0) stallTimer(path, handle);
  else idleTimer(path, handle);
}

function idleTimer(path: DataPath, client: number): void {
  const { rows, wheel, io, settings } = path;
  if ((rows.flags[client] & LENT) !== 0) return lentTimer(path, client);
  if ((rows.flags[client] & LASTING) === 0) {
    rows.flags[client] |= LASTING;
    io.keepAlive(rows.peer[client]);
  }
  const halfClosed = ((rows.flags[client] | rows.flags[rows.peer[client]]) & (ENDED | FAILING)) !== 0;
  const limit = halfClosed ? smaller(settings.halfClosedMs, settings.idleMs) : settings.idleMs;
  if (limit === undefined) return;
  const deadline = rows.activeAt[client] + limit;
  if (deadline > io.now()) return wheel.set(client, deadline);
  if (!halfClosed || limit === settings.idleMs) end(path, client, 'idle-timeout');
  else end(path, client, 'half-closed-timeout');
}

function stallTimer(path: DataPath, backend: number): void {
  const { rows, io, settings } = path;
  rows.flags[backend] &= ~LOOKED_AFTER;
  const { stalledMs } = settings;
  if (stalledMs === undefined) return;
  const client = rows.peer[backend];
  const since = Math.min(keptSince(path, client), keptSince(path, backend));
  if (since + stalledMs <= io.now()) endWithReset(path, client, 'idle-timeout');
  else if (since < Infinity) comeBackAt(path, backend, since + stalledMs);
}

/** Infinity when nothing is kept for it. */
function keptSince({ rows }: DataPath, handle: number): number {
  return rows.kept[handle] === undefined ? Infinity : rows.keptAt[handle];
}

/** Something is kept for that side from now on. Both sides share the wheel's place of the backend, which needs none else. */
function lookAfter(path: DataPath, handle: number): void {
  const { rows, io, settings } = path;
  rows.keptAt[handle] = io.now();
  const backend = rows.slot[handle] === 0 ? handle : rows.peer[handle];
  if (settings.stalledMs === undefined || (rows.flags[backend] & LOOKED_AFTER) !== 0) return;
  comeBackAt(path, backend, io.now() + settings.stalledMs);
}

function comeBackAt({ rows, wheel }: DataPath, backend: number, time: number): void {
  rows.flags[backend] |= LOOKED_AFTER;
  wheel.set(backend, time);
}

/** A client that its part serves by itself was reset. The part reads that too, behind what came before; if it reads. */
function lentEvent({ rows, wheel, io }: DataPath, client: number, events: number): void {
  if ((events & FAILED) === 0 || (rows.flags[client] & FAILING) !== 0) return;
  rows.flags[client] |= FAILING;
  wheel.set(client, io.now() + LAST_BYTES_MS);
}

/** Its idle time is the part's to know, which sees the bytes. */
function lentTimer(path: DataPath, client: number): void {
  if ((path.rows.flags[client] & FAILING) !== 0) endWithReset(path, client, 'client-reset');
}

/** Takes the backend away from a client that is about to be refused. */
export function hangUpBackend(path: DataPath, client: number): void {
  const backend = path.rows.peer[client];
  if (backend < 0) return;
  path.rows.peer[client] = -1;
  path.release(backend);
  path.io.close(backend);
}

function smaller(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a;
}

/** Moves what `source` has to its peer. False when the connection has ended. */
function pump(path: DataPath, source: number): boolean {
  const { rows, io } = path;
  const target = rows.peer[source];
  for (let reads = 0; reads < READS_PER_TURN; reads++) {
    if (rows.kept[target] !== undefined) {
      // Backpressure: what waits for the target comes first. Its WRITABLE brings us back.
      rows.flags[source] |= MORE;
      return true;
    }
    if ((rows.flags[source] & ENDED) !== 0) return true;
    const space = path.kept.readSpace(rows.cluster[clientOf(path, source)]);
    const count = io.read(source, path.kept.buffer, 0, space);
    if (count === AGAIN) {
      rows.flags[source] &= ~MORE;
      return true;
    }
    if (count === 0) {
      const isReset = (rows.flags[source] & UNWRITABLE) !== 0 || breakOff(path, source) !== undefined;
      return isReset ? passReset(path, source) : ended(path, source);
    }
    if (count < 0) {
      if (count === TIMED_OUT) rows.flags[source] |= STALLED;
      return passReset(path, source);
    }
    moved(path, source, count);
    if (!send(path, target, count)) return false;
    if (count < space && (rows.flags[source] & (HUNG | FAILING)) === 0) {
      rows.flags[source] &= ~MORE;
      return true;
    }
  }
  rows.flags[source] |= MORE;
  path.comeBack(source);
  return true;
}

/** Counts by the client's side of the tunnel: its slot is set, the backend's is not. */
function moved(path: DataPath, source: number, count: number): void {
  const { rows } = path;
  const isClient = rows.slot[source] !== 0;
  const client = isClient ? source : rows.peer[source];
  rows.activeAt[client] = path.io.now();
  if (isClient) {
    rows.bytesIn[client] += count;
    path.shared.counters.add(rows.slot[client], BYTES_IN_AT, count);
  } else {
    countOut(path, client, count);
  }
}

function countOut(path: DataPath, client: number, count: number): void {
  path.rows.bytesOut[client] += count;
  path.shared.counters.add(path.rows.slot[client], BYTES_OUT_AT, count);
}

/** Writes the first `count` bytes of the shared buffer; what is not taken is kept. False when it has ended. */
function send(path: DataPath, target: number, count: number): boolean {
  const { rows, io } = path;
  if ((rows.flags[target] & FAILING) !== 0) return lost(path, target);
  const sent = io.write(target, path.kept.buffer, 0, count);
  if (sent === count) return true;
  if (sent < 0 && sent !== AGAIN) return targetFailed(path, target, sent);
  const from = Math.max(sent, 0);
  const client = clientOf(path, target);
  const kept = path.kept.keep(target, rows.cluster[client], rows.slot[client], from, count);
  const at = kept.length === count - from ? 0 : from;
  keep(path, target, kept, at, at + count - from);
  lookAfter(path, target);
  return true;
}

function keep(path: DataPath, target: number, bytes: Uint8Array, from: number, to: number): void {
  path.rows.kept[target] = bytes;
  path.rows.keptFrom[target] = from;
  path.rows.keptTo[target] = to;
}

/** Writes what is kept for `target`. False when the connection has ended. */
function flush(path: DataPath, target: number): boolean {
  const { rows, io } = path;
  const bytes = rows.kept[target];
  if (bytes === undefined) return true;
  const sent = io.write(target, bytes, rows.keptFrom[target], rows.keptTo[target]);
  if (sent === AGAIN) return true;
  if (sent < 0) {
    rows.kept[target] = undefined;
    path.giveBack(target, bytes);
    return targetFailed(path, target, sent);
  }
  rows.keptFrom[target] += sent;
  rows.keptAt[target] = io.now();
  if (rows.keptFrom[target] < rows.keptTo[target]) return true;
  rows.kept[target] = undefined;
  path.giveBack(target, bytes);
  if ((rows.flags[target] & SHUT) === 0) return true;
  if (isEndOfHandOff(path, target)) return false;
  io.shutdown(target);
  return !isThrough(path, target);
}

/** FIN from `source`: passed on behind what is still kept for its peer. False when both sides are through. */
function ended(path: DataPath, source: number): boolean {
  const { rows, io } = path;
  const target = rows.peer[source];
  if (isTurnedAway(path, source)) return false;
  rows.flags[source] = (rows.flags[source] & ~MORE) | ENDED;
  if ((rows.flags[target] & ENDED) === 0) rows.flags[source] |= FIRST_TO_END;
  rows.flags[target] |= SHUT;
  // The end of both sides is closed without a shutdown of its own.
  if (isThrough(path, source)) return false;
  if (rows.kept[target] === undefined) {
    if (isEndOfHandOff(path, target)) return false;
    io.shutdown(target);
  }
  limitHalfClosed(path, clientOf(path, source));
  return true;
}

/**
 * The part that it was handed to has closed, and what it said is with the client: over, and ended here. In a tunnel, and
 * on an upgraded HTTP connection, where that is announced, FIN is no more than FIN. In the middle of a request, and
 * where the part has the client's descriptor, it means that the HTTP thread is gone.
 */
function isEndOfHandOff(path: DataPath, client: number): boolean {
  const { rows, shared } = path;
  if ((rows.flags[client] & HANDED_OFF) === 0) return false;
  const isLent = (rows.flags[client] & LENT) !== 0;
  if (shared.verdicts.reason(client) >= 0) endHandedOff(path, client);
  else if (!isLent && (rows.slot[client] !== HTTP_SLOT || shared.verdicts.isEnding(client))) return false;
  else endWithReset(path, client, 'shutdown');
  return true;
}

/** Why an HTTP/2 stream was broken off, by its client or by a fault: the HTTP part has said so, and then closed. */
function breakOff(path: DataPath, handle: number): CloseReason | undefined {
  if ((path.rows.flags[handle] & RETURNED) === 0) return undefined;
  const reason = path.shared.verdicts.reason(handle);
  return reason < 0 ? undefined : closeReasons[reason];
}

/** The part closed before it had so much as looked at what it was handed: it has no descriptors left. Refused here, then. */
function isTurnedAway(path: DataPath, part: number): boolean {
  const client = path.rows.peer[part];
  if ((path.rows.flags[client] & HANDED_OFF) === 0 || path.shared.verdicts.isTaken(client)) return false;
  refuse(path, client, 'over-limit');
  return true;
}

function isWithTlsThread({ rows }: DataPath, client: number): boolean {
  return (rows.flags[client] & HANDED_OFF) !== 0 && rows.slot[client] !== HTTP_SLOT;
}

/** Both sides sent FIN and everything is written: done, and ended here. */
function isThrough(path: DataPath, handle: number): boolean {
  const { rows } = path;
  const peer = rows.peer[handle];
  if ((rows.flags[handle] & rows.flags[peer] & ENDED) === 0) return false;
  if (rows.kept[handle] !== undefined || rows.kept[peer] !== undefined) return false;
  const client = clientOf(path, handle);
  if (!isEndOfHandOff(path, client)) end(path, client, 'done');
  return true;
}

function limitHalfClosed(path: DataPath, client: number): void {
  const { rows, io, settings } = path;
  const limit = smaller(settings.halfClosedMs, settings.idleMs);
  if (limit === undefined) return;
  rows.activeAt[client] = io.now();
  path.wheel.set(client, rows.activeAt[client] + limit);
}

/** A write found the target gone. What it sent before is read first; reading then tells the rest. */
function targetFailed(path: DataPath, target: number, error: number): boolean {
  path.rows.flags[target] |= FAILING | MORE | UNWRITABLE | (error === TIMED_OUT ? STALLED : 0);
  return (path.rows.flags[target] & ENDED) === 0 ? pump(path, target) : lost(path, target);
}

/**
 * Bytes for a side that failed go nowhere. While there is still something to pass on from it, that comes first; but
 * one that had sent FIN before is gone for good, and who goes on sending to it gets the reset.
 */
function lost(path: DataPath, target: number): boolean {
  const { rows } = path;
  if ((rows.flags[target] & ENDED) === 0 || rows.kept[rows.peer[target]] !== undefined) return true;
  return passReset(path, target);
}

/** `source` was reset and all it sent is read: its peer gets the reset once it took what was kept for it. */
function passReset(path: DataPath, source: number): boolean {
  const client = clientOf(path, source);
  if ((path.rows.flags[source] & STALLED) !== 0) {
    endWithReset(path, client, 'idle-timeout');
    return false;
  }
  if (isTurnedAway(path, source)) return false;
  // A unix socket that is closed before all was read from it looks like a reset.
  if (client !== source && (path.rows.flags[client] & HANDED_OFF) !== 0) {
    const isNew = (path.rows.flags[source] & ENDED) === 0;
    const hasVerdict = path.shared.verdicts.reason(client) >= 0;
    if (hasVerdict || (isNew && path.rows.slot[client] === HTTP_SLOT)) return ended(path, source);
  }
  // The TLS part says why before it closes: without a word its thread has died.
  if (client !== source && isWithTlsThread(path, client)) end(path, client, 'shutdown');
  else if (client === source) endWithReset(path, client, breakOff(path, client) ?? 'client-reset');
  else endWithReset(path, client, 'backend-reset');
  return false;
}

function clientOf(path: DataPath, handle: number): number {
  return path.rows.slot[handle] !== 0 ? handle : path.rows.peer[handle];
}
