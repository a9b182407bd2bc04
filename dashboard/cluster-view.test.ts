import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleClusters } from '../test/browser/gateway.samples.ts';
import type { Route } from './api.ts';
import {
  type ClusterView,
  clusterView,
  filterClusters,
  firstOrder,
  hasProblem,
  type SortKey,
  sortClusters,
} from './cluster-view.ts';

const noReadings = () => [];
const [blue, green, red] = sampleClusters().map(cluster => clusterView(cluster, noReadings));

test('clusterView() adds up routes, backends and reasons', () => {
  const { open, total, bytesIn, backends, down, refused, failed, rates } = green;
  const { routes } = green.cluster;
  assert.equal(open, 61 + 12 + 40);
  const ended = routes
    .flatMap(({ reasons }) => Object.values(reasons ?? {}))
    .reduce((sum, count) => sum + count, 0);
  assert.equal(total, ended + open);
  assert.equal(
    bytesIn,
    routes.reduce((sum, route) => sum + route.bytesIn, 0),
  );
  assert.deepEqual([backends, down, refused, failed, rates], [5, 1, 118, 311, undefined]);
});

test('clusterView() adds up the rates of the routes that have one', () => {
  const reading = { at: 0, connections: 0, bytesIn: 0, bytesOut: 0, refused: 0 };
  const later = { at: 1000, connections: 5, bytesIn: 10, bytesOut: 20, refused: 1 };
  const { rates } = clusterView(blue.cluster, ({ kind }) => (kind === 'api' ? [reading] : [reading, later]));
  assert.deepEqual(rates, { connections: 10, bytesIn: 20, bytesOut: 40, refused: 2 });
});

test('clusterView() takes a gateway that tells less', () => {
  const backends = [{ address: '192.0.2.1:1', up: true }];
  const route: Route = { kind: 'api', hosts: [], backends, connections: 3, bytesIn: 0, bytesOut: 0 };
  const bare = clusterView({ ...blue.cluster, routes: [route] }, noReadings);
  assert.deepEqual([bare.open, bare.total, bare.refused, hasProblem(bare)], [3, 3, 0, false]);
});

test('hasProblem() sees backends that are down, routes without any, and findings', () => {
  assert.deepEqual([blue, green, red].map(hasProblem), [false, true, true]);
  const without = (change: Partial<Route>) => {
    const route = { ...blue.cluster.routes[0], backends: [], ...change };
    return hasProblem(clusterView({ ...blue.cluster, routes: [route] }, noReadings));
  };
  assert.deepEqual(
    [
      {},
      { kind: 'apps-http' },
      { kind: 'apps-http', redirect: true },
      { kind: 'apps-http', redirect: false },
    ].map(without),
    [true, false, false, true],
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
  assert.deepEqual(names(sortClusters([blue, green, red], { by: 'name', descending: true })), [
    'red',
    'green',
    'blue',
  ]);
});

test('sortClusters() counts numbers in names', () => {
  const views = ['tenant-10', 'tenant-9', 'tenant-1'].map(name =>
    clusterView({ ...blue.cluster, name }, noReadings),
  );
  assert.deepEqual(names(sortClusters(views, firstOrder('name'))), ['tenant-1', 'tenant-9', 'tenant-10']);
});

function names(views: readonly ClusterView[]): string[] {
  return views.map(({ cluster }) => cluster.name);
}
