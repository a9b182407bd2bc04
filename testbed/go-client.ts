// A client with Go's TLS, as kubectl and all of Kubernetes use it: it sends a post-quantum key share by default.

import { flag } from './flag.ts';
import { goBuild } from './go-build.ts';
import { run } from './run.ts';
import type { TlsClientOptions, TlsClientReport } from './tls-client.ts';

export interface GoClientOptions extends TlsClientOptions {
  /** Sends this many pseudo-random bytes in place of `input`. */
  readonly size?: number;
  /** Seed of those bytes. */
  readonly seed?: number;
  /** Closes its sending side, TLS and TCP, after the last byte. */
  readonly halfClose?: boolean;
  readonly timeoutMs?: number;
}

export interface GoClientReport extends TlsClientReport {
  readonly version: string;
  /** For example `X25519MLKEM768`. */
  readonly curve: string;
  readonly error: string;
  readonly sentBytes: number;
  readonly sentSha256: string;
  /** Total; `answer` has the first MiB. */
  readonly receivedBytes: number;
  readonly receivedSha256: string;
}

const TIMEOUT_MS = 120_000;

/** Connects to a TLS server. Without a `serverName` it dials an IP address and sends no SNI, as pods do. */
export async function goClient(options: GoClientOptions): Promise<GoClientReport> {
  const {
    connect,
    serverName,
    alpn,
    input = '',
    answerBytes,
    ca,
    size,
    seed,
    timeoutMs = TIMEOUT_MS,
  } = options;
  const args = [
    ...flag('-connect', connect),
    ...flag('-sni', serverName),
    ...flag('-alpn', alpn),
    ...flag('-ca', ca),
    ...flag('-answer', answerBytes),
    ...flag('-size', size),
    ...flag('-seed', seed),
    ...(options.halfClose === true ? ['-half-close'] : []),
    ...flag('-timeout', `${timeoutMs}ms`),
  ];
  // The client's own limit comes first, with a report.
  const result = await run(await goBuild('go-client'), args, {
    input,
    netns: options.netns,
    timeoutMs: timeoutMs + 60_000,
  });
  const { code, stdout, stderr } = result;
  if (code !== 0) throw new Error(`go-client ended with code ${code}\n${stderr}`);
  const report = JSON.parse(stdout.toString());
  return {
    ...report,
    answer: Buffer.from(report.answer ?? '', 'base64'),
    alert: report.alert ?? undefined,
    alpn: report.alpn || undefined,
    printed: `${stdout}${stderr}`,
  };
}
