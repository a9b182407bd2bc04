// (l) What an answer of the DNS server costs, beside CoreDNS with the same names.

import { writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { renderDns } from '../../src/dns/render-dns.ts';
import { freePort } from '../../testbed/free-port.ts';
import { goBuild } from '../../testbed/go-build.ts';
import { startProgram } from '../../testbed/program.ts';
import { causewayBin } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { buildDnsLoad, runDnsLoad } from '../dns-load.ts';
import { pin } from '../pinning.ts';
import { cpuSeconds, processTree } from '../process-usage.ts';
import { AT_ONCE, interleave } from './contend.ts';
import { type Run, ratio, type Scenario } from './scenario.ts';

const NAMES = 1000;
const ADDRESS = '203.0.113.10';
const HOSTS = [
  ...Array.from({ length: NAMES }, (_, i) => `h${String(i).padStart(4, '0')}.bench.test`),
  '*.apps.bench.test',
];
const WARM_UP_SECONDS = 0.7;
/** For the last answers to be sent before CPU time is read. */
const SETTLE_MS = 100;

interface Server extends AsyncDisposable {
  readonly column: string;
  readonly port: number;
  readonly pid: number;
}

export const dnsQueries: Scenario = {
  id: 'l',
  title: 'DNS queries',
  how:
    `${AT_ONCE} queries of type A under way at any time over UDP, with EDNS, from as many ports; half of them for ` +
    `${NAMES.toLocaleString('en')} exact names, half for names that a wildcard answers. Causeway is \`causeway dns ` +
    'serve`; CoreDNS has the same names in a zone file (plugin file), which is its fastest way.',
  peers: ['causeway'],
  columns: [
    { id: 'causeway', label: 'Causeway' },
    { id: 'coredns', label: 'CoreDNS' },
  ],
  measures: [
    {
      key: 'per-cpu',
      label: 'queries per CPU second',
      unit: '',
      better: 'higher',
      picture: 'DNS queries per CPU second',
    },
    { key: 'cpu', label: 'CPU per query', unit: 'µs', better: 'lower' },
    { key: 'rate', label: 'queries', unit: '/s', better: 'higher' },
    { key: 'p50', label: 'until the answer, p50', unit: 'µs', better: 'lower' },
    { key: 'p99', label: 'until the answer, p99', unit: 'µs', better: 'lower' },
  ],
  goals: [
    {
      text: 'CPU per DNS query, against CoreDNS',
      unit: '×',
      limit: 1,
      value: of => ratio(of, 'cpu', 'causeway', 'coredns'),
    },
  ],
  async run(run) {
    const program = await buildDnsLoad();
    await using stack = new AsyncDisposableStack();
    const servers: Server[] = [];
    for (const start of [startCauseway, startCoredns]) servers.push(stack.use(await start(run)));
    const options = { seconds: run.seconds, atOnce: AT_ONCE, names: NAMES };
    for (const { port } of servers)
      for (let i = 0; i < 3; i++)
        await runDnsLoad(run.bed, program, { ...options, port, seconds: WARM_UP_SECONDS });
    await interleave(run, servers, async ({ column, port, pid }) => {
      const pids = await processTree(pid);
      const before = await cpuSeconds(pids);
      const { answers, seconds, lost, wrong, busy, p50, p99 } = await runDnsLoad(run.bed, program, {
        ...options,
        port,
      });
      await delay(SETTLE_MS);
      const cpu = (await cpuSeconds(pids)) - before;
      if (lost + wrong > 0) run.fail(column, `${lost} lost, ${wrong} wrong`);
      run.busy(column, busy);
      run.record(column, 'per-cpu', answers / cpu);
      run.record(column, 'cpu', (cpu / answers) * 1e6);
      run.record(column, 'rate', answers / seconds);
      run.record(column, 'p50', p50);
      run.record(column, 'p99', p99);
    });
  },
};

async function startCauseway({ bed }: Run): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const port = await freePort();
  const pool = 'backends: ["192.0.2.1:6443"]';
  const file = dir.file('causeway.yaml');
  await writeFile(
    file,
    `listen: [":0"]\nclusters:\n  - { name: bench, api: { hosts: ${JSON.stringify(HOSTS)}, ${pool} } }\n`,
  );
  const program = stack.use(
    await startProgram({
      command: causewayBin,
      args: ['dns', 'serve', '-c', file, '--on', `127.0.0.1:${port}`, '--address', ADDRESS],
      ready: { log: /"msg":"ready"/ },
    }),
  );
  await pin(program.pid, bed.pinning.proxy);
  const owned = stack.move();
  return {
    column: 'causeway',
    port,
    pid: program.pid,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startCoredns({ bed }: Run): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const port = await freePort();
  const request = { hosts: HOSTS, addresses: [ADDRESS], port: 443, serial: 1 };
  await writeFile(dir.file('bench.test.zone'), renderDns('bind', request) ?? '');
  await writeFile(
    dir.file('Corefile'),
    `bench.test:${port} {\n  bind 127.0.0.1\n  file ${dir.file('bench.test.zone')}\n}\n`,
  );
  const program = stack.use(
    await startProgram({
      command: await goBuild('coredns'),
      args: ['-conf', dir.file('Corefile')],
      cwd: dir.path,
      env: { GOMAXPROCS: String(bed.pinning.proxy.length) },
      ready: { log: /^CoreDNS-\d/m },
      stopSignal: 'SIGKILL',
    }),
  );
  await pin(program.pid, bed.pinning.proxy);
  const owned = stack.move();
  return { column: 'coredns', port, pid: program.pid, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
