// A gateway in this process, for tests that need more than the whole program offers, such as killing a worker or
// applying a change. It collects everything that the gateway reports.

import { arch } from 'node:os';
import type { Cluster } from '../../cluster/cluster.ts';
import type { FaultReport } from '../fault-log.ts';
import type { HealthChange } from '../health/health-thread.ts';
import type { EngineName } from '../io/open-reactor.ts';
import type { Settings } from '../stages/data-path.ts';
import type { BackOff } from './death-log.ts';
import { Gateway } from './gateway.ts';
import { type GatewayConfig, type NamedRecord, type NamedRequest } from './gateway-port.ts';
import { type Lookup, NameResolver } from './name-resolver.ts';
import { type Listener } from './open-listeners.ts';

export interface SampleGateway extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly config: GatewayConfig;
  readonly records: NamedRecord[];
  readonly requests: NamedRequest[];
  /** Names of threads that died, and why. */
  readonly deaths: string[];
  readonly causes: Error[];
  readonly changes: HealthChange[];
  readonly faults: FaultReport[];
  /** Numbers of lost log lines, as reported. */
  readonly dropped: number[];
}

export interface SampleGatewayOptions {
  readonly clusters: readonly Cluster[];
  readonly workers?: number;
  readonly listener?: Partial<Listener>;
  readonly settings?: Partial<Settings>;
  readonly backOff?: BackOff;
  /** The addresses of every name. */
  readonly addresses?: readonly string[];
  /** Replaces `addresses`. */
  readonly lookUp?: Lookup;
  /** How many nonces can be remembered. */
  readonly nonces?: number;
}

export async function startSampleGateway(
  engine: EngineName,
  options: SampleGatewayOptions,
): Promise<SampleGateway> {
  const { clusters, workers = 2, addresses = [], backOff } = options;
  const records: NamedRecord[] = [];
  const requests: NamedRequest[] = [];
  const deaths: string[] = [];
  const causes: Error[] = [];
  const changes: HealthChange[] = [];
  const faults: FaultReport[] = [];
  const dropped: number[] = [];
  const place = { on: '127.0.0.1:0', host: '127.0.0.1', port: 0 };
  const config: GatewayConfig = {
    listeners: [{ ...place, balancers: [], agents: [], idTlv: [], ...options.listener }],
    clusters,
    settings: {
      helloMs: 5000,
      connectMs: 3000,
      idleMs: undefined,
      halfClosedMs: undefined,
      keepaliveMs: 30_000,
      stalledMs: undefined,
      retries: 3,
      connections: 1000,
      clientFiles: 4096,
      pending: 1000,
      pendingPerSource: undefined,
      perSource: undefined,
      log: 'all',
      ...options.settings,
    },
  };
  const gateway = await Gateway.start(
    {
      engine,
      arch: arch(),
      workers,
      share: true,
      capacity: 4096,
      ...(options.nonces !== undefined && { nonces: options.nonces }),
      resolver: new NameResolver(() => {}, options.lookUp ?? (async () => [...addresses])),
      onRecord: record => records.push(record),
      onRequest: request => requests.push(request),
      onDropped: count => dropped.push(count),
      onThreadDeath: (thread, cause) => {
        deaths.push(thread);
        causes.push(cause);
      },
      ...(backOff !== undefined && { backOff }),
      onHealth: change => changes.push(change),
      onFault: report => faults.push(report),
    },
    config,
  );
  const reported = { records, requests, deaths, causes, changes, faults, dropped };
  return { gateway, config, ...reported, [Symbol.asyncDispose]: () => gateway.stop() };
}
