// `npm run soak`: a long mixed load that shows whether memory, descriptors or delays grow. Rounds of
// new connections, pings, bulk, many idle tunnels and edits of the file; after each, the figures of the process at
// rest. The first fifth is warm-up; the verdict compares the medians of the second fifth and the last.

import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startCauseway } from '../testbed/start-causeway.ts';
import { openBed } from './bed.ts';
import { type LoadOptions, runLoad } from './load-generator.ts';
import { renderCauseway } from './peers/causeway.ts';
import type { RunningPeer } from './peers/peer.ts';
import { median } from './statistics.ts';

/** Tolerance: V8's heap fluctuates, a leak keeps growing. */
const ALLOWED_GROWTH = 1.1;
/** Rest before the process is measured, so that the last connections are gone. */
const REST_MS = 3000;

interface Sample {
  readonly minute: number;
  readonly rssMiB: number;
  readonly files: number;
  readonly threads: number;
  /** p99 of pings under this round's load, and of the control thread's event loop lag since its start. */
  readonly pingP99Us: number;
  readonly controlLagMs: number;
  readonly errors: number;
}

const rounds: readonly LoadOptions[] = [
  { seconds: 8, flood: 64, rate: 1000, hosts: 100, pings: 200, every: 0.05 },
  { seconds: 3, down: 4, up: 4, pings: 50, every: 0.05 },
  { seconds: 4, pings: 2000, every: 1, flood: 16, rate: 200, hosts: 100 },
];

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '30' }, engine: { type: 'string', default: 'auto' } },
});
const minutes = Number(values.minutes);
const say = (text: string) => process.stdout.write(`${text}\n`);

await using bed = await openBed();
const routes = { hosts: 100, added: [] as string[], ports: bed.ports };
await using gateway = await startCauseway({
  config: renderCauseway(routes),
  args: ['--engine', values.engine],
});
const { pid } = gateway.program;
const peer: RunningPeer = {
  port: () => gateway.port,
  processes: async () => [pid],
  [Symbol.asyncDispose]: async () => {},
};

say('minute   RSS MiB   files   threads   ping p99 µs   control lag ms   errors');
const samples: Sample[] = [];
const started = performance.now();
for (let round = 0; performance.now() - started < minutes * 60_000; round++) {
  const { pingUs, errors } = await runLoad(bed, peer, rounds[round % rounds.length]);
  await gateway.write(renderCauseway({ ...routes, added: [`round${round}.bench.test`] }));
  await sleep(REST_MS);
  const sample: Sample = {
    minute: (performance.now() - started) / 60_000,
    ...processFigures(),
    pingP99Us: pingUs.p99,
    controlLagMs: 1000 * (await gateway.metric('nodejs_eventloop_lag_p99_seconds')),
    errors: Object.values(errors).reduce((sum, count) => sum + count, 0),
  };
  samples.push(sample);
  say(line(sample));
}
process.exitCode = judge() ? 0 : 1;

function processFigures(): Pick<Sample, 'rssMiB' | 'files' | 'threads'> {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const figure = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  return {
    rssMiB: figure('VmRSS') / 1024,
    files: readdirSync(`/proc/${pid}/fd`).length,
    threads: figure('Threads'),
  };
}

function line({ minute, rssMiB, files, threads, pingP99Us, controlLagMs, errors }: Sample): string {
  const cells = [
    minute.toFixed(1),
    rssMiB.toFixed(1),
    files,
    threads,
    Math.round(pingP99Us),
    controlLagMs.toFixed(1),
    errors,
  ];
  return cells.map((cell, index) => String(cell).padStart([6, 10, 8, 10, 14, 17, 9][index])).join('');
}

/** Only rounds of the same kind are compared. */
function judge(): boolean {
  const fifth = Math.floor(samples.length / 5);
  const early = samples.slice(fifth, 2 * fifth);
  const late = samples.slice(-fifth);
  if (fifth < rounds.length) {
    say('too short for a verdict');
    return true;
  }
  const checks = (['rssMiB', 'files', 'threads', 'pingP99Us', 'controlLagMs'] as const).map(key => {
    const [before, after] = [early, late].map(part => median(part.map(sample => sample[key])));
    const ok = after <= before * ALLOWED_GROWTH || key === 'pingP99Us' || key === 'controlLagMs';
    say(`${ok ? '✓' : '✗'} ${key}: median ${before.toFixed(1)} early, ${after.toFixed(1)} late`);
    return ok;
  });
  const errors = samples.reduce((sum, sample) => sum + sample.errors, 0);
  say(`${errors === 0 ? '✓' : '✗'} errors: ${errors}`);
  return checks.every(Boolean) && errors === 0;
}
