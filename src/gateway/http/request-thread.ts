// What serving one request needs of its HTTP thread.

import type { CloseReason } from '../close-reason.ts';
import type { Rows } from '../shared/rows.ts';
import type { RequestCounters } from '../shared/shared-memory.ts';
import type { LimitCounters } from '../stages/admit.ts';
import type { Settings } from '../stages/data-path.ts';
import type { DialFailure } from '../stages/dial-failure.ts';
import type { BackendAgent } from './backend-agent.ts';
import type { Exchange } from './exchange.ts';
import type { KeptConnections } from './kept-connections.ts';

export interface HttpShared extends LimitCounters {
  readonly requests: RequestCounters;
}

export interface RequestThread {
  readonly rows: Rows;
  readonly shared: HttpShared;
  readonly settings: Settings;
  /** For requests that may be sent again. */
  readonly kept: KeptConnections;
  /** For requests that need a connection of their own. */
  readonly single: BackendAgent;
  readonly onDialFailed: (backendSlot: number) => void;
  readonly isDraining: boolean;
  /** No backend could be reached. */
  giveUp(exchange: Exchange, failure: DialFailure): void;
  /** Responds with the reason's status and closes: a refusal ends the connection. */
  refuse(exchange: Exchange, reason: CloseReason, failure?: number): void;
  /** Ends a request in the middle, so that the client sees that its response is incomplete. */
  cut(exchange: Exchange, reason: CloseReason): void;
  /** Every request ends here, once: its limits are released, and it is counted and logged. */
  endRequest(exchange: Exchange, isRefused?: boolean): void;
  /** A backend was reached: the worker's row shows it from now on. */
  reportBackend(exchange: Exchange): void;
  /** The FIN of an upgraded connection's backend is about to be passed on. */
  reportBackendFin(exchange: Exchange): void;
}

/** The origin of this thread's clock. Reading it costs as much as reading the time. */
const ORIGIN = performance.timeOrigin;

export function now(): number {
  return ORIGIN + performance.now();
}
