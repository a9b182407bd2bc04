// (c) The round-trip time of a byte with many concurrent tunnels.

import { interleave, load, startAll, warmUp } from './contend.ts';
import { type Measure, ratio, type Scenario } from './scenario.ts';

const PACED_PER_SECOND = 5000;

const variants = [
  { key: '100', options: { pings: 100, every: 0 }, label: '100 tunnels' },
  { key: '1000', options: { pings: 1000, every: 0 }, label: '1,000 tunnels' },
  {
    key: 'paced',
    options: { pings: 100, every: 100 / PACED_PER_SECOND },
    label: `100 tunnels, ${PACED_PER_SECOND.toLocaleString('en')}/s in all`,
  },
] as const;

export const smallMessages: Scenario = {
  id: 'c',
  title: 'Small messages',
  how:
    'One byte there and back on each tunnel, the next as soon as it is back, so that the proxy is always busy and the ' +
    'time is what it takes to serve all tunnels in turn; and at a rate that leaves it idle in between, which is what ' +
    'a person feels. A ping that is held up counts from when it was due.',
  peers: ['causeway', 'haproxy', 'haproxy-256k', 'nginx', 'direct'],
  measures: variants.flatMap(({ key, label }): Measure[] => [
    { key: `${key}-p50`, label: `${label}, p50`, unit: 'µs', better: 'lower' },
    {
      key: `${key}-p99`,
      label: `${label}, p99`,
      unit: 'µs',
      better: 'lower',
      ...(key === '100' && { picture: 'p99 of a 1-byte ping-pong, 100 tunnels' }),
    },
    { key: `${key}-p999`, label: `${label}, p99.9`, unit: 'µs', better: 'lower' },
    { key: `${key}-cpu`, label: `${label}, CPU per message`, unit: 'µs', better: 'lower' },
    ...(key === 'paced'
      ? []
      : [{ key: `${key}-rate`, label: `${label}, messages`, unit: '/s', better: 'higher' as const }]),
  ]),
  goals: [
    {
      text: 'p99 of 1-byte ping-pong, 100 tunnels, against HAProxy',
      unit: '×',
      limit: 1,
      value: of => ratio(of, '100-p99', 'causeway', 'haproxy'),
    },
  ],
  async run(run) {
    await using contenders = await startAll(run);
    await warmUp(run, contenders.all, { pings: 100, every: 0 });
    for (const { key, options, label } of variants) {
      run.say(label);
      await interleave(run, contenders.all, async contender => {
        const { column } = contender;
        const { result, cpu } = await load(run, contender, options);
        if (result.pings === 0) return;
        run.record(column, `${key}-p50`, result.pingUs.p50);
        run.record(column, `${key}-p99`, result.pingUs.p99);
        run.record(column, `${key}-p999`, result.pingUs.p999);
        if (column !== 'direct') run.record(column, `${key}-cpu`, (cpu / result.pings) * 1e6);
        if (options.every === 0) run.record(column, `${key}-rate`, result.pings / result.seconds);
      });
    }
  },
};
