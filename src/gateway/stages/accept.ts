// accept: the first stage. Takes waiting connections from a listener, within the gateway's limits.

import { EXHAUSTED } from '../io/reactor.ts';
import {
  ALIVE,
  BALANCED,
  CLIENT,
  CLIENT_SIDE,
  CLOSING,
  IDENTIFYING,
  LISTENER,
  OPENED,
  PEER,
  PENDING,
  WITHIN_H2,
} from '../shared/rows.ts';
import { TOTAL_CONNECTIONS, TOTAL_PENDING } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import { end, endWithReset } from './end.ts';
import { dialDirect, identify, knowClient, knowTunnelled } from './identify.ts';
import { makeRoom } from './keep-backend.ts';

/** Connections accepted at a time before other handles get their turn. */
const BATCH = 64;
/** Out of descriptors: retry after this pause, when other connections may have closed. */
const EXHAUSTED_MS = 100;
/** Longer than a round trip to most places, so that handshakes under way can complete. */
const CLOSING_MS = 100;
/** Between the two looks that find nothing before a listener closes. */
const LAST_LOOK_MS = 5;
/** A closing listener of `net` cannot refuse new connections: clients that keep connecting must not keep it open. */
const CLOSING_MAX_MS = 5000;
/** The longest backlog a listener can have. */
const BACKLOG = 4096;

export function acceptAll(path: DataPath, listener: number): void {
  if (acceptSome(path, listener, BATCH)) path.resumeLater(listener);
}

/**
 * Closes a listener that others have open too: they accept the rest. What this worker has in hand already is served.
 */
export function leaveListener(path: DataPath, listener: number): void {
  if (path.rows.state[listener] === LISTENER) acceptSome(path, listener, BACKLOG);
  close(path, listener);
}

/**
 * Closes the listener when it has accepted nothing for CLOSING_MS: handshakes under way complete, and connections in the
 * kernel's backlog are served. Node accepts one of them per turn of its loop, which on a busy machine takes longer.
 * A listener that never served (its config was refused) closes at once: it has no settings to serve with.
 */
export function closeListener(path: DataPath, listener: number): void {
  if (path.rows.state[listener] === OPENED) return close(path, listener);
  path.io.quiesce(listener);
  const now = path.io.now();
  path.rows.state[listener] = CLOSING;
  path.closing.set(listener, false);
  path.rows.startedAt[listener] = now;
  path.rows.activeAt[listener] = now;
  path.wheel.set(listener, now + CLOSING_MS);
}

export function listenerTimer(path: DataPath, listener: number): void {
  if (path.rows.state[listener] !== CLOSING) return acceptAll(path, listener);
  const { rows, io, wheel } = path;
  try {
    acceptSome(path, listener, BACKLOG);
  } finally {
    const now = io.now();
    const quietAt = Math.min(rows.activeAt[listener] + CLOSING_MS, rows.startedAt[listener] + CLOSING_MAX_MS);
    const isQuiet = now >= quietAt;
    // Two looks: this thread may not have run for a while, and Node looks at timers first. Between two of them it looks
    // at its sockets.
    if (isQuiet && path.closing.get(listener) === true) {
      close(path, listener);
    } else {
      path.closing.set(listener, isQuiet);
      wheel.set(listener, isQuiet ? now + LAST_LOOK_MS : quietAt);
    }
  }
}

/** Our own code threw while accepting. That is no connection's fault, and the listener must keep accepting. */
export function retryListener(path: DataPath, listener: number): void {
  path.wheel.set(listener, path.io.now() + EXHAUSTED_MS);
}

function close(path: DataPath, listener: number): void {
  path.release(listener);
  path.io.close(listener);
  if (path.closing.delete(listener) && path.closing.size === 0) path.listenersClosed();
}

/** True when more connections may be waiting. */
function acceptSome(path: DataPath, listener: number, most: number): boolean {
  for (let count = 0; count < most; count++) {
    const handle = path.io.accept(listener);
    if (handle === EXHAUSTED && makeRoom(path)) continue;
    const isClosing = path.rows.state[listener] === CLOSING;
    // A closing listener has a deadline already, which clients must not postpone.
    if (handle === EXHAUSTED && !isClosing) path.wheel.set(listener, path.io.now() + EXHAUSTED_MS);
    if (handle < 0) return false;
    if (isClosing) path.rows.activeAt[listener] = path.io.now();
    try {
      begin(path, listener, handle);
    } catch (error) {
      path.contain(error, handle, -1);
    }
  }
  return true;
}

function begin(path: DataPath, listener: number, handle: number): void {
  const { rows, io } = path;
  count(path, handle);
  rows.clearAddresses(handle);
  rows.listener[handle] = rows.listener[listener];
  const port = io.peerAddress(handle, rows.addresses, rows.addressAt(handle, PEER));
  rows.setPort(handle, PEER, Math.max(port, 0));
  rows.copyAddress(handle, PEER, CLIENT);
  if (port < 0) return end(path, handle, 'no-data');
  if (!isWithinLimits(path, handle)) return;
  const { balancers, direct } = path.listeners[rows.listener[handle]];
  if (balancers?.admits(rows.addresses, rows.addressAt(handle, PEER)) !== true) {
    if (!knowClient(path, handle)) return;
  }
  if (direct === undefined) identify(path, handle);
  else dialDirect(path, handle, direct);
}

/** A stream within the connection `session` is a connection of its own, from the same client. */
export function acceptStream(path: DataPath, session: number, handle: number, isTunnelled: boolean): void {
  const { rows } = path;
  count(path, handle);
  rows.listener[handle] = rows.listener[session];
  rows.copyAddresses(session, handle);
  rows.copyAddress(handle, CLIENT, PEER);
  if (!isWithinLimits(path, handle)) return;
  if (!isTunnelled) rows.flags[handle] |= WITHIN_H2;
  const isKnown = isTunnelled ? knowTunnelled(path, handle) : knowClient(path, handle, BALANCED);
  if (!isKnown) return;
  // The listener was closed before this thread started, so its settings are unknown.
  if (path.listeners[rows.listener[handle]] === undefined && !isTunnelled)
    return endWithReset(path, handle, 'revoked');
  identify(path, handle);
}

function count({ rows, io, shared }: DataPath, handle: number): void {
  rows.clear(handle);
  rows.state[handle] = IDENTIFYING;
  rows.side[handle] = CLIENT_SIDE;
  Atomics.add(shared.totals, TOTAL_CONNECTIONS, 1);
  rows.counts[handle] = ALIVE;
  Atomics.add(shared.totals, TOTAL_PENDING, 1);
  rows.counts[handle] |= PENDING;
  rows.startedAt[handle] = io.now();
  rows.activeAt[handle] = rows.startedAt[handle];
}

/** False when the gateway is full, and this connection has ended. */
function isWithinLimits(path: DataPath, handle: number): boolean {
  const { rows, io, shared, settings } = path;
  if (
    Atomics.load(shared.totals, TOTAL_CONNECTIONS) > settings.connections ||
    Atomics.load(shared.totals, TOTAL_PENDING) > settings.pending ||
    (io.descriptor(handle) >= settings.clientFiles && !makeRoom(path))
  ) {
    end(path, handle, 'over-limit');
    return false;
  }
  path.wheel.set(handle, rows.startedAt[handle] + settings.helloMs);
  return true;
}
