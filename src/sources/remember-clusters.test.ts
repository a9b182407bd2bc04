import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { rememberClusters } from './remember-clusters.ts';
import type { FoundService, ServiceLookup } from './service-lookup.ts';

interface Given {
  readonly name: string;
  readonly host: string;
}

function start() {
  const made: string[] = [];
  let found: FoundService = { kind: 'no-service' };
  const lookup: ServiceLookup = { find: () => found };
  const remember = rememberClusters<Given>(({ name, host }, services) => {
    made.push(name);
    const service = services.find('ns', name, 'https', 'endpoints');
    const backends = service.kind === 'found' ? service.backends.map(({ text }) => text) : [];
    return {
      cluster: sampleCluster(name, { routes: [sampleRoute({ hosts: [host], backends })] }),
      findings: [],
    };
  });
  return {
    made,
    set: (next: FoundService) => {
      found = next;
    },
    all: (...objects: readonly Given[]) =>
      remember(new Map(objects.map(object => [object.name, object])), lookup).map(({ cluster }) => cluster),
  };
}

const a = { name: 'a', host: 'a.test' };
const b = { name: 'b', host: 'b.test' };

test('rememberClusters() makes a cluster again only when its object has changed', () => {
  const { made, all } = start();
  const before = all(a, b);
  assert.deepEqual(made, ['a', 'b']);
  const after = all({ ...a, host: 'other.test' }, b);
  assert.deepEqual(made, ['a', 'b', 'a']);
  assert.notEqual(after[0], before[0]);
  assert.equal(after[1], before[1]);
});

test('rememberClusters() gives the same cluster for a change that it does not show', () => {
  const { made, all } = start();
  const before = all(a);
  assert.equal(all({ ...a })[0], before[0]);
  assert.deepEqual(made, ['a', 'a']);
});

test('rememberClusters() makes a cluster again when its Service has changed', () => {
  const { made, set, all } = start();
  const [before] = all(a);
  const backends = [{ text: '192.0.2.1:1', host: '192.0.2.1', port: 1 }];
  set({ kind: 'found', service: { namespace: 'ns', name: 'a', port: 1 }, backends });
  const [after] = all(a);
  assert.notEqual(after, before);
  assert.equal(after?.routes[0].pool.backends.length, 1);
  assert.equal(all(a)[0], after);
  assert.deepEqual(made, ['a', 'a']);
});

test('rememberClusters() forgets what is gone', () => {
  const { made, all } = start();
  const [before] = all(a);
  assert.deepEqual(all(), []);
  assert.notEqual(all(a)[0], before);
  assert.deepEqual(made, ['a', 'a']);
});
