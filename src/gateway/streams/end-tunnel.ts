// The gateway's end of the agents' `tunnel`: terminates the outer TLS. What is inside is a connection of its own, which
// the stages identify like any other: its header names a cluster and must prove it.

import { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import type { CloseReason } from '../close-reason.ts';
import { guard } from '../guard.ts';
import { reactorErrorOf } from '../io/net-reactor.ts';
import { TIMED_OUT } from '../io/reactor.ts';
import type { SessionHost } from './session-host.ts';
import { TUNNEL_ALPN, type TunnelEnd } from './tls-config.ts';
import { TlsStream } from './tls-stream.ts';

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

/** `client` is the row of that connection. */
export function endTunnel(host: SessionHost, client: number, socket: Socket, contexts: TunnelContexts): void {
  const session = host.open(client, socket);
  const tls = new TLSSocket(socket, {
    isServer: true,
    SNICallback: guard(session, (name: string, done: SniDone) => done(null, contexts.find(name))),
    secureContext: contexts.find(''),
    ALPNCallback: ({ protocols }) => protocols.find(name => name === TUNNEL_ALPN),
  });
  const stream = new TlsStream(tls, socket, session);
  let isOpen = false;
  const refuse = (reason: CloseReason) => {
    clearTimeout(timer);
    session.end(reason);
    if (isOpen) return;
    socket.destroySoon();
    tls.destroy();
  };
  const timer = setTimeout(
    guard(session, () => refuse('hello-timeout')),
    host.settings.helloMs,
  );
  const failed = (error: NodeJS.ErrnoException) =>
    refuse(isOpen ? lossOf(error) : reasonOf(error.code ?? ''));
  socket.on('error', guard(session, failed));
  tls.on('error', guard(session, failed));
  // A client that does not trust the certificate closes during the handshake.
  tls.once(
    'end',
    guard(session, () => {
      if (!isOpen) refuse('client-gone');
    }),
  );
  tls.once(
    'close',
    // A reset of what is inside passes through, with its reason.
    guard(session, () => refuse(isOpen ? (stream.isCut ? stream.reason : 'done') : 'client-gone')),
  );
  tls.once(
    'secure',
    guard(session, () => {
      clearTimeout(timer);
      // A client without ALPN is not one of our agents.
      if (tls.alpnProtocol !== TUNNEL_ALPN) return refuse('not-recognized');
      isOpen = true;
      host.accept(client, stream, true);
    }),
  );
}

type SniDone = (error: Error | null, context?: SecureContext) => void;

function reasonOf(code: string): CloseReason {
  if (code === 'ERR_SSL_NO_APPLICATION_PROTOCOL') return 'not-recognized';
  return code.includes('ALERT') || code === 'ECONNRESET' ? 'client-gone' : 'bad-hello';
}

function lossOf(error: NodeJS.ErrnoException): CloseReason {
  return reactorErrorOf(error) === TIMED_OUT ? 'idle-timeout' : 'client-reset';
}
