// (k) What it costs to proxy the apps of a user cluster, beside a DNS name that leads straight to its nodes: the delay
// that a client notices, and the CPU that the gateway needs.

import type { LoadOptions } from '../load-generator.ts';
import { AT_ONCE, interleave, load, startAll, USUAL_HOSTS, warmUp } from './contend.ts';
import type { Measure, Scenario } from './scenario.ts';

/** Compilers need many calls. */
const WARM_UPS = 6;
const BODY = 1024;

/** One after another, so that nothing waits for anything but the way there and back. */
const delays = [
  {
    key: 'connection',
    of: 'connectionUs',
    options: { flood: 1, hosts: USUAL_HOSTS },
    label: 'new TLS connection, until the first byte',
  },
  {
    key: 'message',
    of: 'pingUs',
    options: { pings: 1, every: 0 },
    label: 'request on an open TLS connection',
  },
  { key: 'request', of: 'requestUs', options: { requests: 1, body: BODY }, label: 'cleartext HTTP request' },
] as const satisfies readonly {
  readonly key: string;
  readonly of: string;
  readonly options: LoadOptions;
  readonly label: string;
}[];

/** Under load, which a gateway is sized for. */
const costs = [
  {
    key: 'connection',
    of: 'connections',
    options: { flood: AT_ONCE, hosts: USUAL_HOSTS },
    label: 'new TLS connections',
  },
  {
    key: 'message',
    of: 'pings',
    options: { pings: AT_ONCE, every: 0 },
    label: 'requests on open TLS connections',
  },
  {
    key: 'request',
    of: 'requests',
    options: { requests: AT_ONCE, body: BODY },
    label: 'cleartext HTTP requests',
  },
] as const satisfies readonly {
  readonly key: string;
  readonly of: string;
  readonly options: LoadOptions;
  readonly label: string;
}[];

const volumes = [
  { key: 'down', options: { down: 16 }, label: 'TLS, to the client' },
  { key: 'up', options: { up: 16 }, label: 'TLS, from the client' },
] as const;

export const userClusterApps: Scenario = {
  id: 'k',
  title: 'Apps of a user cluster',
  how:
    'Delay: one connection at a time, which sends the 1.5 KiB hello and gets a byte; one byte there and back on an open ' +
    `tunnel; a GET with an answer of 1 KiB. CPU: the same with ${AT_ONCE} at any time, and 16 tunnels at full speed. ` +
    'Without a proxy, the client dials the backend itself, as with a DNS name that leads to the nodes. All on one ' +
    'machine: the way through the network comes on top.',
  peers: ['causeway', 'haproxy', 'direct'],
  measures: [
    ...delays.flatMap(({ key, label }): Measure[] => [
      { key: `${key}-p50`, label: `${label}, p50`, unit: 'µs', better: 'lower' },
      { key: `${key}-p99`, label: `${label}, p99`, unit: 'µs', better: 'lower' },
    ]),
    ...costs.map(
      ({ key, label }): Measure => ({
        key: `${key}-cpu`,
        label: `CPU per 1,000 ${label}`,
        unit: 'ms',
        better: 'lower',
      }),
    ),
    ...volumes.map(
      ({ key, label }): Measure => ({
        key: `${key}-cpu`,
        label: `CPU per GB, ${label}`,
        unit: 'ms',
        better: 'lower',
      }),
    ),
  ],
  goals: [],
  async run(run) {
    const { ports } = run.bed;
    await using contenders = await startAll(run, {
      routes: { hosts: USUAL_HOSTS, added: [], web: true, ports },
    });
    for (let time = 0; time < WARM_UPS; time++)
      for (const { options } of costs) await warmUp(run, contenders.all, options);

    for (const { key, of, options, label } of delays) {
      run.say(label);
      await interleave(run, contenders.all, async contender => {
        const { result } = await load(run, contender, options);
        run.record(contender.column, `${key}-p50`, result[of].p50);
        run.record(contender.column, `${key}-p99`, result[of].p99);
      });
    }
    const proxies = contenders.all.filter(({ column }) => column !== 'direct');
    for (const { key, of, options, label } of costs) {
      run.say(`CPU, ${label}`);
      await interleave(run, proxies, async contender => {
        const { result, cpu } = await load(run, contender, options);
        // Seconds for each, so ms for a thousand.
        if (result[of] > 0) run.record(contender.column, `${key}-cpu`, (cpu / result[of]) * 1e6);
      });
    }
    for (const { key, options, label } of volumes) {
      run.say(`CPU, ${label}`);
      await interleave(run, proxies, async contender => {
        const { result, cpu } = await load(run, contender, options);
        if (result.received > 0)
          run.record(contender.column, `${key}-cpu`, (cpu / (result.received / 1e9)) * 1e3);
      });
    }
  },
};
