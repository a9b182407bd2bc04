// An agent's uplink `terminate`: terminates the client's TLS and opens a new, verified TLS connection to the gateway.
// ALPN must be settled before the client is answered: the gateway is dialled with the protocols of the client's hello,
// and the client gets the one that the gateway chose. Bearer tokens survive; client certificates cannot, and a client
// that uses one is reported in the log.

import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { MAX_HELLO, parseClientHello } from '../../wire/client-hello.ts';
import type { CloseReason } from '../close-reason.ts';
import { guard } from '../guard.ts';
import type { GatewayConnection } from './dial-gateway.ts';
import { join } from './join.ts';
import type { ServingThread } from './serving-thread.ts';
import type { GatewayPlace, TerminateUplink } from './tls-config.ts';
import type { TlsConnection } from './tls-connection.ts';

/** The message in the log and the findings when a client used a certificate. */
export const CERTIFICATE_LOST = 'client certificate lost';

/**
 * A client's alert, in OpenSSL's words. They are always in the message, but not always in the code: once the gateway
 * has sent something, as an HTTP/2 server does at once, the code is EPROTO, from a write.
 */
const ALERT = /\b(?:tls|ssl)v\d+ alert [a-z ]+/;

/** Loads the certificate once, not for each client. */
export class Terminator {
  readonly #gateway: GatewayPlace;
  readonly #context: SecureContext;

  constructor({ gateway, certificate }: TerminateUplink) {
    this.#gateway = gateway;
    this.#context = createSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
  }

  async terminate(thread: ServingThread, connection: TlsConnection): Promise<void> {
    const offered = await readOffer(connection, thread.settings.helloMs);
    if (typeof offered === 'string') return thread.refuse(connection, offered);
    const outer = await thread.dialGateway(connection, this.#gateway, {
      ...(offered.length > 0 && { ALPNProtocols: [...offered] }),
      wrongProtocol: `${this.#gateway.serverName} takes none of the protocols that the client offers (${offered.join(', ')}). Is --server-name a host of the API server?`,
    });
    if (outer !== undefined) joinClient(thread, connection, outer, this.#context);
  }
}

/** The ALPN protocols of the client's hello, or why there is no hello. The hello stays in the socket. */
function readOffer(
  { socket, gone }: TlsConnection,
  helloMs: number,
): Promise<readonly string[] | CloseReason> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly string[] | CloseReason>();
  const owner = { onFault: reject };
  let held: Buffer = Buffer.alloc(0);
  let need = 0;
  const onData = guard(owner, (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    if (held.length < need) return;
    const hello = parseClientHello(held, 0, held.length);
    if (hello.kind === 'incomplete' && held.length < MAX_HELLO) need = hello.need ?? 0;
    else resolve(hello.kind === 'found' ? hello.value.alpn : 'bad-hello');
  });
  const onEnd = guard(owner, () => resolve(held.length === 0 ? 'no-data' : 'client-gone'));
  const timer = setTimeout(
    guard(owner, () => resolve('hello-timeout')),
    helloMs,
  );
  socket.on('data', onData);
  socket.once('end', onEnd);
  socket.resume();
  gone.addEventListener('abort', onEnd);
  return promise.finally(() => {
    clearTimeout(timer);
    gone.removeEventListener('abort', onEnd);
    socket.off('data', onData);
    socket.off('end', onEnd);
    socket.pause();
    if (held.length > 0 && !socket.readableEnded) socket.unshift(held);
  });
}

function joinClient(
  thread: ServingThread,
  connection: TlsConnection,
  outer: GatewayConnection,
  secureContext: SecureContext,
): void {
  const { gone } = connection;
  const { alpnProtocol } = outer.tls;
  connection.socket.unshift(connection.take());
  const inner = new TLSSocket(connection.socket, {
    isServer: true,
    secureContext,
    ...(typeof alpnProtocol === 'string' && { ALPNProtocols: [alpnProtocol] }),
    // Requested only to detect clients that would use one.
    requestCert: true,
    rejectUnauthorized: false,
  });
  connection.through(inner);
  gone.addEventListener(
    'abort',
    guard(connection, () => outer.reset()),
  );
  let isOpen = false;
  const opened = () => {
    isOpen = true;
    const { subject } = inner.getPeerCertificate() as { subject?: { CN?: string } };
    if (subject === undefined) return;
    thread.trouble(
      CERTIFICATE_LOST,
      `a client presented a certificate (${subject.CN ?? 'without a name'}), which the API server cannot see, since TLS ends here. Use a token, or an uplink that passes TLS through: tunnel, proxy or connect`,
    );
  };
  const failed = (error: NodeJS.ErrnoException) => {
    if (isOpen) return;
    const alert = ALERT.exec(error.message)?.[0];
    if (alert !== undefined) thread.trouble('client left', explainAlert(alert));
    thread.refuse(connection, alert === undefined ? 'bad-hello' : 'client-gone');
  };
  inner.once('secure', guard(connection, opened));
  inner.once('error', guard(connection, failed));
  connection.joined(inner, outer.tls);
  join({
    owner: connection,
    near: inner,
    far: outer.tls,
    nearLost: () => thread.lose(connection),
    farLost: () => thread.break(connection, inner),
  });
}

function explainAlert(alert: string): string {
  return `a client refused the certificate in --cert-file: ${alert}. Is it for the address that clients dial, and do they know who signed it?`;
}
