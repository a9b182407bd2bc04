// An agent's uplink `terminate`: the client's TLS ends here, and a new one, verified, goes to the gateway. ALPN must be
// known before the client is answered: its hello is looked at, the gateway is dialled with what it offers, and the
// client gets what the gateway chose. Bearer tokens survive that; client certificates cannot, and whoever tries to use
// one is told of in the log.

import { createSecureContext, TLSSocket } from 'node:tls';
import { MAX_HELLO, parseClientHello } from '../../wire/client-hello.ts';
import { tlsAlert } from '../../wire/tls-alert.ts';
import { dialGateway, type GatewayError } from './dial-gateway.ts';
import { join } from './join.ts';
import type { TerminateUplink } from './tls-config.ts';
import type { TlsConnection, TlsPart } from './tls-part.ts';

export function terminate(part: TlsPart, connection: TlsConnection, config: TerminateUplink): void {
  const { socket } = connection;
  let held: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => part.refuse(connection, 'hello-timeout'), part.settings.helloMs);
  socket.once('close', () => clearTimeout(timer));
  const onData = (chunk: Buffer) => {
    held = Buffer.concat([held, chunk]);
    const hello = parseClientHello(held, 0, held.length);
    if (hello.kind === 'incomplete' && held.length < MAX_HELLO) return;
    clearTimeout(timer);
    socket.off('data', onData);
    socket.pause();
    if (hello.kind !== 'found') {
      socket.write(tlsAlert('decode_error'));
      return part.refuse(connection, 'bad-hello');
    }
    socket.unshift(held);
    void openAnew(part, connection, config, hello.value.alpn);
  };
  socket.on('data', onData);
  socket.resume();
}

async function openAnew(
  part: TlsPart,
  connection: TlsConnection,
  { gateway, certificate }: TerminateUplink,
  offered: readonly string[],
): Promise<void> {
  const { connectMs, keepaliveMs } = part.settings;
  const { socket } = connection;
  const startedAt = performance.now();
  try {
    const options = offered.length === 0 ? {} : { ALPNProtocols: [...offered] };
    const outer = await dialGateway(gateway, options, connectMs, keepaliveMs);
    if (socket.destroyed) {
      outer.destroy();
      return;
    }
    part.reached(connection, performance.now() - startedAt);
    const inner = new TLSSocket(socket, {
      isServer: true,
      secureContext: createSecureContext({ ...certificate, minVersion: 'TLSv1.2' }),
      ...(typeof outer.alpnProtocol === 'string' && { ALPNProtocols: [outer.alpnProtocol] }),
      // Asked for only to see who would use one.
      requestCert: true,
      rejectUnauthorized: false,
    });
    inner.allowHalfOpen = true;
    inner.once('secure', () => {
      const subject = inner.getPeerCertificate().subject as { CN?: string } | undefined;
      if (subject !== undefined) {
        part.trouble(
          'client certificate lost',
          `a client wanted to use the certificate of '${subject.CN ?? ''}', which ends here: it is not logged in at the API server. Use a token, or the uplink tunnel, proxy or connect`,
        );
      }
    });
    join(inner, outer);
  } catch (error) {
    const { message, timedOut } = error as GatewayError;
    part.trouble('gateway not reached', message);
    if (!socket.destroyed) socket.write(tlsAlert('internal_error'));
    part.refuse(connection, timedOut ? 'connect-timeout' : 'connect-failed');
  }
}
