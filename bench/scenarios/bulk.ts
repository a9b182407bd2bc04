// (b) The cost of moving bytes, on one tunnel and on sixteen, to and from the client.

import { interleave, load, startAll, warmUp } from './contend.ts';
import { type Measure, ratio, type Scenario } from './scenario.ts';

const variants = [
  { key: 'down-1', options: { down: 1 }, label: '1 tunnel to the client' },
  { key: 'up-1', options: { up: 1 }, label: '1 tunnel from the client' },
  { key: 'down-16', options: { down: 16 }, label: '16 tunnels to the client' },
  { key: 'up-16', options: { up: 16 }, label: '16 tunnels from the client' },
] as const;

export const bulk: Scenario = {
  id: 'b',
  title: 'Bulk',
  how:
    'Tunnels at full speed in one direction, then drained: every byte that was sent is received and counted; one read ' +
    'in 64 is compared, the rest is counted without being copied, so that the load is faster than the proxies.',
  peers: ['causeway', 'haproxy', 'haproxy-256k', 'nginx', 'direct'],
  measures: variants.flatMap(({ key, label }): Measure[] => [
    {
      key: `${key}-cpu`,
      label: `CPU per GB, ${label}`,
      unit: 'ms',
      better: 'lower',
      ...(key === 'down-16' && { picture: 'CPU per GB, 16 tunnels to the client' }),
    },
    { key: `${key}-rate`, label, unit: 'GB/s', better: 'higher' },
  ]),
  goals: (['down', 'up'] as const).map(direction => ({
    text: `CPU per GB, 16 tunnels ${direction === 'down' ? 'to' : 'from'} the client, against HAProxy with 256 KiB buffers`,
    unit: '×',
    limit: 0.8,
    value: of => ratio(of, `${direction}-16-cpu`, 'causeway', 'haproxy-256k'),
  })),
  async run(run) {
    await using contenders = await startAll(run);
    await warmUp(run, contenders.all, { down: 4, up: 4 });
    for (const { key, options, label } of variants) {
      run.say(label);
      await interleave(run, contenders.all, async contender => {
        const { result, cpu } = await load(run, contender, options);
        const gigabytes = result.received / 1e9;
        if (gigabytes === 0) return;
        if (contender.column !== 'direct')
          run.record(contender.column, `${key}-cpu`, (cpu / gigabytes) * 1e3);
        run.record(contender.column, `${key}-rate`, gigabytes / result.seconds);
      });
    }
  },
};
