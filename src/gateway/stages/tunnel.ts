// tunnel: moves bytes between both sides, in both directions at once. No byte is lost, duplicated or reordered. Bytes
// that one side cannot take are kept in one buffer, and the other side is not read meanwhile. FIN passes on per
// direction; a reset passes on after the bytes before it. An idle tunnel owns no buffer. A side that takes none of the
// bytes waiting for it ends the connection after `timeouts.stalled`: the reactor watches the kernel's buffers, this
// stage the kept ones.

import { type CloseReason, closeReasons } from '../close-reason.ts';
import { AGAIN, FAILED, HUNG_UP, READABLE, TIMED_OUT, WRITABLE } from '../io/reactor.ts';
import {
  BACKEND_SIDE,
  CLIENT_SIDE,
  ENDED,
  FAILING,
  FIRST_TO_END,
  HANDED_OFF,
  HUNG,
  LASTING,
  LENT,
  MORE,
  RETURNED,
  SHUT,
  STALL_TIMER,
  STALLED,
  TUNNEL,
  UNWRITABLE,
} from '../shared/rows.ts';
import { BYTES_IN_AT, BYTES_OUT_AT, HTTP_SLOT } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import { end, endHandedOff, endWithReset, refuse } from './end.ts';

/** Reads per direction before other handles get their turn. */
const READS_PER_TURN = 2;
/** A tunnel that lasts this long gets TCP keepalive towards the backend; short ones save the system call. */
const LASTS_MS = 1000;
/** Time for the HTTP thread to pass on the bytes before a reset. */
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
  if (rows.kept[backend] !== undefined) watchForStall(path, backend);
  if (rows.kept[client] !== undefined) watchForStall(path, client);
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
  // Bytes waiting for the failed side are undeliverable. If the other side is stalled, bound how long it may take.
  if (rows.kept[handle] === undefined || undeliverable(path, handle))
    limitHalfClosed(path, clientOf(path, handle));
}

/** Resumes after other handles had their turn. */
export function continueTunnel(path: DataPath, handle: number): void {
  pump(path, handle);
}

/**
 * On a client's handle, `idle` or `halfClosed` may have expired; on a backend's, `stalled`, for either side. Deadlines
 * are checked only here, not moved with every byte.
 */
export function tunnelTimer(path: DataPath, handle: number): void {
  if (path.rows.side[handle] === BACKEND_SIDE) stallTimer(path, handle);
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
  rows.flags[backend] &= ~STALL_TIMER;
  const { stalledMs } = settings;
  if (stalledMs === undefined) return;
  const client = rows.peer[backend];
  const since = Math.min(keptSince(path, client), keptSince(path, backend));
  if (since + stalledMs <= io.now()) endWithReset(path, client, 'idle-timeout');
  else if (since < Infinity) setStallTimer(path, backend, since + stalledMs);
}

/** Infinity when nothing is kept for it. */
function keptSince({ rows }: DataPath, handle: number): number {
  return rows.kept[handle] === undefined ? Infinity : rows.keptAt[handle];
}

/** Bytes are kept for that side from now on. Both sides share the backend's timer, which has no other use here. */
function watchForStall(path: DataPath, handle: number): void {
  const { rows, io, settings } = path;
  rows.keptAt[handle] = io.now();
  const backend = rows.side[handle] === BACKEND_SIDE ? handle : rows.peer[handle];
  if (settings.stalledMs === undefined || (rows.flags[backend] & STALL_TIMER) !== 0) return;
  setStallTimer(path, backend, io.now() + settings.stalledMs);
}

function setStallTimer({ rows, wheel }: DataPath, backend: number, time: number): void {
  rows.flags[backend] |= STALL_TIMER;
  wheel.set(backend, time);
}

/**
 * A lent client was reset. The HTTP thread reads that too, after the bytes before it, unless it has stopped reading.
 */
function lentEvent({ rows, wheel, io }: DataPath, client: number, events: number): void {
  if ((events & FAILED) === 0 || (rows.flags[client] & FAILING) !== 0) return;
  rows.flags[client] |= FAILING;
  wheel.set(client, io.now() + LAST_BYTES_MS);
}

/** The HTTP thread watches the idle time of lent clients, since only it sees the bytes. */
function lentTimer(path: DataPath, client: number): void {
  if ((path.rows.flags[client] & FAILING) !== 0) endWithReset(path, client, 'client-reset');
}

function smaller(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a;
}

/** Moves bytes from `source` to its peer. False when the connection has ended. */
function pump(path: DataPath, source: number): boolean {
  const { rows, io } = path;
  const target = rows.peer[source];
  for (let reads = 0; reads < READS_PER_TURN; reads++) {
    if (rows.kept[target] !== undefined) {
      // Backpressure: bytes kept for the target go first. Its WRITABLE event resumes this.
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
  path.resumeLater(source);
  return true;
}

/** Counts in the client's row. */
function moved(path: DataPath, source: number, count: number): void {
  const { rows } = path;
  const isClient = rows.side[source] === CLIENT_SIDE;
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

/** Writes the first `count` bytes of the shared buffer and keeps the rest. False when the connection has ended. */
function send(path: DataPath, target: number, count: number): boolean {
  const { rows, io } = path;
  if ((rows.flags[target] & FAILING) !== 0) return undeliverable(path, target);
  const sent = io.write(target, path.kept.buffer, 0, count);
  if (sent === count) return true;
  if (sent < 0 && sent !== AGAIN) return targetFailed(path, target, sent);
  const from = Math.max(sent, 0);
  const client = clientOf(path, target);
  const kept = path.kept.keep(target, rows.cluster[client], rows.slot[client], from, count);
  const at = kept.length === count - from ? 0 : from;
  keep(path, target, kept, at, at + count - from);
  watchForStall(path, target);
  return true;
}

function keep(path: DataPath, target: number, bytes: Uint8Array, from: number, to: number): void {
  path.rows.kept[target] = bytes;
  path.rows.keptFrom[target] = from;
  path.rows.keptTo[target] = to;
}

/** Writes the bytes kept for `target`. False when the connection has ended. */
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
  if (endIfThreadClosed(path, target)) return false;
  io.shutdown(target);
  return !endIfDone(path, target);
}

/** FIN from `source`: passed on after the bytes kept for its peer. False when the connection has ended. */
function ended(path: DataPath, source: number): boolean {
  const { rows, io } = path;
  const target = rows.peer[source];
  if (refuseIfNotTaken(path, source)) return false;
  rows.flags[source] = (rows.flags[source] & ~MORE) | ENDED;
  if ((rows.flags[target] & ENDED) === 0) rows.flags[source] |= FIRST_TO_END;
  rows.flags[target] |= SHUT;
  // When both sides have ended, the close makes a separate shutdown unnecessary.
  if (endIfDone(path, source)) return false;
  if (rows.kept[target] === undefined) {
    if (endIfThreadClosed(path, target)) return false;
    io.shutdown(target);
  }
  limitHalfClosed(path, clientOf(path, source));
  return true;
}

/**
 * Ends a handed-off connection that its protocol thread has closed, once all the thread's bytes are with the client. In
 * a tunnel, and on an upgraded HTTP connection (announced by `isEnding`), a FIN is only a FIN. In the middle of a
 * request, and where the thread has the client's descriptor, a FIN without a verdict means that the HTTP thread has
 * died.
 */
function endIfThreadClosed(path: DataPath, client: number): boolean {
  const { rows, shared } = path;
  if ((rows.flags[client] & HANDED_OFF) === 0) return false;
  const isLent = (rows.flags[client] & LENT) !== 0;
  if (shared.verdicts.reason(client) >= 0) endHandedOff(path, client);
  else if (!isLent && (rows.slot[client] !== HTTP_SLOT || shared.verdicts.isEnding(client))) return false;
  else endWithReset(path, client, 'shutdown');
  return true;
}

/**
 * Why an HTTP/2 stream was broken off, by its client or a fault: the HTTP thread records a verdict before it closes.
 */
function breakOff(path: DataPath, handle: number): CloseReason | undefined {
  if ((path.rows.flags[handle] & RETURNED) === 0) return undefined;
  const reason = path.shared.verdicts.reason(handle);
  return reason < 0 ? undefined : closeReasons[reason];
}

/** The thread closed before it read the hand-off: it has no descriptors left. Refuses the client here. */
function refuseIfNotTaken(path: DataPath, link: number): boolean {
  const client = path.rows.peer[link];
  if ((path.rows.flags[client] & HANDED_OFF) === 0 || path.shared.verdicts.isTaken(client)) return false;
  refuse(path, client, 'over-limit');
  return true;
}

function isWithTlsThread({ rows }: DataPath, client: number): boolean {
  return (rows.flags[client] & HANDED_OFF) !== 0 && rows.slot[client] !== HTTP_SLOT;
}

/** Both sides sent FIN and all bytes are written: ends the connection with `done`. */
function endIfDone(path: DataPath, handle: number): boolean {
  const { rows } = path;
  const peer = rows.peer[handle];
  if ((rows.flags[handle] & rows.flags[peer] & ENDED) === 0) return false;
  if (rows.kept[handle] !== undefined || rows.kept[peer] !== undefined) return false;
  const client = clientOf(path, handle);
  if (!endIfThreadClosed(path, client)) end(path, client, 'done');
  return true;
}

function limitHalfClosed(path: DataPath, client: number): void {
  const { rows, io, settings } = path;
  const limit = smaller(settings.halfClosedMs, settings.idleMs);
  if (limit === undefined) return;
  rows.activeAt[client] = io.now();
  path.wheel.set(client, rows.activeAt[client] + limit);
}

/** A write failed. Bytes that the target sent before are read first; the read then reports the error. */
function targetFailed(path: DataPath, target: number, error: number): boolean {
  path.rows.flags[target] |= FAILING | MORE | UNWRITABLE | (error === TIMED_OUT ? STALLED : 0);
  return (path.rows.flags[target] & ENDED) === 0 ? pump(path, target) : undeliverable(path, target);
}

/**
 * Bytes for a failed side have nowhere to go. Bytes still to be passed on from it come first; but if it had already
 * sent FIN, it is gone for good, and the peer that keeps sending to it is reset. False when the connection has ended.
 */
function undeliverable(path: DataPath, target: number): boolean {
  const { rows } = path;
  if ((rows.flags[target] & ENDED) === 0 || rows.kept[rows.peer[target]] !== undefined) return true;
  return passReset(path, target);
}

/**
 * `source` was reset and all its bytes are read: resets its peer, except where the reset stands for an ordinary end.
 */
function passReset(path: DataPath, source: number): boolean {
  const client = clientOf(path, source);
  if ((path.rows.flags[source] & STALLED) !== 0) {
    endWithReset(path, client, 'idle-timeout');
    return false;
  }
  if (refuseIfNotTaken(path, source)) return false;
  // Closing a unix socket with unread bytes looks like a reset to the other end.
  if (client !== source && (path.rows.flags[client] & HANDED_OFF) !== 0) {
    const isNew = (path.rows.flags[source] & ENDED) === 0;
    const hasVerdict = path.shared.verdicts.reason(client) >= 0;
    if (hasVerdict || (isNew && path.rows.slot[client] === HTTP_SLOT)) return ended(path, source);
  }
  // The TLS thread records a verdict before it closes: without one, the thread has died.
  if (client !== source && isWithTlsThread(path, client)) end(path, client, 'shutdown');
  else if (client === source) endWithReset(path, client, breakOff(path, client) ?? 'client-reset');
  else endWithReset(path, client, 'backend-reset');
  return false;
}

function clientOf(path: DataPath, handle: number): number {
  return path.rows.side[handle] === CLIENT_SIDE ? handle : path.rows.peer[handle];
}
