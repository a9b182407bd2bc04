// Random HTTP/1 clients and servers on real sockets, while the file is edited. Clients pipeline, send and read in pieces,
// and leave; servers answer early, in any framing, reset, or close what was kept. Whatever happens, each response is the
// one to its own request and whole, each server gets whole requests for its own host, and no body becomes a request.
// For a longer run: HTTP_STORM_SECONDS=600 HTTP_STORM_SEED=7.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { startCauseway } from '../../testbed/start-causeway.ts';
import { assertAlive, untilIdle } from '../features/http-given.ts';
import { type Storm, startServer, visit } from './http-storm-peers.ts';
import { seededRandom } from './seeded-random.ts';

const SECONDS = Number(process.env.HTTP_STORM_SECONDS ?? 8);
const SEED = Number(process.env.HTTP_STORM_SEED ?? Date.now() % 1_000_000);
const CLIENTS = 30;
const EDIT_MS = 400;
/** Enough to say that each behaviour has been met. */
const LEAST = 5;
const expected = [
  '200',
  '413',
  '502',
  'in chunks',
  'and resets at once',
  'slowly and closes',
  'behind hints',
  'speaks first',
];

test(`a storm of HTTP clients and servers, seed ${SEED}`, {
  timeout: (SECONDS + 60) * 1000,
}, async context => {
  const counts = new Map<string, number>();
  const alarms: string[] = [];
  const storm: Storm = {
    random: seededRandom(SEED),
    alarm: what => alarms.push(what),
    count: what => counts.set(what, (counts.get(what) ?? 0) + 1),
  };
  await using stack = new AsyncDisposableStack();
  const [one, other, b] = [
    await startServer('a.test', storm, stack),
    await startServer('a.test', storm, stack),
    await startServer('b.test', storm, stack),
  ];
  const config = (edit: number) => `
listen: ["127.0.0.1:0"]
timeouts: { connect: 1s, stalled: 4s, idle: 20s }
log: { connections: none }
clusters:
  - name: a
    apps: { hosts: [a.test, "edit-${edit}.test"], http: [${edit % 2 === 0 ? `"${one}", "${other}"` : `"${other}", "${one}"`}] }
  - { name: b, apps: { hosts: [b.test], http: ["${b}"] } }
`;
  await using gateway = await startCauseway({ config: config(0) });
  const end = performance.now() + SECONDS * 1000;
  let visits = 0;
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (performance.now() < end && alarms.length === 0) await visit(gateway.port, `${visits++}`, storm);
  });
  for (let edit = 1; performance.now() < end; edit++) {
    await gateway.write(config(edit));
    await delay(EDIT_MS);
  }
  await Promise.all(clients);
  context.diagnostic(
    `${visits} clients: ${[...counts].map(([what, count]) => `${count} ${what}`).join(', ')}`,
  );
  assert.deepEqual(alarms, []);
  await untilIdle(gateway);
  assertAlive(gateway);
  assert.equal(await gateway.metric('causeway_connections_total', { reason: 'bad-request' }), 0);
  assert.equal(await gateway.metric('causeway_connections_total', { reason: 'fault' }), 0);
  for (const what of expected) assert.ok((counts.get(what) ?? 0) >= LEAST, `${what} was hardly met`);
});
