// (a) The cost of a new connection: only the hello, and with a real handshake.

import { runTlsLoad } from '../tls-load.ts';
import {
  AT_ONCE,
  interleave,
  load,
  noteTlsErrors,
  startAll,
  USUAL_HOSTS,
  warmUp,
  withCpu,
} from './contend.ts';
import { ratio, type Scenario } from './scenario.ts';

/** With real handshakes the load's own cryptography is the limit: a higher concurrency would only wait for it. */
const TLS_CLIENTS = 32;
const TLS_WARM_UP_SECONDS = 0.5;

export const newConnections: Scenario = {
  id: 'a',
  title: 'New connections',
  how:
    `Hello only: ${AT_ONCE} connections at any time, each sends the 1.5 KiB hello of a Go client for one of ` +
    `${USUAL_HOSTS} hosts, gets a byte from the backend, which closes first. TLS: ${TLS_CLIENTS} at any time, a whole ` +
    'TLS 1.3 handshake (X25519MLKEM768, P-256 certificate, no tickets) between a Go client and server.',
  peers: ['causeway', 'haproxy', 'haproxy-256k', 'nginx', 'direct'],
  measures: [
    {
      key: 'hello-cpu',
      label: 'CPU per connection, hello only',
      unit: 'µs',
      better: 'lower',
      picture: 'CPU per new connection',
    },
    { key: 'hello-rate', label: 'connections, hello only', unit: '/s', better: 'higher' },
    { key: 'hello-p50', label: 'until the first byte, p50', unit: 'µs', better: 'lower' },
    { key: 'hello-p99', label: 'until the first byte, p99', unit: 'µs', better: 'lower' },
    { key: 'tls-cpu', label: 'CPU per connection, TLS handshake', unit: 'µs', better: 'lower' },
    { key: 'tls-rate', label: 'connections, TLS handshake', unit: '/s', better: 'higher' },
  ],
  goals: [
    {
      text: 'CPU per new connection, hello only, against HAProxy with a map',
      unit: '×',
      limit: 1,
      value: of => ratio(of, 'hello-cpu', 'causeway', 'haproxy'),
    },
    {
      text: 'CPU per new connection, TLS handshake, against HAProxy with a map',
      unit: '×',
      limit: 1,
      value: of => ratio(of, 'tls-cpu', 'causeway', 'haproxy'),
    },
  ],
  async run(run) {
    await using contenders = await startAll(run);
    const flood = { flood: AT_ONCE, hosts: USUAL_HOSTS };
    await warmUp(run, contenders.all, flood);
    await interleave(run, contenders.all, async contender => {
      const { column } = contender;
      const { result, cpu } = await load(run, contender, flood);
      if (result.connections === 0) return;
      if (column !== 'direct') run.record(column, 'hello-cpu', (cpu / result.connections) * 1e6);
      run.record(column, 'hello-rate', result.connections / result.seconds);
      run.record(column, 'hello-p50', result.connectionUs.p50);
      run.record(column, 'hello-p99', result.connectionUs.p99);
    });

    const tls = (seconds: number) => ({ seconds, clients: TLS_CLIENTS });
    for (const { running } of contenders.all)
      await runTlsLoad(run.bed, running, tls(Math.min(TLS_WARM_UP_SECONDS, run.seconds)));
    await interleave(run, contenders.all, async ({ column, running }) => {
      const { result, cpu } = await withCpu(running, () => runTlsLoad(run.bed, running, tls(run.seconds)));
      noteTlsErrors(run, column, result);
      if (result.connections === 0) return;
      if (column !== 'direct') run.record(column, 'tls-cpu', (cpu / result.connections) * 1e6);
      run.record(column, 'tls-rate', result.connections / result.seconds);
    });
  },
};
