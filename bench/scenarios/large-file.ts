// (m) A large estate in a file: how long a start and an edit take, what they cost others, and the memory after many edits.

import { setTimeout as delay } from 'node:timers/promises';
import { startLoad } from '../load-generator.ts';
import { memoryOf } from '../process-usage.ts';
import { newHost } from '../routes.ts';
import { type Contender, interleave, start } from './contend.ts';
import { type Lookup, type Run, ratio, type Scenario } from './scenario.ts';

const CLUSTERS = 10_000;
const HOSTS = 2 * CLUSTERS;
const LOAD = { pings: 50, every: 0.01 };
const BEFORE_MS = 300;
const AFTER_MS = 300;
const SERVED_WITHIN_MS = 60_000;
/** Edits before memory is read for the last time. */
const EDITS = 100;
/** After the last edit. */
const SETTLE_MS = 3000;

let hostsAdded = 0;

export const largeFile: Scenario = {
  id: 'm',
  title: 'A large file',
  how:
    `${CLUSTERS.toLocaleString('en')} clusters with an API host and a konnectivity host each, for HAProxy a map of as many ` +
    'hosts. The start is from the command until it serves. An edit adds a host while 50 tunnels ping every 10 ms; the ' +
    `worst stall is the longest that a ping took. Memory (RSS, all processes) after the start and after ${EDITS} edits.`,
  peers: ['causeway', 'haproxy'],
  measures: [
    { key: 'start', label: 'start', unit: 'ms', better: 'lower' },
    { key: 'served', label: 'from the edit until served', unit: 'ms', better: 'lower' },
    { key: 'stall', label: 'worst stall of a running tunnel', unit: 'ms', better: 'lower' },
    { key: 'start-mib', label: 'memory after the start', unit: 'MiB', better: 'lower' },
    { key: 'edits-mib', label: `memory after ${EDITS} edits`, unit: 'MiB', better: 'lower' },
  ],
  goals: [
    goal('start with 10,000 clusters', 'ms', 1500, 'start'),
    goal('an edit of 10,000 clusters until served', 'ms', 500, 'served'),
    goal(`memory with 10,000 clusters after ${EDITS} edits`, 'MiB', 300, 'edits-mib'),
    {
      text: 'worst stall of a tunnel by an edit, against HAProxy',
      unit: '×',
      limit: 2,
      value: of => ratio(of, 'stall', 'causeway', 'haproxy'),
    },
  ],
  async run(run) {
    await using stack = new AsyncDisposableStack();
    const contenders: Contender[] = [];
    const routes = { hosts: HOSTS, added: [], ports: run.bed.ports, smallClusters: true };
    for (const peer of run.peers) {
      // The first start after a change compiles.
      await (await start(run, peer, { routes }))[Symbol.asyncDispose]();
      const started = performance.now();
      const contender = stack.use(await start(run, peer, { routes }));
      run.record(contender.column, 'start', performance.now() - started);
      await delay(SETTLE_MS);
      run.record(contender.column, 'start-mib', await mibOf(contender));
      contenders.push(contender);
    }
    await interleave(run, contenders, contender => editUnderLoad(run, contender));
    for (const contender of contenders) {
      for (let edits = run.rounds; edits < EDITS; edits++) await editAndWait(run, contender);
      await delay(SETTLE_MS);
      run.record(contender.column, 'edits-mib', await mibOf(contender));
    }
  },
};

function goal(text: string, unit: string, limit: number, key: string) {
  return { text, unit, limit, value: (of: Lookup) => of('causeway', key) };
}

async function editUnderLoad(run: Run, contender: Contender): Promise<void> {
  const load = await startLoad(run.bed, contender.running, LOAD);
  await load.running;
  await delay(BEFORE_MS);
  const ms = await addOne(run, contender, load);
  await delay(AFTER_MS);
  load.end();
  const { pingUs } = await load.result;
  if (ms === undefined) return;
  run.record(contender.column, 'served', ms);
  run.record(contender.column, 'stall', pingUs.max / 1e3);
}

async function editAndWait(run: Run, contender: Contender): Promise<void> {
  run.signal.throwIfAborted();
  const load = await startLoad(run.bed, contender.running, { pings: 1, every: 0.1 });
  await load.running;
  await addOne(run, contender, load);
  load.end();
  await load.result;
}

/** How long it took, in ms. */
async function addOne(
  run: Run,
  { column, running }: Contender,
  load: Awaited<ReturnType<typeof startLoad>>,
): Promise<number | undefined> {
  const { name, host } = newHost(hostsAdded++);
  const probe = load.probe(name);
  const asked = await running.addHost?.(host);
  const served = await Promise.race([probe, delay(SERVED_WITHIN_MS, undefined, { ref: false })]);
  if (served !== undefined && asked !== undefined) return Number(served - asked) / 1e6;
  run.fail(column, `${host} was not served within ${SERVED_WITHIN_MS / 1000} s`);
  return undefined;
}

async function mibOf({ running }: Contender): Promise<number> {
  return (await memoryOf(await running.processes())).rssKib / 1024;
}
