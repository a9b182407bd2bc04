// (g) Whether one tunnel at full speed delays the others.

import { interleave, load, startAll, warmUp } from './contend.ts';
import { ratio, type Scenario } from './scenario.ts';

const LOAD = { pings: 100, every: 0.02, down: 1 };

export const fairness: Scenario = {
  id: 'g',
  title: 'One bulk tunnel against pings',
  how: '100 tunnels that each ping every 20 ms, beside one that carries bytes to its client at full speed.',
  peers: ['causeway', 'haproxy', 'haproxy-256k', 'nginx', 'direct'],
  measures: [
    { key: 'p50', label: 'pings, p50', unit: 'µs', better: 'lower' },
    {
      key: 'p99',
      label: 'pings, p99',
      unit: 'µs',
      better: 'lower',
      picture: 'p99 of pings beside a bulk tunnel',
    },
    { key: 'p999', label: 'pings, p99.9', unit: 'µs', better: 'lower' },
    { key: 'rate', label: 'the bulk tunnel', unit: 'GB/s', better: 'higher' },
  ],
  goals: [
    {
      text: 'p99 of pings beside a bulk tunnel, against HAProxy',
      unit: '×',
      limit: 2,
      value: of => ratio(of, 'p99', 'causeway', 'haproxy'),
    },
  ],
  async run(run) {
    await using contenders = await startAll(run);
    await warmUp(run, contenders.all, LOAD);
    await interleave(run, contenders.all, async contender => {
      const { column } = contender;
      const { result } = await load(run, contender, LOAD);
      if (result.pings === 0) return;
      run.record(column, 'p50', result.pingUs.p50);
      run.record(column, 'p99', result.pingUs.p99);
      run.record(column, 'p999', result.pingUs.p999);
      run.record(column, 'rate', result.received / 1e9 / result.seconds);
    });
  },
};
