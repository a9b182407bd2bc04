// accept: takes what waits on a listener, within the gateway's limits. First of the stages.

import { EXHAUSTED } from '../io/reactor.ts';
import { ALIVE, CLIENT, CLOSING, IDENTIFYING, OPENED, PEER, PENDING } from '../shared/rows.ts';
import { TOTAL_CONNECTIONS, TOTAL_PENDING } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import { end } from './end.ts';
import { goStraight, identify, knowClient } from './identify.ts';

/** Connections taken in one go before others get their turn. */
const BATCH = 64;
/** Out of descriptors: those that wait are looked at again after this, by when others may have closed. */
const EXHAUSTED_MS = 100;
/** A round trip to most places. */
const CLOSING_MS = 100;
/** The longest queue that a listener can have. */
const BACKLOG = 4096;

export function acceptAll(path: DataPath, listener: number): void {
  if (acceptSome(path, listener, BATCH)) path.comeBack(listener);
}

/**
 * Closes it in a moment: handshakes under way complete, and what the kernel has queued is served. One that never
 * served (its file was refused) closes at once: nothing is known of how to.
 */
export function closeListener(path: DataPath, listener: number): void {
  if (path.rows.state[listener] === OPENED) return close(path, listener);
  path.io.quiesce(listener);
  path.rows.state[listener] = CLOSING;
  path.wheel.set(listener, path.io.now() + CLOSING_MS);
}

export function listenerTimer(path: DataPath, listener: number): void {
  if (path.rows.state[listener] !== CLOSING) return acceptAll(path, listener);
  try {
    acceptSome(path, listener, BACKLOG);
  } finally {
    close(path, listener);
  }
}

/** Our own code threw while it accepted: not a connection's fault, and no reason to be deaf from now on. */
export function retryListener(path: DataPath, listener: number): void {
  path.wheel.set(listener, path.io.now() + EXHAUSTED_MS);
}

function close(path: DataPath, listener: number): void {
  path.release(listener);
  path.io.close(listener);
}

/** True when there may be more. */
function acceptSome(path: DataPath, listener: number, most: number): boolean {
  for (let count = 0; count < most; count++) {
    const handle = path.io.accept(listener);
    if (handle === EXHAUSTED) path.wheel.set(listener, path.io.now() + EXHAUSTED_MS);
    if (handle < 0) return false;
    try {
      begin(path, listener, handle);
    } catch (error) {
      path.contain(error, handle, -1);
    }
  }
  return true;
}

function begin(path: DataPath, listener: number, handle: number): void {
  const { rows, io, shared, settings } = path;
  rows.clear(handle);
  rows.clearAddresses(handle);
  rows.state[handle] = IDENTIFYING;
  rows.flags[handle] = ALIVE | PENDING;
  Atomics.add(shared.totals, TOTAL_CONNECTIONS, 1);
  Atomics.add(shared.totals, TOTAL_PENDING, 1);
  const now = io.now();
  rows.startedAt[handle] = now;
  rows.activeAt[handle] = now;
  rows.listener[handle] = rows.listener[listener];
  const port = io.peerAddress(handle, rows.addresses, rows.addressAt(handle, PEER));
  rows.setPort(handle, PEER, Math.max(port, 0));
  rows.copyAddress(handle, PEER, CLIENT);
  if (port < 0) return end(path, handle, 'no-data');
  if (
    Atomics.load(shared.totals, TOTAL_CONNECTIONS) > settings.connections ||
    Atomics.load(shared.totals, TOTAL_PENDING) > settings.pending ||
    io.descriptor(handle) >= settings.clientFiles
  ) {
    return end(path, handle, 'over-limit');
  }
  path.wheel.set(handle, now + settings.helloMs);
  const { balancers, direct, isInternal } = path.listeners[rows.listener[handle]];
  if (!isInternal && balancers?.admits(rows.addresses, rows.addressAt(handle, PEER)) !== true) {
    if (!knowClient(path, handle)) return;
  }
  if (direct === undefined) identify(path, handle);
  else goStraight(path, handle, direct);
}
