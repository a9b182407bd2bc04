// A rolling update of two replicas on hosts of their own, behind HAProxy as the load balancer, which looks at readyz:
// a new replica starts, an old one gets SIGTERM, and so on. No connection is refused, none is reset, no byte is lost.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { openBed } from '../../bench/bed.ts';
import { startLoad } from '../../bench/load-generator.ts';
import { renderCauseway } from '../../bench/peers/causeway.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';

const REPLICAS = 2;
const TUNNELS = 200;
/** Node accepts one connection in each turn of its loop: `net` must keep up on a busy machine. */
const RATE = 200;

test('a rolling update behind a load balancer loses nothing', { skip: missingNetns() }, async () => {
  await using stack = new AsyncDisposableStack();
  const bed = stack.use(await openBed());
  const dir = stack.use(await tempDir());
  await writeFile(dir.file('password'), 'long enough for a test\n', { mode: 0o600 });
  const hosts: Netns[] = [];
  for (let i = 0; i < 2 * REPLICAS; i++) hosts.push(stack.use(await netns({ name: `replica${i}` })));
  const config = renderCauseway({ hosts: 10, added: [], ports: bed.ports })
    .replace('listen: ["127.0.0.1:0"]', 'listen: [":6443"]\ntimeouts: { drainDelay: 3s }')
    .replace(
      'admin: { on: "127.0.0.1:0" }',
      `admin: { on: ":9440", auth: [{ username: admin, passwordFile: ${dir.file('password')} }] }`,
    )
    .replaceAll('"127.0.0.1:', `"${hosts[0].machine}:`);
  const start = async (i: number): Promise<Causeway> =>
    stack.use(await startCauseway({ config, netns: hosts[i] }));

  const port = await freePort();
  const servers = hosts.map(
    ({ address }, i) => `  server replica${i} ${address}:6443 check port 9440 inter 200ms fall 1 rise 1`,
  );
  const balancer = stack.use(
    await startHaproxy({
      config: `
defaults
  mode tcp
  timeout connect 5s
  timeout client 10m
  timeout server 10m
listen all
  bind 127.0.0.1:${port}
  balance roundrobin
  option redispatch 1
  retries 3
  option httpchk GET /readyz
${servers.join('\n')}`,
    }),
  );
  /** Servers that get new connections. */
  const isUp = async (i: number) =>
    (await balancer.runtime('show stat')).split('\n').some(line => {
      const fields = line.split(',');
      return fields[1] === `replica${i}` && fields[17] === 'UP';
    });
  const old: Causeway[] = [];
  for (let i = 0; i < REPLICAS; i++) old.push(await start(i));
  for (let i = 0; i < REPLICAS; i++) await until(`replica ${i}`, () => isUp(i));
  for (let i = REPLICAS; i < 2 * REPLICAS; i++) await until(`no replica ${i}`, async () => !(await isUp(i)));

  const peer = { port: () => port, processes: async () => [], [Symbol.asyncDispose]: async () => {} };
  const parts = { flood: 300, rate: RATE, hosts: 10, pings: TUNNELS, every: 1, any: 1 };
  const load = await startLoad(bed, peer, parts);
  await load.running;
  for (let i = 0; i < REPLICAS; i++) {
    await start(REPLICAS + i);
    await until(`replica ${REPLICAS + i}`, () => isUp(REPLICAS + i));
    old[i].program.signal('SIGTERM');
    await until(`the end of replica ${i}`, async () => !(await isUp(i)));
    // It accepts until drainDelay is over: the load balancer has looked elsewhere by then.
    await until(`no new connections to replica ${i}`, () => hasNoListener(old[i].program.pid));
  }
  load.end();
  const { errors, connections, pings } = await load.result;
  const broken = Object.entries(errors).filter(([kind, count]) => kind !== 'late' && count > 0);
  assert.deepEqual(broken, []);
  assert.ok(connections > RATE && pings > TUNNELS, `${connections} connections, ${pings} pings`);
  for (const { program } of old) assert.deepEqual(await program.ended, { code: 0, signal: null });
});

/** Whether nothing listens on port 6443 in the network namespace of that process. */
function hasNoListener(pid: number): boolean {
  const port = `:${(6443).toString(16).toUpperCase()}`;
  return ['tcp', 'tcp6'].every(name =>
    readFileSync(`/proc/${pid}/net/${name}`, 'utf8')
      .split('\n')
      .map(line => line.trim().split(/\s+/))
      .every(([, local, , state]) => local?.endsWith(port) !== true || state !== '0A'),
  );
}
