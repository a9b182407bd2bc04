// What every TLS client of the test bed is asked and tells, whichever program it is.

import type { Netns } from './netns.ts';

export interface TlsClientOptions {
  /** `host:port` or `[v6]:port` to dial. */
  readonly connect: string;
  /** Sent as SNI, and what the certificate must be for when `ca` is given. None: no SNI is sent. */
  readonly serverName?: string;
  readonly alpn?: readonly string[];
  /** Sent after the handshake. */
  readonly input?: string | Uint8Array;
  /** Closes after this many bytes have come. Default: when the server closes. */
  readonly answerBytes?: number;
  /** File with the authority to trust. Default: trusts anyone. */
  readonly ca?: string;
  /** The host it runs on. */
  readonly netns?: Netns;
}

export interface TlsClientReport {
  readonly handshake: boolean;
  /** All that the server sent. */
  readonly answer: Buffer;
  /** The number of the alert that ended it (RFC 8446 6), where one was received. */
  readonly alert: number | undefined;
  /** The protocol agreed on; undefined where there is none, and for programs that do not tell. */
  readonly alpn: string | undefined;
  /** What the program printed besides, for a failing test. */
  readonly printed: string;
}

/** The parts of `host:port`, the brackets of an IPv6 address removed. */
export function splitAddress(address: string): { host: string; port: number } {
  const match = /^(?:\[(?<six>[^\]]+)\]|(?<host>[^:]+)):(?<port>\d+)$/.exec(address);
  if (!match?.groups)
    throw new Error(`Cannot dial as the address must be host:port: current value is '${address}'`);
  return { host: (match.groups.six ?? match.groups.host) as string, port: Number(match.groups.port) };
}
