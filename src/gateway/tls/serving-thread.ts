// What serving one connection needs of its TLS thread.

import type { Duplex } from 'node:stream';
import type { CloseReason } from '../close-reason.ts';
import type { Settings } from '../stages/data-path.ts';
import type { GatewayConnection, GatewayTls } from './dial-gateway.ts';
import type { GatewayPlace } from './tls-config.ts';
import type { TlsConnection } from './tls-connection.ts';

export interface ServingThread {
  readonly settings: Settings;
  /** The paths that connections go back to, by worker. */
  readonly internalListeners: readonly string[];
  trouble(what: string, why: string): void;
  /** undefined when the gateway cannot be reached; the client is refused then. */
  dialGateway(
    connection: TlsConnection,
    gateway: GatewayPlace,
    options: GatewayTls,
  ): Promise<GatewayConnection | undefined>;
  refuse(connection: TlsConnection, reason: CloseReason): void;
  /** Whether the worker has already reported that the connection was broken off. */
  isBroken(connection: TlsConnection): boolean;
  /**
   * The other side broke off: the client gets a reset after the bytes that came before it. If `client` is its TLS, no
   * close_notify is sent, which would make the stream look complete.
   */
  break(connection: TlsConnection, client?: Duplex): void;
  /** The client broke off, or its bytes are no longer TLS. */
  lose(connection: TlsConnection): void;
}
