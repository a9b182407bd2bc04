// (d) The cost of an idle tunnel, which most are: watches, agents, logs.

import { setTimeout as delay } from 'node:timers/promises';
import { startLoad } from '../load-generator.ts';
import { cpuSeconds, memoryOf } from '../process-usage.ts';
import { interleave, noteErrors, start, USUAL_HOSTS, warmUp } from './contend.ts';
import { ratio, type Scenario } from './scenario.ts';

/** The load has both ends of a tunnel, and some other descriptors. */
const SPARE_TUNNELS = 300;
const SETTLE_MS = 1000;
const AFTER_START_MS = 2000;
/** Longer than hello time-outs, whose memory some proxies release only when they expire. */
const AFTER_OPENING_MS = 6000;
/** Long enough that a garbage collection, which comes some seconds after the last work, counts for what it is. */
const REST_MS = 10_000;

export const idleTunnels: Scenario = {
  id: 'd',
  title: 'Idle tunnels',
  how:
    'A fresh proxy that has served some connections; its resident memory (RSS; PSS where processes share) before and ' +
    'with as many open tunnels as its open files allow, each of which has carried a byte both ways; its CPU while ' +
    'nothing happens. At the end each tunnel must still carry a byte.',
  peers: ['causeway', 'haproxy', 'haproxy-256k', 'nginx'],
  measures: [
    {
      key: 'kib',
      label: 'memory per tunnel (RSS)',
      unit: 'KiB',
      better: 'lower',
      picture: 'Memory per idle tunnel',
    },
    { key: 'pss-kib', label: 'memory per tunnel (PSS)', unit: 'KiB', better: 'lower' },
    { key: 'total-mib', label: 'memory in all (PSS)', unit: 'MiB', better: 'lower' },
    { key: 'rest-cpu', label: 'CPU at rest', unit: 'ms/s', better: 'lower' },
    { key: 'tunnels', label: 'tunnels', unit: '', better: 'higher' },
  ],
  goals: [
    {
      text: 'memory per idle tunnel',
      unit: 'KiB',
      limit: 2,
      value: of => of('causeway', 'kib'),
    },
    {
      text: 'memory per idle tunnel, against HAProxy',
      unit: '×',
      limit: 0.7,
      value: of => ratio(of, 'kib', 'causeway', 'haproxy'),
    },
    {
      text: 'CPU at rest',
      unit: 'ms/s',
      limit: 0.5,
      value: of => of('causeway', 'rest-cpu'),
    },
  ],
  async run(run) {
    const tunnels = run.bed.connections - SPARE_TUNNELS;
    await interleave(run, run.peers, async peer => {
      await using contender = await start(run, peer);
      const { column, running } = contender;
      // Causeway gives back what only its start needed.
      await delay(AFTER_START_MS);
      await warmUp(run, [contender], { flood: 4, hosts: USUAL_HOSTS });
      await delay(SETTLE_MS);
      const pids = await running.processes();
      const before = await memoryOf(pids);

      const load = await startLoad(run.bed, running, { pings: tunnels, every: -1 });
      await load.running;
      await delay(AFTER_OPENING_MS);
      const after = await memoryOf(pids);
      const cpuBefore = await cpuSeconds(pids);
      await delay(REST_MS);
      const cpu = (await cpuSeconds(pids)) - cpuBefore;
      load.end();
      const result = await load.result;
      noteErrors(run, column, result);
      if (result.pings < tunnels) return;
      run.record(column, 'kib', (after.rssKib - before.rssKib) / tunnels);
      run.record(column, 'pss-kib', (after.pssKib - before.pssKib) / tunnels);
      run.record(column, 'total-mib', after.pssKib / 1024);
      run.record(column, 'rest-cpu', (cpu / REST_MS) * 1e6);
      run.record(column, 'tunnels', tunnels);
    });
  },
};
