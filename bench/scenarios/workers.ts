// (h) The cost and gain of a second worker.

import { availableParallelism } from 'node:os';
import { AT_ONCE, type Contender, interleave, load, start, USUAL_HOSTS, warmUp } from './contend.ts';
import { type Lookup, type Measure, ratio, type Scenario } from './scenario.ts';

const counts = [1, 2] as const;
/** With fewer, the load competes with the two workers. */
const CORES_FOR_THROUGHPUT = 4;

export const workers: Scenario = {
  id: 'h',
  title: 'One and two workers',
  how:
    'New connections, hello only, as in (a), with one worker and with two (HAProxy: nbthread). On fewer than four ' +
    'cores all share all cores, so that CPU per connection can be compared, and throughput cannot.',
  peers: ['causeway', 'haproxy'],
  measures: counts.flatMap((count): Measure[] => {
    const label = `${count} worker${count > 1 ? 's' : ''}`;
    return [
      { key: `cpu-${count}`, label: `CPU per connection, ${label}`, unit: 'µs', better: 'lower' },
      { key: `rate-${count}`, label: `connections, ${label}`, unit: '/s', better: 'higher' },
      { key: `cores-${count}`, label: `cores, ${label}`, unit: '', better: 'higher' },
    ];
  }),
  goals: [
    {
      text: 'CPU per connection of 2 workers, against 1',
      unit: '×',
      limit: 1.15,
      value: of => ratio(of, 'cpu-2', 'causeway', 'causeway', 'cpu-1'),
    },
    {
      text: `time per connection of 2 workers, against half of 1 (from ${CORES_FOR_THROUGHPUT} cores on)`,
      unit: '×',
      limit: 1.15,
      value: timeAgainstHalf,
    },
  ],
  async run(run) {
    const { sharedPinning } = run.bed;
    run.say(sharedPinning.text);
    // The load is one thread if it shares its cores, and is placed where there is room.
    const bed = { ...run.bed, load: { ...run.bed.load, cores: sharedPinning.load } };
    const shared = { ...run, bed };
    await using stack = new AsyncDisposableStack();
    const contenders: (Contender & { readonly workers: number })[] = [];
    for (const peer of run.peers) {
      for (const workers of counts) {
        const contender = await start(shared, peer, { workers, cores: sharedPinning.proxy });
        contenders.push({ ...stack.use(contender), workers });
      }
    }
    const flood = { flood: AT_ONCE, hosts: USUAL_HOSTS };
    await warmUp(shared, contenders, flood);
    await interleave(run, contenders, async contender => {
      const { column, workers } = contender;
      const { result, cpu } = await load(shared, contender, flood);
      if (result.connections === 0) return;
      run.record(column, `cpu-${workers}`, (cpu / result.connections) * 1e6);
      run.record(column, `cores-${workers}`, cpu / result.seconds);
      run.record(column, `rate-${workers}`, result.connections / result.seconds);
    });
  },
};

function timeAgainstHalf(of: Lookup): number | undefined {
  if (availableParallelism() < CORES_FOR_THROUGHPUT) return undefined;
  const one = of('causeway', 'rate-1');
  const two = of('causeway', 'rate-2');
  return one === undefined || two === undefined ? undefined : (2 * one) / two;
}
