// Dials the gateway for an agent's TLS uplink: reaches one of its addresses and completes a verified handshake. Retries
// like dial.ts: each address once, starting with the last one that worked, then the list again after the same pauses.

import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ConnectionOptions, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { guard } from '../guard.ts';
import { descriptorOf, reactorErrorOf } from '../io/net-reactor.ts';
import { type DialFailure, failureOf } from '../stages/dial-failure.ts';
import { attemptEnd, pauseBefore } from '../stages/dial-policy.ts';
import type { GatewayPlace } from './tls-config.ts';

interface GatewayFailure {
  readonly failure?: DialFailure;
  readonly isFinal?: boolean;
}

/** Why the gateway was not reached. The message goes to the log. */
export class GatewayError extends Error {
  readonly code = 'ERR_GATEWAY';
  readonly failure: DialFailure;
  /** Another address or a retry would not help, for instance because the certificate does not verify. */
  readonly isFinal: boolean;

  constructor(message: string, { failure = 'other', isFinal = false }: GatewayFailure = {}) {
    super(message);
    this.failure = failure;
    this.isFinal = isFinal;
  }
}

/** The handshake that an uplink needs. */
export interface GatewayTls extends ConnectionOptions {
  /** The log message when the server accepts none of `ALPNProtocols`. */
  readonly wrongProtocol: string;
}

export interface GatewayConnection {
  readonly tls: TLSSocket;
  /** The socket underneath. */
  readonly socket: Socket;
}

export interface DialSettings {
  /** For each attempt, including its handshake. */
  readonly connectMs: number;
  readonly keepaliveMs: number | undefined;
  readonly retries: number;
  /** Descriptors from this number on are reserved: see open-files.ts. */
  readonly clientFiles: number;
}

export class GatewayDialer {
  /** The address that last worked. */
  #preferred = '';
  readonly #pause: typeof pauseBefore;

  constructor(pause = pauseBefore) {
    this.#pause = pause;
  }

  /** Rejects with a GatewayError, or with the signal's reason when it is aborted. */
  async dial(
    gateway: GatewayPlace,
    options: GatewayTls,
    settings: DialSettings,
    signal: AbortSignal,
  ): Promise<GatewayConnection> {
    const { addresses } = gateway;
    const terms = { ...settings, startedAt: performance.now() };
    const order = addresses.toSorted((a, b) => Number(b === this.#preferred) - Number(a === this.#preferred));
    let failure = new GatewayError(`${gateway.host} does not resolve`, { failure: 'name-not-found' });
    for (let attempt = 0; order.length > 0; attempt++) {
      const address = order[attempt % order.length];
      const pause = this.#pause(attempt, order.length, terms, performance.now());
      if (pause === undefined) break;
      if (pause > 0) await sleep(pause, undefined, { signal });
      const now = performance.now();
      const left = attemptEnd(terms.startedAt, settings.connectMs, now) - now;
      if (left <= 0) break;
      try {
        const connection = await handshake(
          gateway,
          address,
          options,
          { ...settings, connectMs: left },
          signal,
        );
        this.#preferred = address;
        return connection;
      } catch (error) {
        if (!(error instanceof GatewayError) || error.isFinal) throw error;
        failure = error;
      }
    }
    throw failure;
  }
}

function handshake(
  { port, serverName, ca }: GatewayPlace,
  address: string,
  { wrongProtocol, ...options }: GatewayTls,
  { connectMs, keepaliveMs, clientFiles }: DialSettings,
  signal: AbortSignal,
): Promise<GatewayConnection> {
  const raw = connect({
    host: address,
    port,
    allowHalfOpen: true,
    noDelay: true,
    ...(keepaliveMs !== undefined && { keepAlive: true, keepAliveInitialDelay: keepaliveMs }),
  });
  const tls = tlsConnect({
    ...options,
    socket: raw,
    servername: serverName,
    ...(ca !== undefined && { ca }),
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
  });
  const { promise, resolve, reject } = Promise.withResolvers<GatewayConnection>();
  const fail = (error: Error) => {
    reject(error);
    raw.destroy();
    tls.destroy();
  };
  const owner = { onFault: (error: unknown) => fail(error as Error) };
  const onTimeout = () => fail(new GatewayError(`${address}: no answer in time`, { failure: 'timeout' }));
  const timer = setTimeout(guard(owner, onTimeout), connectMs);
  const onAbort = guard(owner, () => fail(signal.reason as Error));
  const onClose = guard(owner, () => fail(new GatewayError(`${address}: closed during the handshake`)));
  const onError = guard(owner, (error: NodeJS.ErrnoException) =>
    fail(explain(address, serverName, wrongProtocol, error)),
  );
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  // Never removed: later errors are reported by the TLS socket, but an error without a listener ends the thread.
  raw.on('error', onError);
  const connected = () => {
    if (descriptorOf(raw) < clientFiles) return;
    fail(new GatewayError(`${address}: the limit of open files is reached`, { failure: 'exhausted' }));
  };
  raw.once('connect', guard(owner, connected));
  tls.on('error', onError);
  tls.once('close', onClose);
  tls.once(
    'secureConnect',
    guard(owner, () => resolve({ tls, socket: raw })),
  );
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    tls.off('close', onClose);
  });
}

/** Node's and OpenSSL's error codes for a certificate that does not verify. */
const UNVERIFIED =
  /^(ERR_TLS_CERT|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA|ERR_SSL_CERT)/;
const WRONG_TIME = /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/;

function explain(
  address: string,
  serverName: string,
  wrongProtocol: string,
  error: NodeJS.ErrnoException,
): GatewayError {
  const code = error.code ?? '';
  if (WRONG_TIME.test(code)) {
    return new GatewayError(
      `${address}: the certificate of ${serverName} ${code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet'}. Renew it there, or is this node's clock wrong?`,
      { isFinal: true },
    );
  }
  if (UNVERIFIED.test(code)) {
    return new GatewayError(
      `${address}: its certificate does not verify for ${serverName}: ${firstSentence(error.message)}. Is --server-name right, and --ca-file the CA that signed it?`,
      { isFinal: true },
    );
  }
  if (code.endsWith('NO_APPLICATION_PROTOCOL')) return new GatewayError(wrongProtocol, { isFinal: true });
  if (code.endsWith('UNRECOGNIZED_NAME')) {
    return new GatewayError(
      `${address}: the server does not know the name ${serverName}. Is --server-name one of the gateway's hosts?`,
      { isFinal: true },
    );
  }
  return new GatewayError(`${address}: ${plain(error)}`, { failure: failureOf(reactorErrorOf(error)) });
}

/** Node appends advice for programmers. */
function firstSentence(message: string): string {
  return message.replace(/[;.] .*/s, '');
}

/** OpenSSL's messages are lists of codes; `reason` is the readable part. */
function plain(error: NodeJS.ErrnoException & { readonly reason?: string }): string {
  return error.reason ?? error.message.trim();
}
