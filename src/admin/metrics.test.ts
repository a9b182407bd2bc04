import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import type { Gateway } from '../gateway/control/gateway.ts';
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

/** Of a gateway that has no routes, and does `look` whenever it is asked for them. */
function viewOf(look: () => void): MetricsView {
  const routes = () => {
    look();
    return [];
  };
  const gateway = { routes, backends: () => [], requests: () => new Map() } as unknown as Gateway;
  return {
    gateway,
    node: 'v26',
    status: () => status,
    findings: () => new Map(),
    applySeconds: { counts: [], sum: 0 },
  };
}

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
