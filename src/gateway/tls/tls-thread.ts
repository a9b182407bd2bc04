// Serves connections whose TLS we terminate or originate, one instance per TLS thread. Workers hand them off on a unix
// socket; here they enter a tunnel, leave one, or have their TLS terminated and opened anew. The close reason goes back
// to the worker as a verdict (verdicts.ts), always before the socket closes.

import type { Server, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { formatIpPort, mapIp } from '../../wire/ip-address.ts';
import type { Endpoint } from '../../wire/proxy-protocol.ts';
import type { CloseReason } from '../close-reason.ts';
import type { FaultLog } from '../fault-log.ts';
import { guard } from '../guard.ts';
import { descriptorOf } from '../io/net-reactor.ts';
import type { HandOff } from '../shared/hand-off.ts';
import { listenOnPath } from '../shared/listen-on-path.ts';
import { type HandedOff, receiveHandOff } from '../shared/receive-hand-off.ts';
import { TLS } from '../shared/rows.ts';
import type { Verdicts } from '../shared/verdicts.ts';
import type { Settings } from '../stages/data-path.ts';
import { dialFailureIndex, reasonOfFailure } from '../stages/dial-failure.ts';
import { reasonIndex } from '../stages/record-end.ts';
import { refusalBytes } from '../stages/refusal.ts';
import { SweepTimer } from '../sweep-timer.ts';
import { type GatewayConnection, GatewayDialer, GatewayError, type GatewayTls } from './dial-gateway.ts';
import { endTunnel, TunnelContexts } from './end-tunnel.ts';
import { enterTunnel } from './enter-tunnel.ts';
import type { ServingThread } from './serving-thread.ts';
import { Terminator } from './terminate.ts';
import type { GatewayPlace, TlsConfig } from './tls-config.ts';
import { TlsConnection } from './tls-connection.ts';

/** How often we check for connections that their worker has ended. */
const SWEEP_MS = 250;
/** A client that has connected sends its hello within a round trip. */
const HELLO_SOON_MS = 500;
/** RFC 8446 5.1: the first byte of a handshake record. */
const HANDSHAKE = 0x16;

export interface TlsThreadOptions {
  /** Indexed by worker. */
  readonly verdicts: readonly Verdicts[];
  readonly settings: Settings;
  /** A problem for the log. */
  readonly onTrouble: (what: string, why: string) => void;
  /** No address of the gateway could be reached: perhaps its name resolves differently by now. */
  readonly onDialFailed: () => void;
  readonly faults: FaultLog;
}

const nothing = new Uint8Array();

/** Serves one connection. */
type Serve = (connection: TlsConnection) => void | Promise<void>;

export class TlsThread implements ServingThread {
  settings: Settings;
  internalListeners: readonly string[] = [];
  readonly #options: TlsThreadOptions;
  readonly #connections = new Map<Socket, TlsConnection>();
  readonly #dialer = new GatewayDialer();
  #server: Server | undefined;
  readonly #sweeps = new SweepTimer(SWEEP_MS, () => this.#sweep());
  #serve: Serve = connection => this.refuse(connection, 'no-backend');

  constructor(options: TlsThreadOptions) {
    this.settings = options.settings;
    this.#options = options;
  }

  /** The number of connections. */
  get size(): number {
    return this.#connections.size;
  }

  /** Listens on that path from now on. Connections from the path before go on. */
  async listen(path: string): Promise<void> {
    const server = await listenOnPath(path, socket => this.#accept(socket));
    this.#server?.close();
    this.#server = server;
  }

  /** Open connections are not affected. */
  configure(config: TlsConfig): void {
    this.#serve = this.#serving(config);
  }

  stop(): void {
    this.#sweeps[Symbol.dispose]();
    this.#server?.close();
    for (const connection of this.#connections.values()) guard(connection, () => connection.cut())();
  }

  trouble(what: string, why: string): void {
    this.#options.onTrouble(what, why);
  }

  async dialGateway(
    connection: TlsConnection,
    gateway: GatewayPlace,
    options: GatewayTls,
  ): Promise<GatewayConnection | undefined> {
    const startedAt = performance.now();
    connection.readAhead(() => {
      this.#report(connection.handOff, -1, 'client-gone', false);
      connection.cut();
    });
    try {
      const outer = await this.#dialer.dial(gateway, options, this.settings, connection.gone);
      this.#report(connection.handOff, performance.now() - startedAt, undefined, false);
      return outer;
    } catch (error) {
      if (connection.gone.aborted) return undefined;
      if (!(error instanceof GatewayError)) throw error;
      this.#options.onDialFailed();
      this.trouble('gateway not reached', error.message);
      this.refuse(connection, reasonOfFailure(error.failure), dialFailureIndex[error.failure]);
      return undefined;
    }
  }

  /** Reports the reason, and sends the client its alert once it has sent its hello, which may be about to arrive. */
  refuse(connection: TlsConnection, reason: CloseReason, failure = 0): void {
    this.#report(connection.handOff, -1, reason, false, failure);
    this.#answer(connection, reason).catch((error: unknown) => connection.onFault(error));
  }

  isBroken({ handOff }: TlsConnection): boolean {
    const verdicts = this.#options.verdicts[handOff.worker];
    return (
      verdicts?.isCurrent(handOff.handle, handOff.generation) === true && verdicts.isBroken(handOff.handle)
    );
  }

  break(connection: TlsConnection, client: Duplex = connection.socket): void {
    const { socket, handOff } = connection;
    this.#report(handOff, -1, 'backend-reset', true);
    client.write(
      nothing,
      guard(connection, () => socket.destroy()),
    );
  }

  lose(connection: TlsConnection): void {
    this.#report(connection.handOff, -1, 'client-reset', true);
    connection.cut();
  }

  async #answer(connection: TlsConnection, reason: CloseReason): Promise<void> {
    const { socket } = connection;
    const isTls = (await connection.firstByte(HELLO_SOON_MS)) === HANDSHAKE;
    if (isTls && !socket.destroyed) socket.write(refusalBytes(reason, TLS));
    socket.destroySoon();
  }

  #report(
    { worker, handle, generation }: HandOff,
    dialMs: number,
    reason: CloseReason | undefined,
    isBroken: boolean,
    failure = 0,
  ): void {
    const verdicts = this.#options.verdicts[worker];
    // The first reason counts: its consequences may look like another.
    if (verdicts === undefined || verdicts.reason(handle) >= 0) return;
    verdicts.say(handle, generation, {
      slot: 0,
      backendSlot: 0,
      dialMs,
      reason: reason === undefined ? -1 : reasonIndex[reason],
      isBroken,
      isEnding: false,
      failure,
    });
  }

  #serving(config: TlsConfig): Serve {
    switch (config.kind) {
      case 'tunnel':
        return connection => enterTunnel(this, connection, config);
      case 'terminate': {
        const terminator = new Terminator(config);
        return connection => terminator.terminate(this, connection);
      }
      case 'tunnel-end': {
        const contexts = new TunnelContexts(config);
        return connection => endTunnel(this, connection, contexts);
      }
      default:
        return config satisfies never;
    }
  }

  #accept(socket: Socket): void {
    // The remaining descriptors are reserved: see open-files.ts.
    if (descriptorOf(socket) >= this.settings.clientFiles) {
      socket.destroy();
      return;
    }
    receiveHandOff(socket, {
      received: ({ handOff, source, destination }, rest) => {
        if (rest.length > 0) socket.unshift(rest);
        this.#begin({ socket, handOff, source: mapped(source), destination: mapped(destination) });
      },
      fault: (error, handOff) => {
        this.#options.faults.write(error);
        if (handOff !== undefined) this.#report(handOff, -1, 'fault', true);
      },
    });
  }

  #begin(handed: HandedOff): void {
    const { socket, handOff } = handed;
    const isCurrent = () =>
      this.#options.verdicts[handOff.worker]?.isCurrent(handOff.handle, handOff.generation) === true;
    const connection = new TlsConnection(handed, isCurrent, (one, error) => this.#fault(one, error));
    this.#report(handOff, -1, undefined, false);
    this.#connections.set(socket, connection);
    this.#sweeps.start();
    socket.once(
      'close',
      guard(connection, () => this.#connections.delete(socket)),
    );
    Promise.try(this.#serve, connection).catch((error: unknown) => connection.onFault(error));
  }

  /** Our own code threw on behalf of that connection, which the caller cuts off. */
  #fault({ handOff, source }: TlsConnection, error: unknown): void {
    this.#options.faults.write(error, { client: formatIpPort(source.address, 0, source.port) });
    try {
      this.#report(handOff, -1, 'fault', true);
    } catch {
      // The worker then sees that the connection ended, but not why.
    }
  }

  /** One side does not take the bytes that wait for it: both are cut off. */
  #endStalled(connection: TlsConnection): void {
    this.#report(connection.handOff, -1, 'idle-timeout', true);
    connection.cut();
  }

  /** Returns whether any connection is left. */
  #sweep(): boolean {
    const now = performance.now();
    for (const connection of this.#connections.values()) {
      guard(connection, () => {
        if (connection.isStalled(this.settings.stalledMs, now)) this.#endStalled(connection);
        else connection.check();
      })();
    }
    return this.#connections.size > 0;
  }
}

function mapped({ address, port }: Endpoint): Endpoint {
  return { address: mapIp(address), port };
}
