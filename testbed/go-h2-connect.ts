// Go's HTTP/2 as an agent that opens CONNECT streams, as Kubermatic's agent does: see go-h2-connect/main.go.

import { flag } from './flag.ts';
import { goBuild } from './go-build.ts';
import { run } from './run.ts';

export interface GoH2Options {
  readonly connect: string;
  readonly authority: string;
  /** A method other than CONNECT. */
  readonly method?: string;
  /** Value of X-Gardener-Destination. */
  readonly gardener?: string;
  /** Concurrent streams, over one connection as far as the gateway allows. */
  readonly streams?: number;
  /** Pseudo-random bytes that each stream sends before it closes its side. */
  readonly size?: number;
  readonly timeoutMs?: number;
}

export interface GoH2Stream {
  readonly status: number;
  readonly sentSha256: string;
  readonly receivedBytes: number;
  readonly receivedSha256: string;
  /** The first KiB, if nothing was sent or the stream was refused. */
  readonly answer: string;
  readonly error: string;
}

export interface GoH2Report {
  /** Connections that it opened. */
  readonly connections: number;
  readonly streams: readonly GoH2Stream[];
}

const TIMEOUT_MS = 240_000;

export async function goH2Connect(options: GoH2Options): Promise<GoH2Report> {
  const { connect, authority, method, gardener, streams, size, timeoutMs = TIMEOUT_MS } = options;
  const args = [
    ...flag('-connect', connect),
    ...flag('-authority', authority),
    ...flag('-method', method),
    ...flag('-gardener', gardener),
    ...flag('-streams', streams),
    ...flag('-size', size),
    ...flag('-timeout', `${timeoutMs}ms`),
  ];
  // The client's own limit comes first, with a report.
  const { code, stdout, stderr } = await run(await goBuild('go-h2-connect'), args, {
    timeoutMs: timeoutMs + 60_000,
  });
  if (code !== 0) throw new Error(`go-h2-connect ended with code ${code}\n${stderr}`);
  return JSON.parse(stdout.toString()) as GoH2Report;
}
