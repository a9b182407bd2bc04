// (j) What a proxy takes when it does nothing: memory, threads, and the time that its commands need.

import { readdir, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { run as runProgram } from '../../testbed/run.ts';
import { causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { startLoad } from '../load-generator.ts';
import { memoryOf } from '../process-usage.ts';
import { hostOf, type Routes } from '../routes.ts';
import { interleave, noteErrors, start } from './contend.ts';
import { type Lookup, type Run, ratio, type Scenario } from './scenario.ts';

const SMALL = 3;
const LARGE = 300;
const CONNECTIONS = 200;
const HOSTS_PER_CLUSTER = 3;
/** As on a machine with two cores, whatever this one has. */
const WORKERS = 2;
/** After the last connection is open. */
const SETTLE_MS = 5000;

export const footprint: Scenario = {
  id: 'j',
  title: 'Footprint',
  how:
    `Resident memory (RSS, all processes) some seconds after the start, with ${WORKERS} workers: ${SMALL} clusters with ` +
    `API, konnectivity, apps over TLS and HTTP, checked by TCP, and one tunnel; then ${LARGE} and ${CONNECTIONS} tunnels. ` +
    'HAProxy has as many hosts. Threads include those of Node itself. Commands are started from a checkout, when Node ' +
    'has compiled them before; beside them, Node itself.',
  peers: ['causeway', 'haproxy'],
  measures: [
    { key: 'small-mib', label: `memory, ${SMALL} clusters`, unit: 'MiB', better: 'lower', picture: 'Memory' },
    {
      key: 'large-mib',
      label: `memory, ${LARGE} clusters, ${CONNECTIONS} tunnels`,
      unit: 'MiB',
      better: 'lower',
    },
    { key: 'threads', label: `threads, ${SMALL} clusters`, unit: '', better: 'lower' },
    { key: 'version-ms', label: 'causeway --version', unit: 'ms', better: 'lower' },
    { key: 'check-ms', label: `causeway check, ${SMALL} clusters`, unit: 'ms', better: 'lower' },
    { key: 'node-ms', label: 'node -e 0', unit: 'ms', better: 'lower' },
  ],
  goals: [
    goal(`memory with ${SMALL} clusters`, 'MiB', 110, 'small-mib'),
    goal(`memory with ${LARGE} clusters and ${CONNECTIONS} tunnels`, 'MiB', 150, 'large-mib'),
    goal('causeway --version', 'ms', 350, 'version-ms'),
    goal('causeway check of a small file', 'ms', 350, 'check-ms'),
    {
      text: `memory with ${SMALL} clusters, against HAProxy`,
      unit: '×',
      limit: 10,
      value: of => ratio(of, 'small-mib', 'causeway', 'haproxy'),
    },
  ],
  async run(run) {
    // The first start after a change compiles.
    await commandTimes(run, () => {});
    await measure(run, run.peers[0].id, SMALL, 1);
    await interleave(run, run.peers, async ({ id }) => {
      const small = await measure(run, id, SMALL, 1);
      run.record(id, 'small-mib', small.mib);
      run.record(id, 'threads', small.threads);
      run.record(id, 'large-mib', (await measure(run, id, LARGE, CONNECTIONS)).mib);
      if (id === 'causeway') await commandTimes(run, (key, ms) => run.record(id, key, ms));
    });
  },
};

function goal(text: string, unit: string, limit: number, key: string) {
  return { text, unit, limit, value: (of: Lookup) => of('causeway', key) };
}

async function measure(run: Run, id: string, clusters: number, tunnels: number) {
  await using proxy =
    id === 'causeway' ? await startClusters(run, clusters) : await startOther(run, id, clusters);
  const load = await startLoad(run.bed, proxy, { pings: tunnels, every: -1 });
  await load.running;
  await delay(SETTLE_MS);
  const pids = await proxy.processes();
  const [{ rssKib }, threads] = await Promise.all([memoryOf(pids), Promise.all(pids.map(threadsOf))]);
  load.end();
  noteErrors(run, id, await load.result);
  return { mib: rssKib / 1024, threads: threads.reduce((sum, count) => sum + count, 0) };
}

async function startOther(run: Run, id: string, clusters: number) {
  const peer = run.peers.find(candidate => candidate.id === id);
  if (peer === undefined) throw new Error(`There is no peer '${id}'`);
  const routes: Routes = { hosts: clusters * HOSTS_PER_CLUSTER, added: [], ports: run.bed.ports };
  return (await start(run, peer, { routes, workers: WORKERS })).running;
}

async function startClusters(run: Run, clusters: number) {
  const gateway = await startCauseway({
    config: fileOf(run, clusters),
    args: ['--workers', String(WORKERS)],
  });
  return {
    port: () => gateway.port,
    processes: async () => [gateway.program.pid],
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

function fileOf({ bed: { ports } }: Run, clusters: number): string {
  const pool = (port: number) => `{ backends: ["127.0.0.1:${port}"], health: { check: tcp } }`;
  const lines = ['listen: ["127.0.0.1:0"]', 'admin: { on: "127.0.0.1:0" }', 'clusters:'];
  for (let number = 0; number < clusters; number++) {
    const api = number === 0 ? hostOf('echo') : `api.c${number}.example.com`;
    const apps = `https: ${pool(ports.echo)}, http: ${pool(ports.web)}`;
    lines.push(
      `  - name: c${number}`,
      `    api: { hosts: [${api}], backends: ["127.0.0.1:${ports.echo}"], health: { check: tcp } }`,
      `    konnectivity: { hosts: [k.c${number}.example.com], backends: ["127.0.0.1:${ports.echo}"] }`,
      `    apps: { hosts: ["*.apps.c${number}.example.com"], ${apps} }`,
    );
  }
  return `${lines.join('\n')}\n`;
}

async function commandTimes(run: Run, record: (key: string, ms: number) => void): Promise<void> {
  await using dir = await tempDir();
  const file = dir.file('causeway.yaml');
  await writeFile(file, fileOf(run, SMALL));
  record('version-ms', await timeOf(causewayBin, ['--version']));
  record('check-ms', await timeOf(causewayBin, ['check', '-c', file]));
  record('node-ms', await timeOf(process.execPath, ['-e', '0']));
}

async function timeOf(command: string, args: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  await runProgram(command, args);
  return performance.now() - startedAt;
}

async function threadsOf(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/task`)).length;
}
