// Java's TLS (JSSE) as a client.

import { fileURLToPath } from 'node:url';
import { built } from './cache.ts';
import { run } from './run.ts';
import { splitAddress, type TlsClientOptions, type TlsClientReport } from './tls-client.ts';

const SOURCE = new URL('./java-client/TlsClient.java', import.meta.url);

/** Java prints the name of an alert, as in `Received fatal alert: unrecognized_name` (RFC 8446 B.2, 5246 A.3). */
const ALERTS: Readonly<Record<string, number>> = {
  close_notify: 0,
  unexpected_message: 10,
  bad_record_mac: 20,
  record_overflow: 22,
  handshake_failure: 40,
  bad_certificate: 42,
  certificate_expired: 45,
  certificate_unknown: 46,
  illegal_parameter: 47,
  unknown_ca: 48,
  access_denied: 49,
  decode_error: 50,
  decrypt_error: 51,
  protocol_version: 70,
  insufficient_security: 71,
  internal_error: 80,
  user_canceled: 90,
  missing_extension: 109,
  unsupported_extension: 110,
  unrecognized_name: 112,
  certificate_required: 116,
  no_application_protocol: 120,
};

/** Connects to a TLS server. It checks who signed the certificate, not its name. */
export async function javaClient(options: TlsClientOptions): Promise<TlsClientReport> {
  const { connect, serverName = '', alpn = [], input = '', answerBytes = -1, ca = '' } = options;
  const { host, port } = splitAddress(connect);
  // First compiler tier only, no class-data archive: it starts in half the time.
  const java = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp', await javaBuild(), 'TlsClient'];
  const args = [...java, host, String(port), serverName, alpn.join(','), ca, String(answerBytes)];
  const { code, stdout, stderr } = await run('java', args, { input, netns: options.netns });
  if (code !== 0) throw new Error(`java ended with code ${code}\n${stderr}`);
  const report = JSON.parse(stdout.toString());
  return {
    handshake: report.handshake,
    answer: Buffer.from(report.answer, 'base64'),
    alert: ALERTS[/Received fatal alert: (\w+)/.exec(report.error)?.[1] ?? ''],
    alpn: report.alpn || undefined,
    printed: `${stdout}${stderr}`,
  };
}

/** Compiles it if needed, and returns the class path. */
export async function javaBuild(): Promise<string> {
  const version = await run('javac', ['-version']);
  return built('java-client', {
    pins: [SOURCE, `${version.stdout}${version.stderr}`],
    async build(directory, progress) {
      progress('javac');
      const { code, stderr } = await run('javac', ['-d', directory, fileURLToPath(SOURCE)], {
        timeoutMs: 240_000,
      });
      if (code !== 0) throw new Error(`javac ended with code ${code}\n${stderr}`);
    },
  });
}
