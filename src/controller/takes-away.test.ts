import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { takesAway } from './takes-away.ts';

const served = sampleRoute({ hosts: ['a.lab'] });
const a = sampleCluster('a', { routes: [served] });
const b = sampleCluster('b', { routes: [sampleRoute({ hosts: ['b.lab'] })] });
const drained = { ...served, pool: { ...served.pool, backends: [] } };

for (const [what, before, after, expected] of [
  ['a cluster is added', [a], [a, b], false],
  [
    'a host is added',
    [a],
    [sampleCluster('a', { routes: [{ ...served, hosts: ['a.lab', 'c.lab'] }] })],
    false,
  ],
  ['nothing changes, in another order', [a, b], [b, a], false],
  ['a cluster is removed', [a, b], [a], true],
  ['a route loses its last backend', [a], [sampleCluster('a', { routes: [drained] })], true],
  ['a route without backends is added', [], [sampleCluster('a', { routes: [drained] })], false],
] as const) {
  test(`takesAway() is ${expected} when ${what}`, () => assert.equal(takesAway(before, after), expected));
}
