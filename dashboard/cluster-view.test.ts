import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleClusters } from '../test/browser/gateway.samples.ts';
import type { Cluster, Route } from './api.ts';
import {
  type ClusterView,
  clusterView,
  filterClusters,
  firstOrder,
  hasProblem,
  type SortKey,
  sortClusters,
  sortKeys,
  unroutedMatches,
  unroutedView,
} from './cluster-view.ts';

const noReadings = () => [];
const [blue, green, red] = sampleClusters().map(cluster => clusterView(cluster, noReadings));

test('clusterView() adds up routes, backends and reasons', () => {
  const { open, sinceStart, recent, backends, down, outage, rates } = green;
  const { routes } = green.cluster;
  assert.equal(open, 61 + 12 + 40);
  const ended = routes
    .flatMap(({ reasons }) => Object.values(reasons ?? {}))
    .reduce((sum, count) => sum + count, 0);
  assert.deepEqual(sinceStart, {
    connections: ended + open,
    bytesIn: routes.reduce((sum, route) => sum + route.bytesIn, 0),
    bytesOut: routes.reduce((sum, route) => sum + route.bytesOut, 0),
    refused: 118,
    failed: 311,
  });
  assert.deepEqual(recent, {
    connections: 96 + 24 + 80,
    bytesIn: routes.reduce((sum, route) => sum + (route.recent?.bytesIn ?? 0), 0),
    bytesOut: routes.reduce((sum, route) => sum + (route.recent?.bytesOut ?? 0), 0),
    refused: 0,
    failed: 4,
  });
  assert.deepEqual([backends, down, outage, rates], [5, 1, false, undefined]);
});

test('clusterView() adds up the rates of the routes that have one', () => {
  const reading = { at: 0, connections: 0, bytesIn: 0, bytesOut: 0, refused: 0 };
  const later = { at: 1000, connections: 5, bytesIn: 10, bytesOut: 20, refused: 1 };
  const { rates } = clusterView(blue.cluster, ({ kind }) => (kind === 'api' ? [reading] : [reading, later]));
  assert.deepEqual(rates, { connections: 10, bytesIn: 20, bytesOut: 40, refused: 2 });
});

test('clusterView() copes with a gateway that reports less', () => {
  const backends = [{ address: '192.0.2.1:1', up: true }];
  const route: Route = { kind: 'api', hosts: [], backends, connections: 3, bytesIn: 0, bytesOut: 0 };
  const bare = clusterView({ ...blue.cluster, routes: [route] }, noReadings);
  assert.deepEqual(
    [bare.open, bare.sinceStart.connections, bare.recent, hasProblem(bare)],
    [3, 3, undefined, false],
  );
});

test('clusterView() has an outage when a route has no backend that can be used', () => {
  const outageOf = (ups: readonly (boolean | null)[], change: Partial<Route> = {}) => {
    const backends = ups.map((up, index) => ({ address: `192.0.2.${index}:1`, up }));
    const route = { ...blue.cluster.routes[0], backends, ...change };
    const routes = [blue.cluster.routes[1], route];
    return clusterView({ ...blue.cluster, routes }, noReadings).outage;
  };
  assert.equal(outageOf([false]), true, 'a lone backend that is down');
  assert.equal(outageOf([false, false]), true);
  assert.equal(outageOf([false, true]), false, 'one of several');
  assert.equal(outageOf([null]), false, 'before the first check');
  assert.equal(outageOf([false, null]), false, 'the other one is tried');
  assert.equal(outageOf([]), true);
  assert.equal(outageOf([], { kind: 'apps-http' }), false, 'may be a redirect');
  assert.equal(outageOf([], { kind: 'apps-http', redirect: true }), false);
  assert.equal(outageOf([], { kind: 'apps-http', redirect: false }), true);
});

test('hasProblem() sees outages, backends that are down and findings, but not unknown health', () => {
  assert.deepEqual([blue, green, red].map(hasProblem), [false, true, true]);
  const up = (value: boolean | null) => clusterView(withHealth(value), noReadings);
  assert.deepEqual([up(null), up(true), up(false)].map(hasProblem), [false, false, true]);
  assert.equal(up(null).unknown, 7);
});

test('unroutedView() and unroutedMatches() are about connections of no cluster', () => {
  const reasons = { 'unknown-host': 9, 'no-data': 2 };
  const recent = { opened: 3, bytesIn: 4, bytesOut: 5, reasons: { 'unknown-host': 1 } };
  const counts = { connections: 11, bytesIn: 7, bytesOut: 8, reasons, recent };
  assert.deepEqual(unroutedView(counts, []), {
    sinceStart: { connections: 11, bytesIn: 7, bytesOut: 8, refused: 9, failed: 0 },
    recent: { connections: 3, bytesIn: 4, bytesOut: 5, refused: 1, failed: 0 },
    rates: undefined,
  });
  assert.deepEqual(
    ['', 'No cluster', 'unknown-host', 'blue'].map(filter => unroutedMatches(counts, filter)),
    [true, true, true, false],
  );
});

test('filterClusters() looks for every word in names, ids, hosts, backends and kinds', () => {
  const found = (filter: string, problemsOnly = false) =>
    names(filterClusters([blue, green, red], filter, problemsOnly));
  assert.deepEqual(found(''), ['blue', 'green', 'red']);
  assert.deepEqual(found('GREEN'), ['green']);
  assert.deepEqual(found('shop.example'), ['blue']);
  assert.deepEqual(found('10.10.3.20'), ['red']);
  assert.deepEqual(found('0b9c7c0e'), ['blue']);
  assert.deepEqual(found('  apps-http  kamaji '), ['red']);
  assert.deepEqual(found('green kamaji'), []);
  assert.deepEqual(found('', true), ['green', 'red']);
  assert.deepEqual(found('api.green', true), ['green']);
});

test('sortClusters() orders by each column, and by name where that is equal', () => {
  const sorted = (by: SortKey) => names(sortClusters([red, green, blue], firstOrder(by)));
  assert.deepEqual(sorted('name'), ['blue', 'green', 'red']);
  assert.deepEqual(sorted('health'), ['green', 'red', 'blue']);
  assert.deepEqual(sorted('open'), ['blue', 'green', 'red']);
  assert.deepEqual(sorted('failed'), ['green', 'blue', 'red']);
  assert.deepEqual(sorted('rate'), ['blue', 'green', 'red']);
  assert.deepEqual(
    sorted('refused'),
    ['green', 'blue', 'red'],
    'since the start where the last minutes are equal',
  );
  assert.deepEqual(names(sortClusters([blue, green, red], { by: 'name', descending: true })), [
    'red',
    'green',
    'blue',
  ]);
});

test('sortClusters() has outages on top, whatever the order', () => {
  const out = clusterView({ ...withHealth(false), name: 'yellow' }, noReadings);
  for (const by of sortKeys)
    for (const descending of [true, false])
      assert.equal(names(sortClusters([red, green, blue, out], { by, descending }))[0], 'yellow', by);
});

test('sortClusters() orders by the last five minutes first', () => {
  const failed = (name: string, reasons: Record<string, number>, recent: Record<string, number>) =>
    clusterView(
      {
        ...blue.cluster,
        name,
        routes: [
          {
            ...blue.cluster.routes[0],
            reasons,
            recent: { opened: 0, bytesIn: 0, bytesOut: 0, reasons: recent },
          },
        ],
      },
      noReadings,
    );
  const views = [
    failed('long-ago', { 'connect-failed': 900 }, {}),
    failed('now', { 'connect-failed': 5 }, { 'connect-failed': 5 }),
  ];
  assert.deepEqual(names(sortClusters(views, firstOrder('failed'))), ['now', 'long-ago']);
});

test('sortClusters() counts numbers in names', () => {
  const views = ['tenant-10', 'tenant-9', 'tenant-1'].map(name =>
    clusterView({ ...blue.cluster, name }, noReadings),
  );
  assert.deepEqual(names(sortClusters(views, firstOrder('name'))), ['tenant-1', 'tenant-9', 'tenant-10']);
});

/** Cluster blue with all its backends up, down or unknown. */
function withHealth(up: boolean | null): Cluster {
  const routes = blue.cluster.routes.map(route => ({
    ...route,
    backends: route.backends.map(backend => ({ ...backend, up })),
  }));
  return { ...blue.cluster, routes };
}

function names(views: readonly ClusterView[]): string[] {
  return views.map(({ cluster }) => cluster.name);
}
