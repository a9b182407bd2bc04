// Builds and runs load/*.c: clients and backends in one program, for measurements without real TLS.

import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { built } from '../testbed/cache.ts';
import { describeExit, spawnGroup } from '../testbed/process-group.ts';
import { run } from '../testbed/run.ts';
import type { Bed } from './bed.ts';
import type { RunningPeer } from './peers/peer.ts';

const SOURCE = new URL('./load/', import.meta.url);
/** To open and close all tunnels, in addition to the measured time. */
const MARGIN_MS = 60_000;

export interface Times {
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

export interface LoadResult {
  readonly seconds: number;
  /** Share of its cores that the load itself used: near 1, the load was the limit, not the proxy. */
  readonly busy: number;
  readonly connections: number;
  readonly pings: number;
  readonly requests: number;
  readonly sent: number;
  readonly received: number;
  readonly connectionUs: Times;
  readonly pingUs: Times;
  readonly requestUs: Times;
  /** Errors by kind. */
  readonly errors: Readonly<Record<string, number>>;
}

/** The parts of the load, all concurrent. */
export interface LoadOptions {
  /** Absent: until `end()`. */
  readonly seconds?: number;
  /** Concurrent short connections, each of which receives one byte. */
  readonly flood?: number;
  /** Their rate per second; absent: as fast as possible. */
  readonly rate?: number;
  /** Numbered hosts that they use. */
  readonly hosts?: number;
  /** Tunnels that ping. */
  readonly pings?: number;
  /** Seconds between a tunnel's pings; 0: after each response; -1: never. */
  readonly every?: number;
  /** Tunnels that carry bytes to and from the client. */
  readonly down?: number;
  readonly up?: number;
  /** Connections with consecutive HTTP requests, and the size of a response body. */
  readonly requests?: number;
  readonly body?: number;
  /** The size of a request's body; absent: a GET. */
  readonly posted?: number;
  /** 1: backends listen on all addresses, for proxies in other network namespaces. */
  readonly any?: number;
}

export interface Load {
  /** Resolves when all tunnels are open and the measurement has begun. */
  readonly running: Promise<void>;
  readonly result: Promise<LoadResult>;
  /** Connects to a name until it is served, and returns the time of that (CLOCK_MONOTONIC, ns). */
  probe(name: string): Promise<bigint>;
  end(): void;
}

export async function buildLoad(): Promise<string> {
  const { stdout } = await run('cc', ['--version']);
  const directory = await built('bench-load', {
    pins: [SOURCE, stdout.toString()],
    async build(directory) {
      const names = ['main', 'loop', 'backend', 'flood', 'tunnel', 'web', 'histogram'];
      const sources = names.map(name => fileURLToPath(new URL(`${name}.c`, SOURCE)));
      const args = [
        '-O2',
        '-std=gnu17',
        '-Wall',
        '-Wextra',
        '-pthread',
        '-o',
        `${directory}/load`,
        ...sources,
      ];
      const { code, stderr } = await run('cc', args);
      if (code !== 0) throw new Error(`cc ended with code ${code}\n${stderr}`);
    },
  });
  return `${directory}/load`;
}

/** Runs a load for a fixed time. */
export async function runLoad(bed: Bed, peer: RunningPeer, options: LoadOptions): Promise<LoadResult> {
  return (await startLoad(bed, peer, options)).result;
}

export async function startLoad(bed: Bed, peer: RunningPeer, options: LoadOptions): Promise<Load> {
  const { ports } = bed;
  const kinds = ['answer', 'echo', 'sink', 'source', 'web'] as const;
  const listen = kinds.map(kind => ports[kind]);
  const dial = kinds.map(kind => peer.port(kind));
  const { cores, threads, program } = bed.load;
  const args = ['-c', cores.join(','), program];
  const flags = { ...options, listen, dial, hello: bed.hello.file, nameAt: bed.hello.nameAt };
  const values = { seconds: 0, threads, ...flags };
  for (const [flag, value] of Object.entries(values))
    args.push(`--${flag.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`, String(value));

  const output = new PassThrough();
  let complaints = '';
  const group = await spawnGroup({ command: 'taskset', args }, (chunk, from) => {
    if (from === 'stdout') output.write(chunk);
    else complaints += chunk;
  });
  const timer = setTimeout(group.kill, (options.seconds ?? 600) * 1000 + MARGIN_MS);
  const running = Promise.withResolvers<void>();
  const served = Promise.withResolvers<bigint>();
  const result = Promise.withResolvers<LoadResult>();
  createInterface(output).on('line', line => {
    const said = JSON.parse(line) as
      | { event: 'running' | 'served'; at: string }
      | ({ event: 'result' } & LoadResult);
    if (said.event === 'running') running.resolve();
    if (said.event === 'served') served.resolve(BigInt(said.at));
    if (said.event === 'result') result.resolve(said);
  });
  const ended = group.ended.finally(() => {
    clearTimeout(timer);
    output.end();
  });
  ended.then(exit => {
    const error = new Error(`The load ended (${describeExit(exit)}) too early\n${complaints}`);
    for (const promise of [running, served, result]) promise.reject(error);
    return error;
  }, result.reject);
  // A caller that does not await one of them need not handle its rejection.
  for (const { promise } of [running, served, result]) promise.catch(() => {});
  return {
    running: running.promise,
    // Its backends' ports are free again once it has ended.
    result: result.promise.then(async value => {
      await ended;
      return value;
    }),
    probe(name) {
      group.child.stdin.write(`probe ${name}\n`);
      return served.promise;
    },
    end: () => void group.child.stdin.write('end\n'),
  };
}
