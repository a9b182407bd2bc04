// Options and report of every TLS client of the test bed.

import type { Netns } from './netns.ts';

export interface TlsClientOptions {
  /** `host:port` or `[v6]:port` to dial. */
  readonly connect: string;
  /** Sent as SNI; with `ca`, the certificate must be for it. Absent: no SNI is sent. */
  readonly serverName?: string;
  readonly alpn?: readonly string[];
  /** Sent after the handshake. */
  readonly input?: string | Uint8Array;
  /** Closes after this many bytes were received. Default: when the server closes. */
  readonly answerBytes?: number;
  /** File with the authority to trust. Default: trusts anyone. */
  readonly ca?: string;
  /** The host it runs on. */
  readonly netns?: Netns;
}

export interface TlsClientReport {
  readonly handshake: boolean;
  /** Everything that the server sent. */
  readonly answer: Buffer;
  /** The number of the received alert (RFC 8446 6), if any. */
  readonly alert: number | undefined;
  /** The negotiated ALPN protocol; undefined without one, and for programs that do not report it. */
  readonly alpn: string | undefined;
  /** The rest of the program's output, for a failing test. */
  readonly printed: string;
}

/** Splits `host:port`, and removes the brackets of an IPv6 address. */
export function splitAddress(address: string): { host: string; port: number } {
  const match = /^(?:\[(?<six>[^\]]+)\]|(?<host>[^:]+)):(?<port>\d+)$/.exec(address);
  if (!match?.groups)
    throw new Error(`Cannot dial as the address must be host:port: current value is '${address}'`);
  return { host: (match.groups.six ?? match.groups.host) as string, port: Number(match.groups.port) };
}
