// Metrics for others: promtool accepts them, the alerts fire when they should, and a real Prometheus scrapes a gateway, an
// agent and the demo, evaluates every rule and answers every query of the dashboard.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { certificateFor } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { run } from '../../testbed/run.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { startPrometheus } from '../../testbed/start-prometheus.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { Backend, hello, servedBy, until, visit } from '../features/given.ts';

const skip = missingPrograms('prometheus', 'promtool', 'openssl');
const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const ALERTS = path('../../chart/files/alerts.yaml');
const ALERT_TESTS = path('alerts.yaml');
const DASHBOARD = path('../../chart/files/dashboard.json');
const ID = 'cluster-a';

const stack = new AsyncDisposableStack();
let gateway: Causeway;
let agent: RunningAgent;
before(async () => {
  if (skip) return;
  const backend = stack.use(await Backend.start({ name: 'backend' }));
  const dir = stack.use(await tempDir());
  await writeFile(dir.file('secret'), 's'.repeat(43), { mode: 0o600 });
  const { certFile, keyFile } = await certificateFor('tunnel.example.com');
  const health = 'health: { check: tcp, every: 200ms, fall: 1 }';
  const config = `
listen: [{ on: "127.0.0.1:0", agents: [127.0.0.1] }]
identity: { secretFile: ${dir.file('secret')} }
tunnel: { hosts: [tunnel.example.com], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }
clusters:
  - name: a
    id: ${ID}
    limits: { connections: 100 }
    api: { hosts: [a.example.com], backends: ["${backend.text}"], ${health} }
    apps: { hosts: [apps.a.example.com], http: redirect }
  - { name: b, api: { hosts: [b.example.com], backends: ["127.0.0.1:1"], ${health} } }
`;
  gateway = stack.use(await startCauseway({ config }));
  const args = ['--metrics-on', '127.0.0.1:0'];
  const to = `127.0.0.1:${gateway.port}`;
  agent = stack.use(await startAgent({ uplink: 'proxy', gateway: to, id: ID, args }));
  await servedBy(gateway.port, hello('a.example.com'));
  await servedBy(agent.port, hello('a.example.com'));
  await visit(gateway.port, hello('b.example.com'));
  await visit(gateway.port, hello('nobody.example.com'));
  await visit(gateway.port, 'GET / HTTP/1.1\r\nHost: apps.a.example.com\r\nConnection: close\r\n\r\n');
  await until('the health checks', async () => (await gateway.metric('causeway_backend_up')) === 1);
});
after(() => stack.disposeAsync());

test('promtool check metrics accepts what gateway and agent serve', { skip }, async () => {
  for (const url of [gateway.admin, agent.metrics]) {
    const text = await (await fetch(`${url}/metrics`)).text();
    const { code, stdout, stderr } = await run('promtool', ['check', 'metrics'], { input: text });
    assert.deepEqual([code, `${stdout}${stderr}`], [0, ''], url);
  }
});

test('limits and the ends of our own certificates are told', { skip }, async () => {
  assert.equal(await gateway.metric('causeway_connections_limit', { cluster: 'a' }), 100);
  assert.ok((await gateway.metric('causeway_connections_limit', { cluster: '' })) > 100);
  const labels = { certificate: 'tunnel', cluster: '' };
  const expires = await gateway.metric('causeway_certificate_expiration_timestamp_seconds', labels);
  assert.ok(expires > Date.now() / 1000, String(expires));
});

test('promtool check rules and test rules', { skip }, async () => {
  for (const args of [
    ['check', 'rules', '--lint-fatal', ALERTS],
    ['test', 'rules', ALERT_TESTS],
  ]) {
    const { code, stdout, stderr } = await run('promtool', args);
    assert.equal(code, 0, `${stdout}${stderr}`);
  }
});

interface AlertTest {
  readonly alertname: string;
  readonly exp_alerts?: readonly object[];
}

test('every alert has a case in which it fires, and one in which it does not', () => {
  const { groups } = parse(readFileSync(ALERTS, 'utf8'));
  const alerts: string[] = groups.flatMap(({ rules }: { rules: { alert: string }[] }) =>
    rules.map(({ alert }) => alert),
  );
  const { tests } = parse(readFileSync(ALERT_TESTS, 'utf8'));
  const cases: AlertTest[] = tests.flatMap((each: { alert_rule_test: AlertTest[] }) => each.alert_rule_test);
  const names = (fires: boolean) =>
    [
      ...new Set(
        cases.filter(one => (one.exp_alerts !== undefined) === fires).map(({ alertname }) => alertname),
      ),
    ].toSorted();
  assert.deepEqual(names(true), alerts.toSorted());
  assert.deepEqual(names(false), alerts.toSorted());
});

/** With the variables as for All. */
function dashboardQueries(): readonly { readonly title: string; readonly expr: string }[] {
  const { panels } = JSON.parse(readFileSync(DASHBOARD, 'utf8'));
  return panels.flatMap(({ title, targets = [] }: { title: string; targets?: { expr: string }[] }) =>
    targets.map(({ expr }) => ({
      title,
      expr: expr.replaceAll(/\$(job|cluster)\b/g, '.*').replaceAll('$__rate_interval', '1m'),
    })),
  );
}

test('the panels of the dashboard have ids of their own and do not overlap', () => {
  const { panels } = JSON.parse(readFileSync(DASHBOARD, 'utf8'));
  const ids = panels.map(({ id }: { id: number }) => id);
  assert.equal(new Set(ids).size, ids.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }: { gridPos: Record<string, number> }) =>
    Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
  );
  assert.equal(new Set(cells).size, cells.length);
  for (const { gridPos } of panels) assert.ok(gridPos.x + gridPos.w <= 24);
});

/** Nothing is wrong, or nobody uses it. */
const MAY_BE_EMPTY = [
  'Open connections by cluster',
  'Connections that reach no backend',
  'Refused and failed',
];

test('a Prometheus evaluates all rules and answers all queries of the dashboard', {
  skip,
  timeout: 120_000,
}, async () => {
  await using dir = await tempDir();
  await using demo = await startProgram({
    command: causewayBin,
    args: ['demo', '--port', String(await freePort())],
    cwd: dir.path,
    ready: { log: /Ctrl-C/ },
    stopSignal: 'SIGINT',
  });
  const [, dashboard] = /Dashboard +(\S+)/.exec(demo.log()) ?? assert.fail(demo.log());
  const jobs = {
    'causeway-admin': new URL(gateway.admin).host,
    'causeway-agent': new URL(agent.metrics).host,
    'causeway-demo': new URL(dashboard).host,
  };
  await using prometheus = await startPrometheus({ jobs, ruleFile: ALERTS });
  const value = async (query: string) =>
    (await prometheus.ask(`query?query=${encodeURIComponent(query)}`)).result;
  await until('all jobs', async () => (await value('up == 1')).length === 3, 60_000);
  const rules = async (): Promise<{ name: string; health: string; lastError?: string; state: string }[]> =>
    (await prometheus.ask('rules')).groups.flatMap(({ rules: all }: { rules: object[] }) => all);
  const isPending = ({ name, state }: { name: string; state: string }) =>
    name === 'CausewayNoBackend' && state !== 'inactive';
  await until('a pending alert', async () => (await rules()).some(isPending), 60_000);
  const all = await rules();
  assert.deepEqual(
    all.filter(({ health }) => health !== 'ok'),
    [],
  );
  const pending = all.filter(({ state }) => state !== 'inactive').map(({ name }) => name);
  assert.ok(!pending.includes('CausewayDown'), `${pending}`);

  // Rates need two scrapes.
  await until('rates', async () => (await value('rate(process_cpu_seconds_total[1m])')).length === 3, 60_000);
  for (const { title, expr } of dashboardQueries()) {
    const result = await value(expr);
    if (!MAY_BE_EMPTY.includes(title)) assert.notEqual(result.length, 0, `${title}: ${expr}`);
  }
});
