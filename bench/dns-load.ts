// Builds and runs load/dns: queries over UDP, so many at a time, each answer looked at.

import { fileURLToPath } from 'node:url';
import { built } from '../testbed/cache.ts';
import { run } from '../testbed/run.ts';
import type { Bed } from './bed.ts';

const SOURCE = new URL('./load/dns/', import.meta.url);
const MARGIN_MS = 30_000;

export interface DnsLoadResult {
  readonly seconds: number;
  /** Share of its core that the load itself used. */
  readonly busy: number;
  readonly answers: number;
  /** Queries without an answer in time. */
  readonly lost: number;
  /** Answers without a record. */
  readonly wrong: number;
  /** Microseconds. */
  readonly p50: number;
  readonly p99: number;
}

export interface DnsLoadOptions {
  readonly port: number;
  readonly seconds: number;
  /** Queries under way at any time. */
  readonly atOnce: number;
  /** Exact names, `h0000.bench.test` on; as many match `*.apps.bench.test`. */
  readonly names: number;
}

export async function buildDnsLoad(): Promise<string> {
  const directory = await built('bench-dns', {
    pins: [SOURCE],
    async build(directory) {
      const source = fileURLToPath(new URL('dns-load.c', SOURCE));
      const args = ['-O2', '-Wall', '-Wextra', '-Werror', '-o', `${directory}/dns-load`, source];
      const { code, stderr } = await run('cc', args);
      if (code !== 0) throw new Error(`cc ended with code ${code}\n${stderr}`);
    },
  });
  return `${directory}/dns-load`;
}

export async function runDnsLoad(
  { load }: Bed,
  program: string,
  { port, seconds, atOnce, names }: DnsLoadOptions,
): Promise<DnsLoadResult> {
  const flags = { port, seconds, 'at-once': atOnce, names };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const { code, stdout, stderr } = await run('taskset', ['-c', load.cores.join(','), program, ...args], {
    timeoutMs: seconds * 1000 + MARGIN_MS,
  });
  if (code !== 0) throw new Error(`The DNS load ended with code ${code}\n${stderr}`);
  return JSON.parse(stdout.toString()) as DnsLoadResult;
}
