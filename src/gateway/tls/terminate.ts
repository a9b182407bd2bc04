// An agent's uplink `terminate`: the client's TLS ends here, and a new one, verified, goes to the gateway. ALPN must be
// known before the client is answered: its hello is looked at, the gateway is dialled with what it offers, and the
// client gets what the gateway chose. Bearer tokens survive that; client certificates cannot, and whoever tries to use
// one is told of in the log.

import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { MAX_HELLO, parseClientHello } from '../../wire/client-hello.ts';
import type { CloseReason } from '../close-reason.ts';
import { guard } from '../guard.ts';
import type { GatewayConnection } from './dial-gateway.ts';
import { join } from './join.ts';
import type { GatewayPlace, TerminateUplink } from './tls-config.ts';
import type { TlsConnection } from './tls-connection.ts';
import type { TlsThread } from './tls-thread.ts';

/** What a client wanted to use and could not, under the same words in the log and among the findings. */
export const CERTIFICATE_LOST = 'client certificate lost';

/**
 * The client's, in OpenSSL's words. They are in the message in any case; the code has them only where the gateway has
 * said nothing yet, as a server of HTTP/2 does at once: then it is EPROTO, that of a write.
 */
const ALERT = /\b(?:tls|ssl)v\d+ alert [a-z ]+/;

/** The certificate is made ready once, not for each client. */
export class Terminator {
  readonly #gateway: GatewayPlace;
  readonly #context: SecureContext;

  constructor({ gateway, certificate }: TerminateUplink) {
    this.#gateway = gateway;
    this.#context = createSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
  }

  async terminate(thread: TlsThread, connection: TlsConnection): Promise<void> {
    const offered = await readOffer(connection, thread.settings.helloMs);
    if (typeof offered === 'string') return thread.refuse(connection, offered);
    const outer = await thread.dialGateway(connection, this.#gateway, {
      ...(offered.length > 0 && { ALPNProtocols: [...offered] }),
      wrongProtocol: `${this.#gateway.serverName} takes none of the protocols that the client offers (${offered.join(', ')}). Is --server-name a host of the API server?`,
    });
    if (outer !== undefined) openAnew(thread, connection, outer, this.#context);
  }
}

/** The protocols that the client's hello offers, or why there is none. The hello stays in the socket. */
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

function openAnew(
  thread: TlsThread,
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
    // Asked for only to see who would use one.
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
      `a client wanted to use its certificate (${subject.CN ?? 'without a name'}), which ends here: the API server does not see it. Use a token, or another uplink: tunnel, proxy and connect leave TLS closed`,
    );
  };
  const failed = (error: NodeJS.ErrnoException) => {
    if (isOpen) return;
    const alert = ALERT.exec(error.message)?.[0];
    if (alert !== undefined) thread.trouble('client left', distrust(alert));
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

function distrust(alert: string): string {
  return `a client refused the certificate in --cert-file: ${alert}. Is it for the address that clients dial, and do they know who signed it?`;
}
