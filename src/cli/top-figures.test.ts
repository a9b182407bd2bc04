import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sample, sampleCluster, sampleRoute } from './top.samples.ts';
import { sortClusters, topFigures } from './top-figures.ts';

const recent = { opened: 600, bytesIn: 300, bytesOut: 3000, reasons: { done: 500, 'not-allowed': 3 } };

test('topFigures() divides what has happened between two answers by the time between them', () => {
  const before = sample(1000, [sampleCluster('a', [sampleRoute({ connections: 5, reasons: { done: 10 } })])]);
  const now = sample(3000, [
    sampleCluster('a', [
      sampleRoute({
        connections: 7,
        reasons: { done: 14, 'not-allowed': 2 },
        bytesIn: 2000,
        bytesOut: 400,
        recent,
      }),
    ]),
  ]);
  const { seconds, total, clusters } = topFigures(now, before);
  assert.equal(seconds, 2);
  const rates = { open: 7, newPerSecond: 4, bytesInPerSecond: 1000, bytesOutPerSecond: 200 };
  assert.deepEqual({ ...total, refused: [] }, { ...rates, refused: [] });
  const [{ routes, down }] = clusters;
  assert.deepEqual(routes, [
    { kind: 'api', redirect: false, backends: 1, up: 1, ...rates, refused: [['not-allowed', 3]] },
  ]);
  assert.equal(down, 0);
});

test('topFigures() takes the averages of five minutes where there is nothing to compare with', () => {
  const clusters = [sampleCluster('a', [sampleRoute({ recent })])];
  const first = topFigures(sample(0, clusters));
  assert.deepEqual(
    [first.seconds, first.clusters[0].newPerSecond, first.total.bytesOutPerSecond],
    [300, 2, 10],
  );
  const young = topFigures(sample(0, clusters, { uptimeSeconds: 60 }));
  assert.equal(young.clusters[0].newPerSecond, 10);
  // It was restarted in between.
  const before = sample(0, [sampleCluster('a', [sampleRoute({ reasons: { done: 9 } })])]);
  assert.equal(topFigures(sample(1000, clusters), before).clusters[0].newPerSecond, 2);
});

test('topFigures() never has a negative rate, and starts a new route from nothing', () => {
  const before = sample(0, [sampleCluster('a', [sampleRoute({ bytesIn: 500 })])]);
  const now = sample(1000, [
    sampleCluster('a', [sampleRoute({ bytesIn: 100 })]),
    sampleCluster('b', [sampleRoute({ connections: 3 })]),
  ]);
  const { clusters } = topFigures(now, before);
  assert.deepEqual(
    clusters.map(({ bytesInPerSecond, newPerSecond }) => [bytesInPerSecond, newPerSecond]),
    [
      [0, 0],
      [0, 3],
    ],
  );
});

test('sortClusters() sorts figures descending and names ascending, numbers as numbers', () => {
  const cluster = (name: string, connections: number, bytesOut: number, up: boolean) =>
    sampleCluster(name, [
      sampleRoute({
        connections,
        backends: [{ address: 'x', up, health: 'tls', connections: 0 }],
        recent: { ...recent, bytesOut, reasons: { 'not-allowed': connections * 2 } },
      }),
    ]);
  const { clusters } = topFigures(
    sample(0, [cluster('t-10', 1, 5, true), cluster('t-9', 1, 9, false), cluster('t-1', 3, 0, true)]),
  );
  const sorted = (sort: Parameters<typeof sortClusters>[1]) =>
    sortClusters(clusters, sort).map(({ name }) => name);
  assert.deepEqual(sorted('open'), ['t-1', 't-9', 't-10']);
  assert.deepEqual(sorted('refused'), ['t-1', 't-9', 't-10']);
  assert.deepEqual(sorted('traffic'), ['t-9', 't-10', 't-1']);
  assert.deepEqual(sorted('down'), ['t-9', 't-1', 't-10']);
  assert.deepEqual(sorted('name'), ['t-1', 't-9', 't-10']);
});
