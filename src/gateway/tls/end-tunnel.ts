// The gateway's end of the agents' `tunnel`: terminates the outer TLS. The bytes inside go back to a worker as a
// connection of its own, which is identified there like any other: its header names a cluster and must prove it.

import { X509Certificate } from 'node:crypto';
import { connect } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import type { CloseReason } from '../close-reason.ts';
import { guard } from '../guard.ts';
import { descriptorOf, reactorErrorOf } from '../io/net-reactor.ts';
import { buildHandOff } from '../shared/hand-off.ts';
import { failureOf } from '../stages/dial-failure.ts';
import { TUNNEL_ALPN } from './enter-tunnel.ts';
import { join } from './join.ts';
import type { ServingThread } from './serving-thread.ts';
import type { TunnelEnd } from './tls-config.ts';
import type { TlsConnection } from './tls-connection.ts';

/** The current certificates. */
export class TunnelContexts {
  readonly #entries: readonly { readonly certificate: X509Certificate; readonly context: SecureContext }[];

  constructor({ certificates }: TunnelEnd) {
    this.#entries = certificates.map(({ cert, key }) => ({
      certificate: new X509Certificate(cert),
      context: createSecureContext({ cert, key, minVersion: 'TLSv1.2' }),
    }));
  }

  /** The context of the certificate for that name, else of the first. */
  find(name: string): SecureContext | undefined {
    const match = this.#entries.find(({ certificate }) => certificate.checkHost(name) !== undefined);
    return (match ?? this.#entries[0])?.context;
  }
}

export function endTunnel(thread: ServingThread, connection: TlsConnection, contexts: TunnelContexts): void {
  const outer = new TLSSocket(connection.socket, {
    isServer: true,
    SNICallback: guard(connection, (name: string, done: SniDone) => done(null, contexts.find(name))),
    secureContext: contexts.find(''),
    ALPNCallback: ({ protocols }) => protocols.find(name => name === TUNNEL_ALPN),
  });
  connection.through(outer);
  let isSettled = false;
  const settle = (reason?: CloseReason) => {
    if (isSettled) return;
    isSettled = true;
    clearTimeout(timer);
    if (reason === undefined) sendToWorker(thread, connection, outer);
    else thread.refuse(connection, reason);
  };
  const timer = setTimeout(
    guard(connection, () => settle('hello-timeout')),
    thread.settings.helloMs,
  );
  outer.on(
    'error',
    guard(connection, (error: NodeJS.ErrnoException) => settle(reasonOf(error.code ?? ''))),
  );
  // A client that does not trust the certificate closes during the handshake.
  outer.once(
    'end',
    guard(connection, () => settle('client-gone')),
  );
  outer.once(
    'close',
    guard(connection, () => settle('client-gone')),
  );
  outer.once(
    'secure',
    guard(connection, () => settle()),
  );
}

type SniDone = (error: Error | null, context?: SecureContext) => void;

function reasonOf(code: string): CloseReason {
  if (code === 'ERR_SSL_NO_APPLICATION_PROTOCOL') return 'not-recognized';
  return code.includes('ALERT') || code === 'ECONNRESET' ? 'client-gone' : 'bad-hello';
}

function sendToWorker(thread: ServingThread, connection: TlsConnection, outer: TLSSocket): void {
  const { source, destination, handOff, gone } = connection;
  const path = thread.internalListeners[handOff.worker];
  // A client without ALPN is not one of our agents.
  const refusal = outer.alpnProtocol !== TUNNEL_ALPN ? 'not-recognized' : 'no-backend';
  if (refusal === 'not-recognized' || path === undefined) return thread.refuse(connection, refusal);
  const inner = connect({ path, allowHalfOpen: true });
  // The remaining descriptors are reserved: see open-files.ts.
  if (descriptorOf(inner) >= thread.settings.clientFiles) {
    inner.destroy();
    return thread.refuse(connection, 'over-limit');
  }
  inner.write(buildHandOff(source, destination, { ...handOff, isTunnelled: true }));
  gone.addEventListener(
    'abort',
    guard(connection, () => inner.destroy()),
  );
  // Registered before join(): the first reason counts, and the close that follows would report another.
  const refuseIfExhausted = (error: Error) => {
    if (failureOf(reactorErrorOf(error)) === 'exhausted') thread.refuse(connection, 'over-limit');
  };
  inner.once('error', guard(connection, refuseIfExhausted));
  // The worker has both connections, and links their ends: see tunnel-links.ts.
  connection.joined(outer, inner);
  join({
    owner: connection,
    near: outer,
    far: inner,
    nearLost: () => thread.lose(connection),
    // A worker that is full closes without an answer.
    farLost: () =>
      inner.bytesRead === 0 ? thread.refuse(connection, 'over-limit') : thread.break(connection, outer),
    farEnded: () => (thread.isBroken(connection) ? thread.break(connection, outer) : outer.end()),
  });
}
