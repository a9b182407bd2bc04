// `gnutls-serv` as a TLS backend: echoes lines, on many connections at a time.

import { flag } from './flag.ts';
import { freePort } from './free-port.ts';
import { findProgram } from './packages.ts';
import { startProgram } from './program.ts';
import type { TlsServer } from './start-openssl-server.ts';

export interface GnutlsServerOptions {
  readonly certFile: string;
  readonly keyFile: string;
  readonly alpn?: readonly string[];
}

/** Starts a TLS echo server; it listens on every address of the machine. */
export async function startGnutlsServer({
  certFile,
  keyFile,
  alpn = [],
}: GnutlsServerOptions): Promise<TlsServer> {
  const port = await freePort();
  const program = await startProgram({
    command: findProgram('gnutls-serv') ?? 'gnutls-serv',
    args: [
      '--echo',
      '--disable-client-cert',
      ...flag('--port', port),
      ...flag('--x509certfile', certFile),
      ...flag('--x509keyfile', keyFile),
      ...alpn.flatMap(name => flag('--alpn', name)),
    ],
    ready: { log: /listening on IPv4 .*done/ },
  });
  return { ...program, port };
}
