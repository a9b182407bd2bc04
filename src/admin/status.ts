// GET /api/v1/status.

import type { Finding } from '../cluster/finding.ts';
import type { CloseReason } from '../gateway/close-reason.ts';
import type { GatewayPort } from '../gateway/control/gateway-port.ts';
import type { Figures } from '../gateway/control/route-counts.ts';
import { countedOf, type Recent, type RecentTraffic } from './recent-traffic.ts';

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
    /** Keys whose change in the file needs a restart. */
    readonly restartNeeded: readonly string[];
  };
  readonly sources: readonly {
    readonly name: string;
    readonly up: boolean;
    readonly synced: boolean;
    readonly error: string | null;
  }[];
  readonly leader: boolean;
  /** Those of no cluster that is served: of sources, files and objects. */
  readonly findings: readonly FindingAnswer[];
  readonly counts: {
    readonly clusters: number;
    readonly routes: number;
    readonly hosts: number;
    readonly connections: number;
    /** Still with old processes that this one has replaced. */
    readonly draining: number;
  };
  readonly health: {
    readonly backends: number;
    readonly down: number;
    /** Factor by which intervals between checks exceed the configured ones; 1 when they are kept. */
    readonly stretch: number;
  };
}

export type FindingAnswer = Pick<Finding, 'severity' | 'code' | 'text' | 'fix'> & {
  /** Its source. */
  readonly source: string | null;
  /** `Kind namespace/name`. */
  readonly object: string | null;
};

/** Since the start. */
interface Counts {
  /** Those that ended. */
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly reasons: Readonly<Partial<Record<CloseReason, number>>>;
  readonly recent: Recent;
}

export interface Traffic extends Counts {
  /**
   * The part of it that belongs to no cluster: refused before a route was known, or a carrier of streams that count for
   * their own routes.
   */
  readonly unrouted: Counts;
}

export interface StatusAnswer extends Status {
  readonly traffic: Traffic;
}

export interface TrafficView {
  readonly gateway: Pick<GatewayPort, 'routes' | 'traffic'>;
  readonly recent: Pick<RecentTraffic, 'total' | 'ofRoute'>;
}

/** Over all routes, those that are gone and connections that never had one. */
export function trafficOf({ gateway, recent }: TrafficView): Traffic {
  return {
    ...countsOf(gateway.traffic(), recent.total()),
    unrouted: unroutedOf(gateway, recent),
  };
}

function unroutedOf(gateway: TrafficView['gateway'], recent: TrafficView['recent']): Counts {
  // The first slot stands for "no route".
  for (const { get } of gateway.routes()) {
    const counted = countedOf(get);
    return countsOf(counted, recent.ofRoute('', '', counted));
  }
  throw new Error('The gateway has no slot for connections without a route');
}

function countsOf({ bytesIn, bytesOut, reasons }: Figures, recent: Recent): Counts {
  const connections = Object.values(reasons).reduce((sum, count) => sum + count, 0);
  return { connections, bytesIn, bytesOut, reasons, recent };
}
