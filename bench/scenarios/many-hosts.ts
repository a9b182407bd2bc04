// (e) Whether a new connection costs more with a large table.

import { AT_ONCE, type Contender, interleave, load, start, warmUp } from './contend.ts';
import { type Measure, ratio, type Scenario } from './scenario.ts';

const counts = [10, 1000, 10_000, 100_000] as const;

export const manyHosts: Scenario = {
  id: 'e',
  title: 'Many hosts',
  how: 'New connections, hello only, as in (a), spread at random over all hosts of a table of 10 to 100,000.',
  peers: ['causeway', 'haproxy', 'nginx'],
  measures: counts.map(
    (count): Measure => ({
      key: `cpu-${count}`,
      label: `CPU per connection, ${count.toLocaleString('en')} hosts`,
      unit: 'µs',
      better: 'lower',
      ...(count === 100_000 && { picture: 'CPU per new connection, 100,000 hosts' }),
    }),
  ),
  goals: [
    {
      text: 'CPU per connection at 100,000 hosts, against 10',
      unit: '×',
      limit: 1.1,
      value: of => ratio(of, 'cpu-100000', 'causeway', 'causeway', 'cpu-10'),
    },
  ],
  async run(run) {
    await using stack = new AsyncDisposableStack();
    const contenders: (Contender & { readonly hosts: number })[] = [];
    for (const hosts of counts) {
      run.say(`starting with ${hosts.toLocaleString('en')} hosts`);
      for (const peer of run.peers) {
        const routes = { hosts, added: [], ports: run.bed.ports };
        contenders.push({ ...stack.use(await start(run, peer, { routes })), hosts });
      }
    }
    for (const contender of contenders)
      await warmUp(run, [contender], { flood: AT_ONCE, hosts: contender.hosts });
    await interleave(run, contenders, async contender => {
      const { column, hosts } = contender;
      const { result, cpu } = await load(run, contender, { flood: AT_ONCE, hosts });
      if (result.connections > 0) run.record(column, `cpu-${hosts}`, (cpu / result.connections) * 1e6);
    });
  },
};
