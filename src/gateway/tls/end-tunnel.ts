// The gateway's end of the agents' `tunnel`: the outer TLS ends here. What is inside goes back to the front as a
// connection of its own, and is identified there like every other: its header names a cluster and must prove it.

import { X509Certificate } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { buildHandOver } from '../hand-over.ts';
import { TUNNEL_ALPN } from './enter-tunnel.ts';
import { join } from './join.ts';
import type { TunnelEnd } from './tls-config.ts';
import type { TlsConnection, TlsPart } from './tls-part.ts';

/** The certificates as they are now. */
export class TunnelContexts {
  readonly #entries: readonly { readonly certificate: X509Certificate; readonly context: SecureContext }[];

  constructor({ certificates }: TunnelEnd) {
    this.#entries = certificates.map(({ cert, key }) => ({
      certificate: new X509Certificate(cert),
      context: createSecureContext({ cert, key, minVersion: 'TLSv1.2' }),
    }));
  }

  /** The one that is for that name, else the first. */
  find(name: string): SecureContext | undefined {
    const fits = this.#entries.find(({ certificate }) => certificate.checkHost(name) !== undefined);
    return (fits ?? this.#entries[0])?.context;
  }
}

export function endTunnel(part: TlsPart, connection: TlsConnection, contexts: TunnelContexts): void {
  const { socket } = connection;
  const outer = new TLSSocket(socket, {
    isServer: true,
    SNICallback: (name, done) => done(null, contexts.find(name)),
    secureContext: contexts.find(''),
    ALPNCallback: ({ protocols }) => protocols.find(name => name === TUNNEL_ALPN),
  });
  outer.allowHalfOpen = true;
  const timer = setTimeout(() => socket.destroy(), part.settings.helloMs);
  outer.once('close', () => clearTimeout(timer));
  outer.on('error', () => socket.destroy());
  outer.once('secure', () => {
    clearTimeout(timer);
    // A client that offers no ALPN is none of our agents.
    if (outer.alpnProtocol !== TUNNEL_ALPN) return part.refuse(connection, 'not-recognized');
    comeBack(part, connection, outer);
  });
}

function comeBack(part: TlsPart, connection: TlsConnection, outer: TLSSocket): void {
  const path = part.nextFront();
  if (path === undefined) return part.refuse(connection, 'no-backend');
  const { source, destination, told } = connection;
  const inner: Socket = connect({ path, allowHalfOpen: true });
  inner.write(buildHandOver(source, destination, { ...told, isTunnelled: true }));
  join(outer, inner);
}
