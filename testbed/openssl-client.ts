// `openssl s_client` as a client. It cannot print plain data and the ALPN protocol at the same time.

import { flag } from './flag.ts';
import { findProgram } from './packages.ts';
import { run } from './run.ts';
import type { TlsClientOptions, TlsClientReport } from './tls-client.ts';

/** Connects to a TLS server. */
export async function opensslClient(options: TlsClientOptions): Promise<TlsClientReport> {
  const { connect, serverName, alpn, input = '', answerBytes = Infinity, ca } = options;
  const args = [
    's_client',
    '-brief',
    '-nocommands',
    ...flag('-connect', connect),
    ...(serverName === undefined ? ['-noservername'] : flag('-servername', serverName)),
    ...flag('-alpn', alpn),
    ...(ca === undefined
      ? []
      : ['-verify_return_error', ...flag('-CAfile', ca), ...flag('-verify_hostname', serverName)]),
  ];
  const { stdout, stderr } = await run(findProgram('openssl') ?? 'openssl', args, {
    netns: options.netns,
    input,
    inputUntil: printed => printed.length >= answerBytes,
  });
  const alert = /SSL alert number (\d+)/.exec(stderr)?.[1];
  return {
    handshake: stderr.includes('CONNECTION ESTABLISHED'),
    answer: stdout,
    alert: alert === undefined ? undefined : Number(alert),
    alpn: undefined,
    printed: stderr,
  };
}
