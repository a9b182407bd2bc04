// The admin listener: health, status and metrics exactly as documented, and access to them.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { as, ask } from './ask-admin.ts';
import { supports } from './engine.ts';
import { Backend, connectClient, hello, servedBy, until, visit } from './given.ts';

let gateway: Causeway;
let guarded: Causeway;
let dir: TempDir;
const stack = new AsyncDisposableStack();

before(async () => {
  const backend = stack.use(await Backend.start({ name: 'backend' }));
  dir = stack.use(await tempDir());
  await writeFile(dir.file('admin.password'), 'open sesame\n');
  await writeFile(dir.file('viewer.password'), 'päss:wörd');
  const clusters = `
clusters:
  - name: lab
    api: { hosts: [api.lab.test, "*.api.lab.test"], backends: ["${backend.text}"], health: { check: none } }
    konnectivity: { hosts: [konnectivity.lab.test], backends: ["${backend.text}"], health: { check: tcp } }
    apps: { hosts: ["*.apps.lab.test"], http: redirect }
`;
  [gateway, guarded] = await Promise.all(
    [
      `listen: ["127.0.0.1:0"]\nworkers: 2\n${clusters}`,
      `listen: ["127.0.0.1:0"]
admin:
  on: "127.0.0.1:0"
  hosts: [Gateway.test]
  auth:
    - { username: admin, passwordFile: ${dir.file('admin.password')} }
    - { username: viewer, passwordFile: ${dir.file('viewer.password')}, role: viewer }
${clusters}`,
    ].map(async config => stack.use(await startCauseway({ config }))),
  );
});

after(() => stack.disposeAsync());

const get = (gateway: Causeway, path: string, headers: Record<string, string> = {}) =>
  ask(gateway, path, { headers });

/** Name → labels and value, in the order of the text. */
interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Family {
  readonly type: string;
  readonly samples: Sample[];
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const SAMPLE = new RegExp(
  `^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*),?\\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?|[+-]Inf|NaN)$`,
);

/** Parses the text format strictly: HELP and TYPE once and first, the samples of a family together. */
function parseMetrics(text: string): Map<string, Family> {
  assert.ok(text.endsWith('\n'));
  const families = new Map<string, Family>();
  const helped = new Set<string>();
  let open = '';
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const comment = new RegExp(`^# (HELP|TYPE) (${NAME}) (.+)$`).exec(line);
    if (comment?.[1] === 'HELP') {
      assert.ok(!helped.has(comment[2]), `HELP once: ${line}`);
      helped.add(comment[2]);
    } else if (comment !== null) {
      assert.ok(helped.has(comment[2]) && !families.has(comment[2]), `TYPE once, after HELP: ${line}`);
      assert.match(comment[3], /^(counter|gauge|histogram|summary|untyped)$/);
      families.set(comment[2], { type: comment[3], samples: [] });
      open = comment[2];
    } else {
      const sample = SAMPLE.exec(line);
      assert.ok(sample !== null, `neither comment nor sample: ${line}`);
      const [, name, labels = '', value] = sample;
      const family = families.get(open);
      const suffix =
        family?.type === 'histogram' || family?.type === 'summary' ? '(_bucket|_sum|_count)?' : '';
      assert.match(name, new RegExp(`^${open}${suffix}$`), `a sample of the family above it: ${line}`);
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
      family?.samples.push({
        name,
        labels: Object.fromEntries(pairs),
        value: Number(value.replace('Inf', 'Infinity')),
      });
    }
  }
  return families;
}

async function metrics(): Promise<Map<string, Family>> {
  const { status, headers, body } = await get(gateway, '/metrics');
  assert.equal(status, 200);
  assert.match(headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/);
  return parseMetrics(body);
}

function labelsOf({ samples }: Family): string[] {
  return [...new Set(samples.flatMap(({ labels }) => Object.keys(labels)))];
}

/** The documented metrics. */
const families: Readonly<Record<string, readonly [type: string, ...labels: string[]]>> = {
  causeway_connections_total: ['counter', 'cluster', 'route', 'reason'],
  causeway_connections_active: ['gauge', 'cluster', 'route'],
  causeway_connections_limit: ['gauge', 'cluster'],
  causeway_kept_bytes: ['gauge', 'cluster'],
  causeway_bytes_total: ['counter', 'cluster', 'route', 'direction'],
  causeway_requests_total: ['counter', 'cluster', 'route', 'code'],
  causeway_hello_seconds: ['histogram', ...(supports('helloTimes') ? ['le'] : [])],
  causeway_dial_seconds: ['histogram', 'cluster', 'route', 'le'],
  causeway_backend_up: ['gauge', 'cluster', 'route', 'backend'],
  causeway_health_checks_total: ['counter', 'cluster', 'route', 'backend', 'result'],
  causeway_certificate_expiration_timestamp_seconds: ['gauge'],
  causeway_dns_queries_total: ['counter'],
  causeway_clusters: ['gauge'],
  causeway_routes: ['gauge'],
  causeway_findings: ['gauge', 'severity'],
  causeway_table_generation: ['gauge'],
  causeway_table_apply_seconds: ['histogram', 'le'],
  causeway_config_ok: ['gauge'],
  causeway_source_up: ['gauge', 'source'],
  causeway_leader: ['gauge'],
  causeway_build_info: ['gauge', 'version', 'engine', 'node'],
};

test('healthz and readyz: 200 ok', async () => {
  for (const path of ['/healthz', '/readyz']) {
    const { status, body } = await get(gateway, path);
    assert.deepEqual([status, body], [200, 'ok'], path);
  }
});

test('an unknown path: 404', async () => {
  assert.equal((await get(gateway, '/api/v1/nothing')).status, 404);
});

test('status has exactly these keys', async () => {
  const { status, headers, body } = await get(gateway, '/api/v1/status');
  assert.equal(status, 200);
  assert.match(headers['content-type'] ?? '', /^application\/json/);
  const { version, engine, uptimeSeconds, ...rest } = JSON.parse(body);
  assert.match(version, /^\d+\.\d+\.\d+/);
  assert.ok(['net', 'epoll', 'haproxy'].includes(engine));
  assert.ok(uptimeSeconds > 0 && uptimeSeconds < 600);
  const nothing = { bytesIn: 0, bytesOut: 0, reasons: {} };
  const none = { connections: 0, ...nothing, recent: { opened: 0, ...nothing } };
  assert.deepEqual(rest, {
    workers: 2,
    generation: 1,
    listeners: [{ on: '127.0.0.1:0', address: `127.0.0.1:${gateway.port}` }],
    config: { ok: true, error: null, restartNeeded: [] },
    sources: [{ name: 'file', up: true, synced: true, error: null }],
    leader: false,
    findings: [],
    counts: { clusters: 1, routes: 3, hosts: 4, connections: 0, draining: 0 },
    health: { backends: 2, down: 0, stretch: 1 },
    traffic: { ...none, unrouted: none },
  });
});

test('status counts open connections', async () => {
  using client = await connectClient(gateway.port);
  client.send(hello('api.lab.test'));
  await client.receives('backend\n');
  const { counts } = (await gateway.status()) as { counts: { connections: number } };
  assert.equal(counts.connections, 1);
  assert.equal(await gateway.metric('causeway_connections_active', { cluster: 'lab', route: 'api' }), 1);
  client.finish();
  await client.untilEnd();
});

describe('metrics', () => {
  test('have exactly the documented names, types and labels', async () => {
    await servedBy(gateway.port, hello('api.lab.test'));
    await visit(gateway.port, 'GET / HTTP/1.1\r\nHost: a.apps.lab.test\r\nConnection: close\r\n\r\n');
    await until('the first check of a backend', async () => {
      return ((await metrics()).get('causeway_backend_up')?.samples.length ?? 0) > 0;
    });
    const found = await metrics();
    const ours = [...found].filter(([name]) => name.startsWith('causeway_'));
    assert.deepEqual(
      Object.fromEntries(ours.map(([name, family]) => [name, [family.type, ...labelsOf(family)]])),
      families,
    );
    assert.ok(found.has('process_cpu_seconds_total') && found.has('process_resident_memory_bytes'));
  });

  test('a histogram: its series appears with the first observation, cumulative, with sum and count', async () => {
    const dials = async () => (await metrics()).get('causeway_dial_seconds')?.samples ?? [];
    const before = await dials();
    assert.ok(before.every(({ labels }) => labels.route === 'api'));
    await servedBy(gateway.port, hello('konnectivity.lab.test'));
    const series = (await dials()).filter(({ labels }) => labels.route === 'konnectivity');
    const buckets = series.filter(({ name }) => name === 'causeway_dial_seconds_bucket');
    const bounds = buckets.map(({ labels }) => Number(labels.le.replace('Inf', 'Infinity')));
    assert.deepEqual(
      bounds,
      bounds.toSorted((a, b) => a - b),
    );
    assert.equal(bounds.at(-1), Number.POSITIVE_INFINITY);
    const values = buckets.map(({ value }) => value);
    assert.deepEqual(
      values,
      values.toSorted((a, b) => a - b),
    );
    assert.equal(values.at(-1), 1);
    assert.equal(series.find(({ name }) => name.endsWith('_count'))?.value, 1);
    const sum = series.find(({ name }) => name.endsWith('_sum'))?.value ?? -1;
    assert.ok(supports('dialMicroseconds') ? sum > 0 : sum >= 0, `${sum}`);
  });

  test('a histogram without observations has no series', async () => {
    await using fresh = await startCauseway({ config: 'listen: ["127.0.0.1:0"]\nworkers: 1\n' });
    const found = parseMetrics((await get(fresh, '/metrics')).body);
    assert.deepEqual(found.get('causeway_hello_seconds')?.samples, []);
    assert.deepEqual(found.get('causeway_dial_seconds')?.samples, []);
  });

  test('never contain client-chosen values', async () => {
    await visit(gateway.port, hello('chosen-by-the-client.test'));
    await servedBy(gateway.port, hello('chosen-by-the-client.api.lab.test'));
    const { body } = await get(gateway, '/metrics');
    assert.ok(!body.includes('chosen'));
    assert.match(body, /^causeway_connections_total\{cluster="",route="",reason="unknown-host"\} 1$/m);
  });

  test('as OpenMetrics on request', async () => {
    const { headers, body } = await get(gateway, '/metrics', {
      Accept: 'application/openmetrics-text; version=1.0.0',
    });
    assert.match(headers['content-type'] ?? '', /^application\/openmetrics-text; version=1\.0\.0/);
    assert.match(body, /\n# EOF\n$/);
    assert.match(body, /^# TYPE causeway_connections counter$/m);
    assert.match(body, /^causeway_connections_total\{/m);
    assert.match(body, /^causeway_table_apply_seconds_bucket\{le="1\.0"\} /m);
    assert.doesNotMatch(body, /le="\d+"/);
  });

  test('count the CPU time of the process since it started, in either format', async () => {
    const { body: text } = await get(gateway, '/metrics');
    const { body: open } = await get(gateway, '/metrics', { Accept: 'application/openmetrics-text' });
    for (const body of [text, open]) {
      const seconds = Number(/^process_cpu_seconds_total (.+)$/m.exec(body)?.[1]);
      // Starting workers, an engine and a table takes tenths of a second; the previous scrapes do not.
      assert.ok(seconds > 0.05, `${seconds}`);
    }
  });

  test('omit the event loop lag if none was sampled', async () => {
    // The second of two consecutive scrapes has no new sample.
    await metrics();
    const found = await metrics();
    assert.ok(found.has('nodejs_eventloop_lag_min_seconds'));
    for (const [name, { samples }] of found) {
      if (!name.startsWith('nodejs_eventloop_lag')) continue;
      for (const { value } of samples) assert.ok(value < 60, `${name} ${value}`);
    }
  });
});

describe('the Host', { concurrency: true }, () => {
  for (const [host, status] of [
    ['127.0.0.1', 200],
    ['192.0.2.1:9440', 200],
    ['[::1]:9440', 200],
    ['localhost', 200],
    ['LocalHost:9440', 200],
    ['gateway.test', 200],
    ['GATEWAY.test:443', 200],
    ['evil.test', 421],
    ['evil.test:9440', 421],
    ['localhost.evil.test', 421],
    ['127.0.0.1.evil.test', 421],
  ] as const) {
    test(`${host} → ${status}`, async () => {
      for (const path of ['/healthz', '/readyz'])
        assert.equal((await get(guarded, path, { Host: host })).status, status);
      if (status === 421) assert.equal((await get(guarded, '/metrics', { Host: host })).status, 421);
    });
  }

  test('none, as in a probe of HTTP/1.0 → 200; other paths still need the password', async () => {
    const asked = async (path: string) => {
      const { received } = await visit(Number(new URL(guarded.admin).port), `GET ${path} HTTP/1.0\r\n\r\n`);
      return received.toString().split('\r\n', 1)[0];
    };
    for (const path of ['/healthz', '/readyz']) assert.equal(await asked(path), 'HTTP/1.1 200 OK');
    assert.equal(await asked('/metrics'), 'HTTP/1.1 401 Unauthorized');
  });
});

describe('auth', () => {
  test('healthz and readyz need none', async () => {
    for (const path of ['/healthz', '/readyz']) assert.equal((await get(guarded, path)).status, 200);
  });

  for (const path of ['/metrics', '/api/v1/status']) {
    test(`${path} needs a user and the password`, async () => {
      const { status, headers } = await get(guarded, path);
      assert.equal(status, 401);
      assert.match(headers['www-authenticate'] ?? '', /^Basic realm=/);
      for (const wrong of [
        as('admin', 'open sesame '),
        as('admin', ''),
        as('viewer', 'open sesame'),
        as('nobody', 'open sesame'),
        { Authorization: 'Basic !' },
        { Authorization: 'Bearer open sesame' },
      ]) {
        assert.equal((await get(guarded, path, wrong)).status, 401, JSON.stringify(wrong));
      }
      assert.equal((await get(guarded, path, as('admin', 'open sesame'))).status, 200);
      assert.equal((await get(guarded, path, as('viewer', 'päss:wörd'))).status, 200);
    });
  }

  test('a changed password applies at once', async () => {
    await writeFile(dir.file('admin.password'), 'another one\n');
    assert.equal((await get(guarded, '/metrics', as('admin', 'open sesame'))).status, 401);
    assert.equal((await get(guarded, '/metrics', as('admin', 'another one'))).status, 200);
    await writeFile(dir.file('admin.password'), '');
    assert.equal((await get(guarded, '/metrics', as('admin', ''))).status, 401);
  });
});

test('off: nothing listens, and the ready line has null', async () => {
  await using gateway = await startCauseway({
    config: 'listen: ["127.0.0.1:0"]\nworkers: 1\nadmin: { on: "off" }\n',
  });
  assert.equal(gateway.lines()[0].admin, null);
});
