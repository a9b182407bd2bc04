// Looks at the certificate that a backend presents: one TLS handshake, without verification, since the gateway does not
// have the tenant's CA. Nothing that the backend sends is kept or shown: OpenSSL compares the names. It refuses
// certificates over 100 KiB, and a deadline bounds everything else.

import { connect } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import { isHostname } from '../cluster/hostname.ts';
import { sayGoodbye } from './say-goodbye.ts';

export interface CertificateTarget {
  readonly host: string;
  readonly port: number;
  /** Sent as SNI. A wildcard cannot be: then none is. */
  readonly serverName: string;
  /** The names to look for. */
  readonly names: readonly string[];
}

export interface SeenCertificate {
  /** Those of the names that it is valid for. */
  readonly covered: readonly string[];
  /** In ms since 1970. NaN if it cannot be read. */
  readonly notAfter: number;
}

/** Undefined if no certificate could be seen. Never rejects. */
export type LookAtCertificate = (
  target: CertificateTarget,
  signal: AbortSignal,
) => Promise<SeenCertificate | undefined>;

/** As clients do (RFC 6125): no common name, and a wildcard is a whole label. */
const MATCHING = { subject: 'never', partialWildcards: false } as const;

/** An old server has a certificate, too. Created once, because it takes a millisecond. */
const anyTls = createSecureContext({ ca: [], minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' });

export const lookAtCertificate: LookAtCertificate = async ({ host, port, serverName, names }, signal) => {
  const socket = connect({ host, port });
  // The TLS socket hears of it by its end.
  socket.on('error', () => {});
  const end = () => socket.destroy();
  try {
    const secure = connectTls({
      socket,
      secureContext: anyTls,
      rejectUnauthorized: false,
      ...(isHostname(serverName) && { servername: serverName }),
    });
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    await until(secure, 'secureConnect');
    const certificate = secure.getPeerX509Certificate();
    const seen = certificate && {
      covered: names.filter(name => certificate.checkHost(name, MATCHING) !== undefined),
      notAfter: Date.parse(certificate.validTo),
    };
    await sayGoodbye(secure);
    return seen;
  } catch {
    return undefined;
  } finally {
    signal.removeEventListener('abort', end);
    socket.destroy();
  }
};

/** Rejects if the connection ends before. */
function until(secure: TLSSocket, event: string): Promise<void> {
  return new Promise((resolve, reject) => {
    // Stays, so that a later error has somebody who takes it.
    secure.on('error', reject);
    secure.once('close', () => reject(new Error('closed')));
    secure.once(event, () => resolve());
  });
}
