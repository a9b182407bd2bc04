// Faults outside the data path: a health check that throws has no result, an admin request that throws is a 500,
// an event that throws is dropped. Each is logged, and everything else continues.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { faulty } from './fault-marks.ts';
import { alert, connectClient, hello, lineOf, until, visit } from './given.ts';
import { assertAlive, HttpBackend } from './http-given.ts';

const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());

const backend = stack.use(await HttpBackend.start('backend'));
const health = (path: string) => `{ check: http, path: ${path}, every: 50ms }`;
const gateway = stack.use(
  await startCauseway({
    env: faulty,
    config: `
listen: ["127.0.0.1:0"]
clusters:
  - { name: broken, routes: { web: { hosts: [broken.test], backends: ["${backend.text}"], health: ${health('/fault-check')} } } }
  - { name: sound, routes: { web: { hosts: [sound.test], backends: ["${backend.text}"], health: ${health('/')} } } }
`,
  }),
);

const lines = (msg: string, thread?: string): LogLine[] =>
  gateway.lines().filter(line => line.msg === msg && (thread === undefined || line.thread === thread));

function assertStack(line: LogLine): void {
  assert.equal(line.level, 'error');
  assert.match((line.err as { stack: string }).stack, /^Error: injected: .*src\//s);
}

test('a health check that throws has no result, and later checks run', async () => {
  const checks = (cluster: string) => gateway.metric('causeway_health_checks_total', { cluster });
  await until('some checks', async () => (await checks('sound')) > 3 && lines('fault', 'health').length > 3);
  assert.equal(await checks('broken'), 0);
  const [line] = lines('fault', 'health');
  assertStack(line);
  assert.deepEqual([line.cluster, line.route, line.backend], ['broken', 'web', backend.text]);
  assert.ok(!lines('health').some(({ cluster }) => cluster === 'broken'));
  assertAlive(gateway);
});

test('an admin request that throws is a 500 with a log line, and the next one is answered', async () => {
  const explain = (host: string) => fetch(`${gateway.admin}/api/v1/explain?host=${host}`);
  const failed = await explain('fault-route.test');
  assert.equal(failed.status, 500);
  assert.deepEqual(await failed.json(), { error: 'The request failed; the log has the cause' });
  const line = await gateway.line(({ msg }) => msg === 'admin request failed');
  assertStack(line);
  assert.equal(line.path, '/api/v1/explain');
  assert.equal((await explain('sound.test')).status, 200);
});

test('an event stream that throws at its start is a 500', async () => {
  const { status } = await fetch(`${gateway.admin}/api/v1/events`, {
    headers: { 'User-Agent': 'fault-open' },
  });
  assert.equal(status, 500);
  assertStack(
    await gateway.line(({ msg, path }) => msg === 'admin request failed' && path === '/api/v1/events'),
  );
});

test('an event stream that throws ends, and the others get the event', async () => {
  const open = async (agent: string) => {
    const response = await fetch(`${gateway.admin}/api/v1/events`, { headers: { 'User-Agent': agent } });
    let text = '';
    let isOver = false;
    void (async () => {
      try {
        for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
      } catch {
        // Cut off.
      }
      isOver = true;
    })();
    return { text: () => text, isOver: () => isOver, response };
  };
  const before = lines('fault', 'control').length;
  const broken = await open('fault-write');
  const sound = await open('sound');
  await until('both to be open', () => sound.text().includes('retry'));
  const { received } = await visit(gateway.port, hello('nobody.test'));
  assert.deepEqual(received, alert(112));
  await until('the event', () => sound.text().includes('nobody.test'));
  await until('the end of the other', () => broken.isOver());
  await until('a line for it', () => lines('fault', 'control').length > before);
  const reported = lines('fault', 'control').slice(before);
  assert.equal(reported.length, 1);
  assertStack(reported[0]);
  await sound.response.body?.cancel().catch(() => {});
});

test('a connection whose event throws has its log line, and the control thread lives', async () => {
  const before = lines('fault', 'control').length;
  using client = await connectClient(gateway.port);
  client.send(hello('fault-told.test'));
  await client.untilEnd();
  assert.equal((await lineOf(gateway, client)).reason, 'unknown-host');
  await until('the line of the fault', () => lines('fault', 'control').length === before + 1);
  assert.equal((await fetch(`${gateway.admin}/healthz`)).status, 200);
  assertAlive(gateway);
});
