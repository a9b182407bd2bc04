// The gateway inside a process: what `run` and `agent` have in common. Both pick an engine, size the gateway by the
// machine, and log the events of its threads the same way; only their configuration and their own events differ.

import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { Gateway, type GatewayOptions } from '../gateway/control/gateway.ts';
import type { GatewayPort } from '../gateway/control/gateway-port.ts';
import { type GatewayConfig } from '../gateway/control/gateway-port.ts';
import type { InheritedSockets } from '../gateway/control/inherited-sockets.ts';
import { NameResolver } from '../gateway/control/name-resolver.ts';
import { FaultLog } from '../gateway/fault-log.ts';
import { guard } from '../gateway/guard.ts';
import { canShareListeners } from '../gateway/io/net-reactor.ts';
import { type EngineName, whyNoEpoll } from '../gateway/io/open-reactor.ts';
import { type FileRoom, roomIn } from '../gateway/open-files.ts';
import type { Settings } from '../gateway/stages/data-path.ts';
import type { HaproxyProgram } from '../haproxy/haproxy-program.ts';
import { logFault } from './connection-log.ts';
import { logDeath } from './death-log-line.ts';

/** Logged when an edited file has mistakes. */
export const FILE_REFUSED = 'file refused; keeping the previous configuration';

/** The machine that the process runs on. */
export interface Host {
  readonly cores: number;
  readonly openFiles: number;
  /** Of the user; undefined on platforms without user ids. */
  readonly uid?: number | undefined;
  readonly platform: NodeJS.Platform;
  readonly arch: string;
  readonly node: string;
}

export interface GatewayProcessOptions {
  readonly host: Host;
  readonly log: Logger;
  /** As configured; all but `net` use epoll where it works. */
  readonly engine: Config['engine'];
  /** Ignored on platforms where threads cannot share a listener. */
  readonly workers: number;
  /** Where HAProxy is, on its engine. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
  /** A name stopped resolving, or resolves again. */
  readonly onName: (name: string, error: string | undefined) => void;
  /** Counts lines that did not reach the log. By default they are logged. */
  readonly countDropped?: ((count: number) => void) | undefined;
}

/** Each may throw: that loses the event and nothing else. */
export type GatewayEvents = Pick<GatewayOptions, 'onRecord' | 'onRequest' | 'onHealth'> &
  Pick<Partial<GatewayOptions>, 'onTlsTrouble' | 'onUplinkRefused'>;

export class GatewayProcess {
  readonly #options: GatewayProcessOptions;
  readonly #faults: FaultLog;
  #engine: EngineName | 'haproxy' = 'net';
  #haproxy: HaproxyProgram | undefined;

  constructor(options: GatewayProcessOptions) {
    this.#options = options;
    this.#faults = new FaultLog('control', report => logFault(options.log, report));
  }

  /** The engine in use; known once the gateway has started. */
  get engine(): EngineName | 'haproxy' {
    return this.#engine;
  }

  get workers(): number {
    return canShareListeners(this.#options.host.platform) ? this.#options.workers : 1;
  }

  get room(): FileRoom {
    return roomIn(this.#options.host.openFiles);
  }

  /** The settings that follow from the machine, for a wanted number of connections. */
  limits(connections = Infinity): Pick<Settings, 'connections' | 'clientFiles'> {
    return {
      connections: Math.min(connections, this.room.connections),
      clientFiles: this.room.clientFiles,
    };
  }

  /** Our own code threw on the control thread, outside of any connection. */
  onFault(error: unknown): void {
    this.#faults.write(error);
  }

  /** `auto` takes epoll where it works. Throws a HaproxyError if HAProxy is wanted and cannot be used. */
  async chooseEngine(): Promise<void> {
    const { engine, host, log, environment } = this.#options;
    if (engine === 'net') return;
    const why = await whyNoEpoll(host.platform, host.arch);
    if (engine === 'haproxy') {
      // Loaded only here: the other engines need nothing of it.
      const { findHaproxy, HaproxyError } = await import('../haproxy/haproxy-program.ts');
      if (why !== undefined) throw new HaproxyError(`engine haproxy is not available: ${why}`);
      this.#haproxy = await findHaproxy(environment ?? {});
      this.#engine = 'haproxy';
      return;
    }
    if (why === undefined) this.#engine = 'epoll';
    else log.warn({ why }, 'engine epoll is not available; using net');
  }

  async start(
    events: GatewayEvents,
    config: GatewayConfig,
    inherited?: InheritedSockets,
  ): Promise<GatewayPort> {
    const { host, log, onName, countDropped = count => log.warn({ count }, 'dropped') } = this.#options;
    const options: Omit<GatewayOptions, 'engine'> = {
      ...events,
      ...(inherited !== undefined && { inherited }),
      arch: host.arch,
      workers: this.workers,
      share: canShareListeners(host.platform),
      capacity: this.room.capacity,
      resolver: new NameResolver(onName),
      onRecord: guard(this, events.onRecord),
      onRequest: guard(this, events.onRequest),
      onHealth: guard(this, events.onHealth),
      onDropped: countDropped,
      onThreadDeath: (thread, cause, death) => logDeath(log, thread, cause, death),
      onFault: report => logFault(log, report),
    };
    if (this.#engine !== 'haproxy') return Gateway.start({ ...options, engine: this.#engine }, config);
    const { HaproxyGateway } = await import('../haproxy/haproxy-gateway.ts');
    const haproxy = {
      program: this.#haproxy as HaproxyProgram,
      environment: this.#options.environment ?? {},
      onReload: (reload: object) => log.info(reload, 'haproxy reloaded'),
    };
    return HaproxyGateway.start({ ...options, ...haproxy }, config);
  }
}
