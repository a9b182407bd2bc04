// (f) How long adding a host takes, and whether other connections are affected.

import { setTimeout as delay } from 'node:timers/promises';
import { startLoad } from '../load-generator.ts';
import { haproxy, haproxyDefault } from '../peers/haproxy.ts';
import type { Peer } from '../peers/peer.ts';
import { newHost } from '../routes.ts';
import { type Contender, interleave, start, warmUp } from './contend.ts';
import type { Run, Scenario } from './scenario.ts';

const HOSTS = 10_000;
/** Enough that a stall affects some, and few enough that no peer is at its limit otherwise. */
const LOAD = { flood: 200, rate: 1000, hosts: HOSTS, pings: 50, every: 0.01 };
const BEFORE_MS = 300;
const AFTER_MS = 700;
const SERVED_WITHIN_MS = 60_000;

const columns = [
  { id: 'causeway', label: 'Causeway, file replaced' },
  { id: 'haproxy', label: 'HAProxy, map replaced and reload' },
  { id: 'haproxy-api', label: 'HAProxy, runtime API' },
  { id: 'nginx', label: 'nginx, map replaced and reload' },
];

let hostsAdded = 0;

export const addHost: Scenario = {
  id: 'f',
  title: 'Add a host',
  how:
    `${HOSTS.toLocaleString('en')} hosts, ${LOAD.rate.toLocaleString('en')} new connections a second and ${LOAD.pings} ` +
    'tunnels that ping every 10 ms. A host is added, and a connection a millisecond asks for it until one is served. ' +
    'Causeway reads the changed clusters of its file, in a thread of its own; the table change itself is what its metric ' +
    'causeway_table_apply_seconds says: from the difference until every worker serves it. The worst stall is the ' +
    'longest that a ping took. Dropped are tunnels and connections that failed.',
  peers: ['causeway', 'haproxy', 'nginx'],
  columns,
  measures: [
    { key: 'served', label: 'from the change until served', unit: 'ms', better: 'lower' },
    {
      key: 'apply',
      label: 'of that, from the table diff on',
      unit: 'ms',
      better: 'lower',
      picture: 'New host until served (ours: from the table diff)',
    },
    { key: 'stall', label: 'worst stall of a running tunnel', unit: 'ms', better: 'lower' },
    { key: 'dropped', label: 'connections dropped', unit: '', better: 'lower' },
  ],
  goals: [
    {
      text: 'new host until served at 10,000 hosts, from the table diff',
      unit: 'ms',
      limit: 5,
      value: of => of('causeway', 'apply'),
    },
    {
      text: 'connections dropped by it',
      unit: '',
      limit: 0,
      value: of => of('causeway', 'dropped'),
    },
  ],
  async run(run) {
    await using stack = new AsyncDisposableStack();
    const contenders: Contender[] = [];
    const routes = { hosts: HOSTS, added: [], ports: run.bed.ports };
    for (const peer of withRuntimeApi(run.peers))
      contenders.push(stack.use(await start(run, peer, { routes })));
    await warmUp(run, contenders, { flood: 16, hosts: HOSTS });
    await interleave(run, contenders, contender => addOne(run, contender));
  },
};

function withRuntimeApi(peers: readonly Peer[]): Peer[] {
  const runtime = haproxy({ ...haproxyDefault, id: 'haproxy-api', adds: 'runtime' });
  return peers.flatMap(peer => (peer.id === 'haproxy' ? [peer, runtime] : [peer]));
}

async function addOne(run: Run, { column, running }: Contender): Promise<void> {
  const { name, host } = newHost(hostsAdded++);
  const applied = (await running.applySeconds?.()) ?? 0;
  const load = await startLoad(run.bed, running, LOAD);
  await load.running;
  await delay(BEFORE_MS);
  const probe = load.probe(name);
  const asked = await running.addHost?.(host);
  const served = await Promise.race([probe, delay(SERVED_WITHIN_MS, undefined, { ref: false })]);
  await delay(AFTER_MS);
  load.end();
  const { errors, pingUs } = await load.result;
  if (served === undefined || asked === undefined) {
    run.fail(column, `${host} was not served within ${SERVED_WITHIN_MS / 1000} s`);
    return;
  }
  const ms = Number(served - asked) / 1e6;
  run.record(column, 'served', ms);
  if (running.applySeconds) run.record(column, 'apply', ((await running.applySeconds()) - applied) * 1e3);
  else run.record(column, 'apply', ms);
  run.record(column, 'stall', pingUs.max / 1e3);
  run.record(
    column,
    'dropped',
    Object.values(errors).reduce((sum, count) => sum + count, 0),
  );
}
