// Builds and runs load/tls: new connections with real TLS handshakes, client and server in one program.

import { fileURLToPath } from 'node:url';
import { built } from '../testbed/cache.ts';
import { run } from '../testbed/run.ts';
import type { Bed } from './bed.ts';
import type { Times } from './load-generator.ts';
import type { RunningPeer } from './peers/peer.ts';
import { hostOf } from './routes.ts';

const SOURCE = new URL('./load/tls/', import.meta.url);
/** A first build compiles the standard library too. */
const BUILD_TIMEOUT_MS = 10 * 60_000;
const MARGIN_MS = 30_000;

export interface TlsResult {
  readonly seconds: number;
  /** Share of its cores that the load itself used. */
  readonly busy: number;
  readonly connections: number;
  readonly failed: number;
  readonly firstFailure: string;
  readonly connectionUs: Times;
}

export async function buildTlsLoad(): Promise<string> {
  const { stdout } = await run('go', ['version']);
  const directory = await built('bench-tls', {
    pins: [SOURCE, stdout.toString()],
    async build(directory) {
      const args = ['build', '-trimpath', '-buildvcs=false', '-o', `${directory}/tls`, '.'];
      const env = { CGO_ENABLED: '0', GOWORK: 'off' };
      const options = { cwd: fileURLToPath(SOURCE), env, timeoutMs: BUILD_TIMEOUT_MS };
      const { code, stderr } = await run('go', args, options);
      if (code !== 0) throw new Error(`go build ended with code ${code}\n${stderr}`);
    },
  });
  return `${directory}/tls`;
}

/** Makes as many connections as possible in that time, with this concurrency. */
export async function runTlsLoad(
  bed: Bed,
  peer: RunningPeer,
  { seconds, clients }: { readonly seconds: number; readonly clients: number },
): Promise<TlsResult> {
  const { cores } = bed.load;
  const flags = {
    listen: bed.ports.tls,
    dial: peer.port('tls'),
    name: hostOf('tls'),
    clients,
    seconds,
    cores: cores.length,
  };
  const args = ['-c', cores.join(','), await bed.tlsProgram()];
  for (const [flag, value] of Object.entries(flags)) args.push(`-${flag}=${value}`);
  const { code, stdout, stderr } = await run('taskset', args, { timeoutMs: seconds * 1000 + MARGIN_MS });
  if (code !== 0) throw new Error(`The TLS load ended with code ${code}\n${stderr}`);
  return JSON.parse(stdout.toString()) as TlsResult;
}
