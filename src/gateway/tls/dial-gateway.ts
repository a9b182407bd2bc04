// An agent's way out with TLS: reaches one of the gateway's addresses and completes a verified handshake. The address
// that last worked is tried first.

import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, type TLSSocket, connect as tlsConnect } from 'node:tls';
import type { GatewayPlace } from './tls-config.ts';

/** Why the gateway was not reached, in words for the log. */
export class GatewayError extends Error {
  readonly timedOut: boolean;
  /** The gateway's certificate, rather than the network. */
  readonly isUnverified: boolean;

  constructor(message: string, timedOut: boolean, isUnverified: boolean) {
    super(message);
    this.timedOut = timedOut;
    this.isUnverified = isUnverified;
  }
}

let preferred = '';

/** `connectMs` limits each address, its handshake included. */
export async function dialGateway(
  gateway: GatewayPlace,
  options: ConnectionOptions,
  connectMs: number,
  keepaliveMs: number | undefined,
): Promise<TLSSocket> {
  const { addresses } = gateway;
  let failure = new GatewayError('its name does not resolve', false, false);
  const order = addresses.toSorted((a, b) => Number(b === preferred) - Number(a === preferred));
  for (const address of order) {
    try {
      const socket = await handshake(gateway, address, options, connectMs, keepaliveMs);
      preferred = address;
      return socket;
    } catch (error) {
      failure = error as GatewayError;
      // Another address of the same gateway has the same certificate.
      if (failure.isUnverified) break;
    }
  }
  throw failure;
}

function handshake(
  { port, serverName, ca }: GatewayPlace,
  address: string,
  options: ConnectionOptions,
  connectMs: number,
  keepaliveMs: number | undefined,
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const raw: Socket = connect({
      host: address,
      port,
      allowHalfOpen: true,
      noDelay: true,
      ...(keepaliveMs !== undefined && { keepAlive: true, keepAliveInitialDelay: keepaliveMs }),
    });
    const socket = tlsConnect({
      ...options,
      socket: raw,
      servername: serverName,
      ...(ca !== undefined && { ca }),
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
    });
    // Node does not take it from the options when it is given a socket.
    socket.allowHalfOpen = true;
    const fail = (error: GatewayError) => {
      clearTimeout(timer);
      raw.destroy();
      socket.destroy();
      reject(error);
    };
    const timer = setTimeout(
      () => fail(new GatewayError(`${address}: no answer within ${connectMs} ms`, true, false)),
      connectMs,
    );
    const onError = (error: NodeJS.ErrnoException) => fail(describe(address, serverName, error));
    raw.once('error', onError);
    socket.once('error', onError);
    socket.once('secureConnect', () => {
      clearTimeout(timer);
      raw.off('error', onError);
      socket.off('error', onError);
      resolve(socket);
    });
    socket.once('close', () =>
      fail(new GatewayError(`${address}: closed during the handshake`, false, false)),
    );
  });
}

/** Node's and OpenSSL's words for a certificate that does not verify. */
const unverified =
  /^(ERR_TLS_CERT|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA|ERR_SSL_CERT)/;

function describe(address: string, serverName: string, error: NodeJS.ErrnoException): GatewayError {
  const code = error.code ?? '';
  if (unverified.test(code)) {
    return new GatewayError(
      `${address}: its certificate does not verify for ${serverName}: ${error.message}. Is --server-name right, and --ca-file the CA that signed it?`,
      false,
      true,
    );
  }
  return new GatewayError(`${address}: ${error.message}`, code === 'ETIMEDOUT', false);
}
