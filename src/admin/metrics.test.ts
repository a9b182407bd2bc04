import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import type { GatewayPort } from '../gateway/control/gateway-port.ts';
import { BYTES_IN_AT, BYTES_OUT_AT, REASONS_AT, SECONDS_AT } from '../gateway/shared/shared-memory.ts';
import { type MetricsView, metricsRegistry, metricsText } from './metrics.ts';
import type { Status } from './status.ts';

const status: Status = {
  version: '0.1.0',
  engine: 'net',
  workers: 1,
  uptimeSeconds: 1,
  generation: 1,
  listeners: [],
  config: { ok: true, error: null, restartNeeded: [] },
  sources: [],
  leader: false,
  findings: [],
  counts: { clusters: 0, routes: 0, hosts: 0, connections: 0, draining: 0 },
  health: { backends: 0, down: 0, stretch: 1 },
};

const nothing = {
  node: 'v26',
  status: () => status,
  findings: () => new Map(),
  applySeconds: { counts: [], sum: 0 },
  connectionLimits: () => new Map(),
  certificates: () => [],
} satisfies Omit<MetricsView, 'gateway'>;

/** Of a gateway that has no routes, and does `look` whenever it is asked for them. */
function viewOf(look: () => void): MetricsView {
  const routes = () => {
    look();
    return [];
  };
  const gateway = { routes, backends: () => [], requests: () => new Map() } as unknown as GatewayPort;
  return { ...nothing, gateway };
}

const KINDS = ['api', 'konnectivity', 'apps-https', 'apps-http'];

/** Of a gateway with so many clusters of four routes; the first `used` routes have had connections. */
function viewOfClusters(clusters: number, used: number, failed: readonly string[] = []): MetricsView {
  const names = Array.from({ length: clusters }, (_, index) => `cluster-${String(index).padStart(4, '0')}`);
  const all = names.flatMap(cluster => KINDS.map(route => ({ cluster, route })));
  const counted = new Set([REASONS_AT, BYTES_IN_AT, BYTES_OUT_AT, SECONDS_AT]);
  const routes = [
    { slot: 0, route: undefined, get: () => 0 },
    ...all.map((route, index) => ({
      slot: index + 3,
      route,
      get: (at: number) => (index < used && counted.has(at) ? 123_456 : 0),
    })),
  ];
  const backends = all.map(({ cluster, route }) => {
    const checks = { ok: 1234, failed: failed.includes(cluster) ? 1 : 0 };
    return { cluster, route, backend: '192.0.2.101:6443', up: true, checks };
  });
  const gateway = { routes: () => routes, backends: () => backends, requests: () => new Map() };
  const counts = { ...status.counts, routes: all.length };
  return {
    ...nothing,
    status: () => ({ ...status, counts }),
    gateway: gateway as unknown as GatewayPort,
  };
}

/** How often each metric has a sample, without `_bucket`, `_sum` and `_count`. */
async function samplesOf(view: MetricsView): Promise<Record<string, number>> {
  const text = await metricsText(metricsRegistry(view, Registry.PROMETHEUS_CONTENT_TYPE));
  const names = text.match(/^causeway_\w+(?=\{)/gm) ?? [];
  const counted = Object.groupBy(names, name => name.replace(/_(bucket|sum|count)$/, ''));
  return Object.fromEntries(Object.entries(counted).map(([name, all = []]) => [name, all.length]));
}

test('metricsText() has less than 400 kB for 300 clusters of which 300 routes are in use', async () => {
  const registry = metricsRegistry(viewOfClusters(300, 300), Registry.PROMETHEUS_CONTENT_TYPE);
  const { length } = await metricsText(registry);
  assert.ok(length < 400_000, `${length} bytes`);
});

const unrouted = {
  causeway_build_info: 1,
  causeway_connections_total: 1,
  causeway_bytes_total: 2,
};

test('metricsText() tells in a large table of a route that nobody used only its backends', async () => {
  assert.deepEqual(await samplesOf(viewOfClusters(51, 0)), { ...unrouted, causeway_backend_up: 204 });
  assert.deepEqual(await samplesOf(viewOfClusters(51, 1)), {
    ...unrouted,
    causeway_connections_total: 2,
    causeway_connections_active: 1,
    causeway_bytes_total: 4,
    causeway_dial_seconds: 6,
    causeway_backend_up: 204,
  });
});

test('metricsText() has every counter of a small table from the start', async () => {
  assert.deepEqual(await samplesOf(viewOfClusters(50, 0)), {
    ...unrouted,
    causeway_connections_total: 201,
    causeway_connections_active: 200,
    causeway_kept_bytes: 51,
    causeway_bytes_total: 402,
    causeway_backend_up: 200,
    causeway_health_checks_total: 200,
  });
});

test('metricsText() tells of failed checks, whoever uses the route', async () => {
  const { causeway_health_checks_total: checks } = await samplesOf(viewOfClusters(60, 0, ['cluster-0001']));
  assert.equal(checks, 8);
});

test('metricsText() has limits and the ends of certificates', async () => {
  const view: MetricsView = {
    ...viewOf(() => {}),
    connectionLimits: () =>
      new Map([
        ['', 1000],
        ['a', 10],
        ['unknown', Infinity],
      ]),
    certificates: () => [{ certificate: 'api', cluster: 'a', notAfter: 1_800_000_000_000 }],
  };
  const text = await metricsText(metricsRegistry(view, Registry.PROMETHEUS_CONTENT_TYPE));
  assert.deepEqual(text.match(/^causeway_connections_limit.*$/gm), [
    'causeway_connections_limit{cluster=""} 1000',
    'causeway_connections_limit{cluster="a"} 10',
  ]);
  assert.match(
    text,
    /^causeway_certificate_expiration_timestamp_seconds\{certificate="api",cluster="a"\} 1800000000$/m,
  );
});

test('metricsText() yields to the event loop between two families', async () => {
  let turns = 0;
  const seen: number[] = [];
  const registry = metricsRegistry(
    viewOf(() => seen.push(turns)),
    Registry.PROMETHEUS_CONTENT_TYPE,
  );
  let over = false;
  const others = () => {
    turns++;
    if (!over) setImmediate(others);
  };
  setImmediate(others);
  await metricsText(registry);
  over = true;
  assert.ok(seen.length >= 5, `${seen.length} families look at the routes`);
  assert.equal(new Set(seen).size, seen.length, `each in another turn: ${seen}`);
});

test('metricsText() works after a scrape that failed', async () => {
  let fails = true;
  const registry = metricsRegistry(
    viewOf(() => {
      if (fails) throw new Error('not started');
    }),
    Registry.OPENMETRICS_CONTENT_TYPE,
  );
  await assert.rejects(metricsText(registry), /not started/);
  fails = false;
  assert.match(await metricsText(registry), /^# TYPE causeway_connections counter$/m);
});
