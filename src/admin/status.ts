// GET /api/v1/status.

import type { CloseReason } from '../gateway/close-reason.ts';
import type { Figures } from '../gateway/control/gateway.ts';

export interface Status {
  readonly version: string;
  readonly engine: string;
  readonly workers: number;
  readonly uptimeSeconds: number;
  readonly generation: number;
  readonly listeners: readonly { readonly on: string; readonly address: string }[];
  readonly config: {
    readonly ok: boolean;
    readonly error: string | null;
    /** Keys whose change in the file takes a restart. */
    readonly restartNeeded: readonly string[];
  };
  readonly sources: readonly {
    readonly name: string;
    readonly up: boolean;
    readonly synced: boolean;
    readonly error: string | null;
  }[];
  readonly leader: boolean;
  readonly counts: {
    readonly clusters: number;
    readonly routes: number;
    readonly hosts: number;
    readonly connections: number;
  };
  readonly health: {
    readonly backends: number;
    readonly down: number;
    /** Intervals between checks are longer than asked for by this factor; 1 when they are kept. */
    readonly stretch: number;
  };
}

/** Since the start, over all routes and what never had one. */
export interface Traffic {
  /** Those that ended. */
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly reasons: Readonly<Partial<Record<CloseReason, number>>>;
}

export interface StatusAnswer extends Status {
  readonly traffic: Traffic;
}

export function trafficOf({ bytesIn, bytesOut, reasons }: Figures): Traffic {
  const connections = Object.values(reasons).reduce((sum, count) => sum + count, 0);
  return { connections, bytesIn, bytesOut, reasons };
}
