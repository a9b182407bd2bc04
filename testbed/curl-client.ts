// curl as a client, for HTTP over TLS (OpenSSL's) and in the clear.

import { flag } from './flag.ts';
import type { Netns } from './netns.ts';
import { findProgram } from './packages.ts';
import { run } from './run.ts';
import type { TlsClientReport } from './tls-client.ts';

export interface CurlOptions {
  /** Its host is sent as SNI and Host. */
  readonly url: string;
  /** `host:port` to dial instead of the URL's. */
  readonly connect?: string;
  /** File with the authority to trust. Default: trusts anyone. */
  readonly ca?: string;
  /** ALPN protocols offered. Default http/1.1. */
  readonly http?: '1.1' | '2';
  /** Further flags of curl(1). */
  readonly flags?: readonly string[];
  /** The host it runs on. */
  readonly netns?: Netns;
}

export interface CurlReport extends TlsClientReport {
  /** 0 without a response. */
  readonly status: number;
}

/** curl prints OpenSSL's error code, whose reason part (ERR_GET_REASON, 23 bits) is 1000 + alert for one received. */
const OPENSSL_ERROR = /error:([0-9A-F]{8}):SSL routines/i;
const REASON_MASK = 0x7fffff;
const ALERT_REASONS = 1000;

/** Requests a page. `answer` is its body. */
export async function curlClient(options: CurlOptions): Promise<CurlReport> {
  const { url, connect, ca, http = '1.1', flags = [] } = options;
  const args = [
    '--silent',
    '--show-error',
    `--http${http}`,
    ...flag('--noproxy', '*'),
    ...flag('--write-out', '%{stderr}%{json}'),
    ...flag('--connect-to', connect === undefined ? undefined : `::${connect}`),
    ...(ca === undefined ? ['--insecure'] : flag('--cacert', ca)),
    ...flags,
    url,
  ];
  const { stdout, stderr } = await run(findProgram('curl') ?? 'curl', args, { netns: options.netns });
  const summary = JSON.parse(/^\{.*\}$/m.exec(stderr)?.[0] ?? '{}') as Partial<Record<string, unknown>>;
  const reason = Number.parseInt(OPENSSL_ERROR.exec(stderr)?.[1] ?? '0', 16) & REASON_MASK;
  return {
    handshake: Number(summary.time_appconnect ?? 0) > 0,
    answer: stdout,
    alert: reason >= ALERT_REASONS && reason < ALERT_REASONS + 256 ? reason - ALERT_REASONS : undefined,
    alpn: { '1.1': 'http/1.1', '2': 'h2' }[String(summary.http_version)],
    status: Number(summary.response_code ?? 0),
    printed: stderr,
  };
}
