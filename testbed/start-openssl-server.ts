// `openssl s_server` as a TLS backend. It serves one connection at a time.

import { flag } from './flag.ts';
import { findProgram } from './packages.ts';
import { type Program, startProgram } from './program.ts';

export interface OpensslServerOptions {
  readonly certFile: string;
  readonly keyFile: string;
  /** Default: any free one. */
  readonly port?: number;
  readonly alpn?: readonly string[];
  /**
   * `reverse` (default) answers each line with that line reversed; `www` answers a
   * GET with an HTML page about the TLS session and closes.
   */
  readonly answer?: 'reverse' | 'www';
  /** Further flags of s_server(1), such as `-tls1_2`. */
  readonly flags?: readonly string[];
}

export interface TlsServer extends Program {
  readonly port: number;
}

/** Starts a TLS server on 127.0.0.1. */
export async function startOpensslServer(options: OpensslServerOptions): Promise<TlsServer> {
  const { certFile, keyFile, port = 0, alpn, answer = 'reverse', flags = [] } = options;
  const program = await startProgram({
    command: findProgram('openssl') ?? 'openssl',
    args: [
      's_server',
      ...flag('-accept', `127.0.0.1:${port}`),
      ...flag('-cert', certFile),
      ...flag('-key', keyFile),
      ...flag('-alpn', alpn),
      answer === 'www' ? '-www' : '-rev',
      ...flags,
    ],
    ready: { log: /^ACCEPT .*:\d+$/m },
  });
  return { ...program, port: Number(/^ACCEPT .*:(\d+)$/m.exec(program.log())?.[1]) };
}
