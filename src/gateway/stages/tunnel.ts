// tunnel: moves bytes between both sides, in both directions at once. No byte is lost, duplicated or reordered. Bytes
// that one side cannot take are kept in one buffer, and the other side is not read meanwhile. FIN passes on per
// direction; a reset passes on after the bytes before it. An idle tunnel owns no buffer. A side that takes none of the
// bytes waiting for it ends the connection after `timeouts.stalled`: the reactor watches the kernel's buffers, this
// stage the kept ones.

import { AGAIN, FAILED, HUNG_UP, READABLE, TIMED_OUT, WRITABLE } from '../io/reactor.ts';
import {
  BACKEND_SIDE,
  CLIENT_SIDE,
  ENDED,
  ENDED_FIRST,
  FAILING,
  LASTING,
  MORE,
  OPEN,
  SHUT,
  SOUND,
  STALL_TIMER,
  STALLED,
  TUNNEL,
  UNWRITABLE,
} from '../shared/rows.ts';
import { BYTES_IN_AT, BYTES_OUT_AT } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import { end, endWithReset } from './end.ts';
import { flushKept, keep, sendBytes } from './kept-bytes.ts';

/** Reads per direction before other handles get their turn. */
const READS_PER_TURN = 2;
/** A tunnel that lasts this long gets TCP keepalive towards the backend; short ones save the system call. */
const LASTS_MS = 1000;

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
  if ((events & FAILED) !== 0) {
    if (rows.failure[handle] === SOUND) rows.failure[handle] = FAILING;
    rows.flags[handle] |= MORE;
  }
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
  if ((rows.flags[client] & LASTING) === 0) {
    rows.flags[client] |= LASTING;
    io.keepAlive(rows.peer[client]);
  }
  const halfClosed = [client, rows.peer[client]].some(
    side => rows.input[side] >= ENDED || rows.failure[side] !== SOUND,
  );
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
  const backend = rows.side[handle] === BACKEND_SIDE ? handle : rows.peer[handle];
  if (settings.stalledMs === undefined || (rows.flags[backend] & STALL_TIMER) !== 0) return;
  setStallTimer(path, backend, io.now() + settings.stalledMs);
}

function setStallTimer({ rows, wheel }: DataPath, backend: number, time: number): void {
  rows.flags[backend] |= STALL_TIMER;
  wheel.set(backend, time);
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
    if (rows.input[source] >= ENDED) return true;
    const space = Math.min(path.kept.readSpace(rows.cluster[clientOf(path, source)]), io.readSize);
    const count = io.read(source, path.kept.buffer, 0, space);
    if (count === AGAIN) {
      rows.flags[source] &= ~MORE;
      return true;
    }
    if (count === 0) {
      return rows.failure[source] >= UNWRITABLE ? passReset(path, source) : ended(path, source);
    }
    if (count < 0) {
      if (count === TIMED_OUT) rows.failure[source] = STALLED;
      return passReset(path, source);
    }
    moved(path, source, count);
    if (!send(path, target, count)) return false;
    if (count < space && rows.input[source] === OPEN && rows.failure[source] === SOUND) {
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
  const { rows } = path;
  if (rows.failure[target] !== SOUND) return undeliverable(path, target);
  const error = sendBytes(path, target, clientOf(path, target), path.kept.buffer, 0, count);
  if (error < 0) return targetFailed(path, target, error);
  if (rows.kept[target] !== undefined) watchForStall(path, target);
  return true;
}

/** Writes the bytes kept for `target`. False when the connection has ended. */
function flush(path: DataPath, target: number): boolean {
  const { rows, io } = path;
  if (rows.kept[target] === undefined) return true;
  const error = flushKept(path, target);
  if (error < 0) return targetFailed(path, target, error);
  if (rows.kept[target] !== undefined || (rows.flags[target] & SHUT) === 0) return true;
  io.shutdown(target);
  return !endIfDone(path, target);
}

/** FIN from `source`: passed on after the bytes kept for its peer. False when the connection has ended. */
function ended(path: DataPath, source: number): boolean {
  const { rows, io } = path;
  const target = rows.peer[source];
  rows.flags[source] &= ~MORE;
  rows.input[source] = rows.input[target] >= ENDED ? ENDED : ENDED_FIRST;
  rows.flags[target] |= SHUT;
  // When both sides have ended, the close makes a separate shutdown unnecessary.
  if (endIfDone(path, source)) return false;
  if (rows.kept[target] === undefined) io.shutdown(target);
  limitHalfClosed(path, clientOf(path, source));
  return true;
}

/** Both sides sent FIN and all bytes are written: ends the connection with `done`. */
function endIfDone(path: DataPath, handle: number): boolean {
  const { rows } = path;
  const peer = rows.peer[handle];
  if (rows.input[handle] < ENDED || rows.input[peer] < ENDED) return false;
  if (rows.kept[handle] !== undefined || rows.kept[peer] !== undefined) return false;
  end(path, clientOf(path, handle), 'done');
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
  const { rows } = path;
  rows.flags[target] |= MORE;
  if (error === TIMED_OUT) rows.failure[target] = STALLED;
  else if (rows.failure[target] < UNWRITABLE) rows.failure[target] = UNWRITABLE;
  return rows.input[target] < ENDED ? pump(path, target) : undeliverable(path, target);
}

/**
 * Bytes for a failed side have nowhere to go. Bytes still to be passed on from it come first; but if it had already
 * sent FIN, it is gone for good, and the peer that keeps sending to it is reset. False when the connection has ended.
 */
function undeliverable(path: DataPath, target: number): boolean {
  const { rows } = path;
  if (rows.input[target] < ENDED || rows.kept[rows.peer[target]] !== undefined) return true;
  return passReset(path, target);
}

/**
 * `source` was reset and all its bytes are read: resets its peer, except where the reset stands for an ordinary end.
 */
function passReset(path: DataPath, source: number): boolean {
  const client = clientOf(path, source);
  if (path.rows.failure[source] === STALLED) {
    endWithReset(path, client, 'idle-timeout');
    return false;
  }
  endWithReset(path, client, client === source ? 'client-reset' : 'backend-reset');
  return false;
}

function clientOf(path: DataPath, handle: number): number {
  return path.rows.side[handle] === CLIENT_SIDE ? handle : path.rows.peer[handle];
}
