// Ends an HTTP request: its limits are released, it is counted by status, and logged. Every request ends here, once.

import { BYTES_IN_AT, BYTES_OUT_AT } from '../shared/shared-memory.ts';
import type { DataPath } from './data-path.ts';
import type { ExchangeState } from './exchange-state.ts';
import { releaseLimits } from './record-end.ts';

/** The client closed before it got a response: nginx's status for it. */
const CLIENT_CLOSED = 499;

export function endRequest(
  path: DataPath,
  client: number,
  exchange: ExchangeState,
  isRefused: boolean,
): void {
  if (!exchange.isOpen) return;
  exchange.isOpen = false;
  const { rows, shared, io } = path;
  const status = exchange.status === 0 ? CLIENT_CLOSED : exchange.status;
  try {
    countBytes(path, client, exchange);
    shared.requests.add(rows.slot[client], status);
  } finally {
    releaseLimits(rows, shared, client);
  }
  logRequest(path, client, exchange.method, status, io.now() - exchange.startedAt, isRefused);
}

/** Bytes that could not be read as a request count as one, without a method, host or route. */
export function recordUnreadable(path: DataPath, client: number, status: number, ms: number): void {
  path.shared.requests.add(0, status);
  logRequest(path, client, '', status, ms, true);
}

/** Counts what has passed since the last call for the route of the current request. */
export function countBytes({ rows, shared }: DataPath, client: number, exchange: ExchangeState): void {
  if (exchange.isSwitched) return;
  const slot = rows.slot[client];
  const bytesIn = rows.bytesIn[client];
  const bytesOut = rows.bytesOut[client];
  if (bytesIn > exchange.countedIn) {
    shared.counters.add(slot, BYTES_IN_AT, bytesIn - exchange.countedIn);
    exchange.countedIn = bytesIn;
  }
  if (bytesOut > exchange.countedOut) {
    shared.counters.add(slot, BYTES_OUT_AT, bytesOut - exchange.countedOut);
    exchange.countedOut = bytesOut;
  }
}

function logRequest(
  { rows, shared, settings }: DataPath,
  client: number,
  method: string,
  status: number,
  ms: number,
  isRefused: boolean,
): void {
  if (settings.log === 'all' || (settings.log === 'refused' && isRefused))
    shared.records.writeRequest(rows, client, method, status, ms);
}
