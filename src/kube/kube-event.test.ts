import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { kubeEvent } from './kube-event.ts';

const given = {
  regarding: {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'api', namespace: 'tenants', uid: 'u', resourceVersion: '7', labels: { a: 'b' } },
  },
  type: 'Warning',
  reason: 'HostClaimed',
  note: 'api.a.test belongs to b',
  action: 'Plan',
  instance: 'causeway-0',
  now: new Date('2026-01-02T03:04:05.678Z'),
} as const;

test('kubeEvent() is about an object, in its namespace', () => {
  const { metadata, ...event } = kubeEvent(given);
  assert.match(metadata.name, /^api\.[0-9a-f]{16}$/);
  assert.equal(metadata.namespace, 'tenants');
  assert.deepEqual(event, {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    eventTime: '2026-01-02T03:04:05.678000Z',
    reportingController: 'causeway',
    reportingInstance: 'causeway-0',
    action: 'Plan',
    reason: 'HostClaimed',
    regarding: {
      apiVersion: 'v1',
      kind: 'Service',
      name: 'api',
      namespace: 'tenants',
      uid: 'u',
      resourceVersion: '7',
    },
    note: 'api.a.test belongs to b',
    type: 'Warning',
  });
  const regarding = { apiVersion: 'v1', kind: 'Node', name: 'node-1' };
  for (const about of [regarding, { ...regarding, namespace: '' }]) {
    const event = kubeEvent({ ...given, regarding: about });
    assert.deepEqual([event.metadata.namespace, event.regarding], ['default', regarding]);
  }
});

test('kubeEvent() keeps within what API servers take, whatever it is given', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 2000 });
  fc.assert(
    fc.property(text, text, (note, name) => {
      const regarding = { apiVersion: 'v1', kind: 'Thing', namespace: 'a', name };
      const event = kubeEvent({ ...given, regarding, note, instance: note, reason: note, action: note });
      assert.ok(Buffer.byteLength(event.note) <= 1024);
      for (const word of [event.reportingInstance, event.reason, event.action]) {
        assert.ok(Buffer.byteLength(word) <= 128);
      }
      assert.ok(event.note === note || note.startsWith(event.note.slice(0, -1)));
      assert.ok(!event.note.includes('\uFFFD') || note.includes('\uFFFD'));
      assert.match(event.metadata.name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
      assert.ok(event.metadata.name.length <= 253);
    }),
  );
});
