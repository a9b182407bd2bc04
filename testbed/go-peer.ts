// Backends with Go's TLS: an echo server, and the two ends of a long transfer in both directions at once.

import { flag } from './flag.ts';
import { goBuild } from './go-build.ts';
import { startProgram } from './program.ts';
import { run } from './run.ts';
import type { TlsServer } from './start-openssl-server.ts';

export interface GoPeerReport {
  readonly peer: string;
  readonly sni: string;
  readonly alpn: string;
  readonly sentBytes: number;
  readonly sentSha256: string;
  readonly receivedBytes: number;
  readonly receivedSha256: string;
  readonly seconds: number;
  /** Empty if it ended well. */
  readonly error: string;
}

export interface GoServer extends TlsServer {
  /** One for each ended connection. */
  reports(): GoPeerReport[];
}

interface ServerOptions {
  readonly certFile: string;
  readonly keyFile: string;
  readonly alpn?: readonly string[];
}

interface BulkOptions {
  /** Bytes that this end sends. */
  readonly bytes: number;
  /** Seed of those bytes. */
  readonly seed: number;
}

export interface BulkClientOptions extends BulkOptions {
  readonly connect: string;
  readonly serverName: string;
  readonly ca?: string;
  readonly timeoutMs?: number;
}

/** A GiB each way takes a few seconds directly, and more through a gateway on two cores. */
const BULK_TIMEOUT_MS = 240_000;

/** Starts an echo server on 127.0.0.1; it closes its side after the client has closed its own. */
export function startGoServer(options: ServerOptions): Promise<GoServer> {
  return startPeer('echo', options, []);
}

/** Starts the far end of a transfer on 127.0.0.1. */
export function startBulkServer(options: ServerOptions & BulkOptions): Promise<GoServer> {
  return startPeer('bulk-server', options, bulkFlags(options));
}

/** Sends and receives at once, until both ends have sent everything. */
export async function bulkClient(options: BulkClientOptions): Promise<GoPeerReport> {
  const { connect, serverName, ca, timeoutMs = BULK_TIMEOUT_MS } = options;
  const target = [...flag('-connect', connect), ...flag('-sni', serverName), ...flag('-ca', ca)];
  const args = ['bulk-client', ...target, ...bulkFlags(options)];
  const { stdout, stderr } = await run(await goBuild('go-peer'), args, { timeoutMs });
  const [report] = reportsIn(stdout.toString());
  if (report === undefined) throw new Error(`go-peer could not begin: ${stderr}`);
  return report;
}

async function startPeer(verb: string, options: ServerOptions, flags: readonly string[]): Promise<GoServer> {
  const { certFile, keyFile, alpn } = options;
  const program = await startProgram({
    command: await goBuild('go-peer'),
    args: [verb, ...flag('-cert', certFile), ...flag('-key', keyFile), ...flag('-alpn', alpn), ...flags],
    ready: { log: /^listening .*:\d+$/m },
  });
  const port = Number(/^listening .*:(\d+)$/m.exec(program.log())?.[1]);
  return { ...program, port, reports: () => reportsIn(program.log()) };
}

function bulkFlags({ bytes, seed }: BulkOptions): string[] {
  return [...flag('-bytes', bytes), ...flag('-seed', seed)];
}

function reportsIn(log: string): GoPeerReport[] {
  const lines = log.match(/^\{.*\}$/gm) ?? [];
  return lines.map(line => JSON.parse(line) as GoPeerReport);
}
