import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { clusterLabel, ownLabels } from './cluster-label.ts';

test('ownLabels() has the name as it is where a label may', () => {
  assert.deepEqual(ownLabels('tenants.a'), {
    labels: { 'app.kubernetes.io/managed-by': 'causeway', 'causeway.dev/cluster': 'tenants.a' },
    annotations: {},
  });
});

test('ownLabels() has the beginning and a hash of a longer one, and the whole in an annotation', () => {
  const name = 'a'.repeat(64);
  const { labels, annotations } = ownLabels(name);
  assert.equal(labels['causeway.dev/cluster'], `${'a'.repeat(52)}-ffe054fe7a`);
  assert.deepEqual(annotations, { 'causeway.dev/cluster': name });
});

test('clusterLabel() gives a legal label of every id', () => {
  const id = fc.stringMatching(/^[A-Za-z0-9._-]{1,128}$/);
  fc.assert(
    fc.property(id, id, (a, b) => {
      assert.match(clusterLabel(a), /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/);
      assert.ok(a === b || clusterLabel(a) !== clusterLabel(b));
    }),
  );
});
