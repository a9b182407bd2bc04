// `gnutls-cli` as a client.

import { readFile } from 'node:fs/promises';
import { flag } from './flag.ts';
import { findProgram } from './packages.ts';
import { run } from './run.ts';
import { tempDir } from './temp-dir.ts';
import { splitAddress, type TlsClientOptions, type TlsClientReport } from './tls-client.ts';

/** Connects to a TLS server. */
export async function gnutlsClient(options: TlsClientOptions): Promise<TlsClientReport> {
  const { connect, serverName, alpn = [], input = '', answerBytes = Infinity, ca } = options;
  const { host, port } = splitAddress(connect);
  await using dir = await tempDir();
  const log = dir.file('log');
  const args = [
    // With a log file, stdout has the data only.
    ...flag('--logfile', log),
    ...flag('--port', port),
    ...(serverName === undefined ? ['--disable-sni'] : flag('--sni-hostname', serverName)),
    ...alpn.flatMap(name => flag('--alpn', name)),
    ...(ca === undefined
      ? ['--insecure']
      : [...flag('--x509cafile', ca), ...flag('--verify-hostname', serverName ?? host)]),
    host,
  ];
  const { stdout, stderr } = await run(findProgram('gnutls-cli') ?? 'gnutls-cli', args, {
    netns: options.netns,
    input,
    inputUntil: printed => printed.length >= answerBytes,
  });
  const printed = `${await readFile(log, 'utf8').catch(() => '')}${stderr}`;
  const alert = /Received alert \[(\d+)\]/.exec(printed)?.[1];
  return {
    handshake: printed.includes('- Handshake was completed'),
    answer: stdout,
    alert: alert === undefined ? undefined : Number(alert),
    alpn: /^- Application protocol: (.+)$/m.exec(printed)?.[1],
    printed,
  };
}
