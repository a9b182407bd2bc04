import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { clusterLabel, isOwn, ownLabels, ownSelector } from './cluster-label.ts';

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
  assert.deepEqual(annotations, { 'causeway.dev/cluster-name': name });
});

test('ownLabels() names the instance, shortened likewise', () => {
  assert.equal(
    ownLabels('a', 'causeway-system.causeway').labels['causeway.dev/instance'],
    'causeway-system.causeway',
  );
  const long = `${'n'.repeat(63)}.causeway`;
  const value = ownLabels('a', long).labels['causeway.dev/instance'];
  assert.match(value, /^n{52}-[0-9a-f]{10}$/);
  assert.equal(ownSelector(long), `app.kubernetes.io/managed-by=causeway,causeway.dev/instance=${value}`);
});

test('isOwn() wants both labels, and our own instance', () => {
  const { labels } = ownLabels('a', 'n.causeway');
  assert.ok(isOwn({ labels }, 'n.causeway'));
  assert.ok(!isOwn({ labels }, 'n.other'));
  assert.ok(!isOwn({ labels: ownLabels('a').labels }, 'n.causeway'));
  assert.ok(!isOwn({ labels: { ...labels, 'app.kubernetes.io/managed-by': 'helm' } }, 'n.causeway'));
  assert.ok(!isOwn({}, 'n.causeway'));
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
