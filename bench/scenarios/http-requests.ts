// (i) The cost of an HTTP request with keep-alive, for small and large responses.

import { AT_ONCE, interleave, load, startAll, USUAL_HOSTS, warmUp } from './contend.ts';
import { ratio, type Scenario } from './scenario.ts';

/** A request passes through hundreds of functions, which V8 compiles only after many calls. */
const WARM_UPS = 4;
const SMALL = { requests: AT_ONCE, body: 1024 };
const POSTED = { ...SMALL, posted: 200 };
/** Low concurrency: buffered memory between proxy and backend is not measured here. */
const LARGE = { requests: 8, body: 16 * 2 ** 20 };

export const httpRequests: Scenario = {
  id: 'i',
  title: 'HTTP requests',
  how:
    `${AT_ONCE} connections that stay, on each a GET of 128 bytes by the same Host, the next as soon as the answer of ` +
    '1 KiB is there and compared. All proxies keep connections to the backend and say who the client is in ' +
    'X-Forwarded-*. Causeway serves HTTP on the same port as everything else; HAProxy in `mode http` and nginx on a port ' +
    'of their own. The same with a POST of 200 bytes, and 8 connections with answers of 16 MiB. `node:http` is the ' +
    'least that a proxy over that module can do: no routes, no limits, no counters.',
  peers: ['causeway', 'haproxy', 'nginx', 'node-http', 'direct'],
  measures: [
    {
      key: 'per-cpu',
      label: 'requests per CPU second',
      unit: '',
      better: 'higher',
      picture: 'HTTP requests per CPU second',
    },
    { key: 'cpu', label: 'CPU per request', unit: 'µs', better: 'lower' },
    { key: 'rate', label: 'requests', unit: '/s', better: 'higher' },
    { key: 'p50', label: 'until the whole answer, p50', unit: 'µs', better: 'lower' },
    { key: 'p99', label: 'until the whole answer, p99', unit: 'µs', better: 'lower' },
    { key: 'post-cpu', label: 'CPU per POST', unit: 'µs', better: 'lower' },
    { key: 'post-rate', label: 'POSTs', unit: '/s', better: 'higher' },
    { key: 'large-cpu', label: 'CPU per GB, large answers', unit: 'ms', better: 'lower' },
    { key: 'large-rate', label: 'large answers', unit: 'GB/s', better: 'higher' },
  ],
  goals: [
    {
      text: 'CPU per HTTP request, against HAProxy in mode http',
      unit: '×',
      limit: 1.4,
      value: of => ratio(of, 'cpu', 'causeway', 'haproxy'),
    },
    {
      text: 'CPU per POST, against HAProxy in mode http',
      unit: '×',
      limit: 1.4,
      value: of => ratio(of, 'post-cpu', 'causeway', 'haproxy'),
    },
    {
      text: 'CPU per GB of large answers, against HAProxy in mode http',
      unit: '×',
      limit: 1.2,
      value: of => ratio(of, 'large-cpu', 'causeway', 'haproxy'),
    },
  ],
  async run(run) {
    const { ports } = run.bed;
    await using contenders = await startAll(run, {
      routes: { hosts: USUAL_HOSTS, added: [], web: true, ports },
    });
    for (let time = 0; time < WARM_UPS; time++) await warmUp(run, contenders.all, SMALL);
    await interleave(run, contenders.all, async contender => {
      const { column } = contender;
      const { result, cpu } = await load(run, contender, SMALL);
      if (result.requests === 0) return;
      if (column !== 'direct') {
        run.record(column, 'per-cpu', result.requests / cpu);
        run.record(column, 'cpu', (cpu / result.requests) * 1e6);
      }
      run.record(column, 'rate', result.requests / result.seconds);
      run.record(column, 'p50', result.requestUs.p50);
      run.record(column, 'p99', result.requestUs.p99);
    });

    run.say('requests with a body');
    await warmUp(run, contenders.all, POSTED);
    await interleave(run, contenders.all, async contender => {
      const { column } = contender;
      const { result, cpu } = await load(run, contender, POSTED);
      if (result.requests === 0) return;
      if (column !== 'direct') run.record(column, 'post-cpu', (cpu / result.requests) * 1e6);
      run.record(column, 'post-rate', result.requests / result.seconds);
    });

    run.say('large answers');
    await warmUp(run, contenders.all, LARGE);
    await interleave(run, contenders.all, async contender => {
      const { column } = contender;
      const { result, cpu } = await load(run, contender, LARGE);
      const gigabytes = result.received / 1e9;
      if (gigabytes === 0) return;
      if (column !== 'direct') run.record(column, 'large-cpu', (cpu / gigabytes) * 1e3);
      run.record(column, 'large-rate', gigabytes / result.seconds);
    });
  },
};
