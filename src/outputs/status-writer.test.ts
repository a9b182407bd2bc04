import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { SourceObject } from '../cluster/cluster.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { openStatusWriter, STATUS_ANNOTATION } from './status-writer.ts';

function configMap(name: string, annotations?: Record<string, string>): KubeObject {
  const metadata = { name, namespace: 'tenants', ...(annotations && { annotations }) };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata };
}

function given(...objects: readonly KubeObject[]) {
  const store = memoryStore(...objects);
  const clock = testClock();
  const lead = { is: true };
  const open = (enabled = true) =>
    openStatusWriter(store.client(), { isLeader: () => lead.is, enabled, clock, random: () => 1 });
  const objectOf = (name: string): SourceObject => {
    const { metadata } = store.peek(`ConfigMap/tenants/${name}`) as KubeObject;
    const { uid = '', creationTimestamp = '' } = metadata;
    return {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      namespace: 'tenants',
      name,
      uid,
      createdAt: creationTimestamp,
    };
  };
  const state = (name: string, status?: string) => ({
    object: objectOf(name),
    findings: [],
    ...(status !== undefined && { status }),
  });
  const annotation = (name: string) =>
    store.peek(`ConfigMap/tenants/${name}`)?.metadata.annotations?.[STATUS_ANNOTATION];
  return { store, clock, lead, open, objectOf, state, annotation };
}

test('openStatusWriter() writes once, and again only when the status changes', async () => {
  const { store, clock, open, state, annotation } = given(configMap('a', { own: 'x' }));
  await using writer = open();
  writer.update([state('a', '1')]);
  await clock.advance(0);
  assert.equal(annotation('a'), '1');
  assert.equal(store.peek('ConfigMap/tenants/a')?.metadata.annotations?.own, 'x');
  writer.update([state('a', '1')]);
  await clock.advance(60_000);
  assert.deepEqual(store.writes, ['merge ConfigMap/tenants/a']);
  writer.update([state('a', '2')]);
  await clock.advance(0);
  assert.equal(annotation('a'), '2');
});

test('openStatusWriter() writes an object at most once in 10 s, with the last status', async () => {
  const { store, clock, open, state, annotation } = given(configMap('a'));
  await using writer = open();
  for (let i = 0; i < 100; i++) {
    writer.update([state('a', `${i}`)]);
    await clock.advance(100);
  }
  assert.equal(store.writes.length, 1);
  await clock.advance(1000);
  assert.equal(annotation('a'), '99');
  assert.equal(store.writes.length, 2);
});

test('openStatusWriter() writes nothing where a new leader finds what it wants', async () => {
  const { store, clock, open, state } = given(configMap('a', { [STATUS_ANNOTATION]: '1' }));
  await using writer = open();
  writer.update([state('a', '1')]);
  await clock.advance(10_000);
  assert.deepEqual(store.writes, []);
});

test('openStatusWriter() writes only as the leader, and reads again when it leads again', async () => {
  const { store, clock, lead, open, state, annotation } = given(configMap('a'));
  lead.is = false;
  await using writer = open();
  writer.update([state('a', '1')]);
  await clock.advance(60_000);
  assert.deepEqual(store.writes, []);
  lead.is = true;
  await clock.advance(1000);
  assert.equal(annotation('a'), '1');
  lead.is = false;
  await clock.advance(1000);
  const annotations = { [STATUS_ANNOTATION]: 'of another replica' };
  await store
    .client('other')
    .merge({ group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' }, 'tenants', 'a', {
      metadata: { annotations },
    });
  lead.is = true;
  await clock.advance(20_000);
  assert.equal(annotation('a'), '1');
});

test('openStatusWriter() does not write after leadership was lost during the read', async () => {
  const { store, clock, lead, open, state } = given(configMap('a'));
  store.gate = async label => {
    if (label === 'get configmaps answered') lead.is = false;
  };
  await using writer = open();
  writer.update([state('a', '1')]);
  await clock.advance(5000);
  assert.deepEqual(store.writes, []);
});

test('openStatusWriter() keeps what is there while readiness is unknown', async () => {
  const { store, clock, open, state } = given(configMap('a', { [STATUS_ANNOTATION]: 'old' }));
  await using writer = open();
  writer.update([state('a')]);
  await clock.advance(60_000);
  assert.deepEqual(store.writes, []);
});

test('openStatusWriter() removes the annotation of an object that is no cluster any more', async () => {
  const { clock, open, state, annotation } = given(configMap('a'), configMap('b'));
  await using writer = open();
  writer.update([state('a', '1'), state('b', '1')]);
  await clock.advance(1000);
  writer.update([state('b', '1')]);
  await clock.advance(11_000);
  assert.deepEqual([annotation('a'), annotation('b')], [undefined, '1']);
});

test('openStatusWriter() removes what an earlier run wrote when it is switched off', async () => {
  const { store, clock, open, state, annotation } = given(
    configMap('a', { [STATUS_ANNOTATION]: '1', own: 'x' }),
    configMap('b'),
  );
  await using writer = open(false);
  writer.update([state('a', '2'), state('b', '2')]);
  await clock.advance(30_000);
  assert.deepEqual([annotation('a'), annotation('b')], [undefined, undefined]);
  assert.deepEqual(store.writes, ['merge ConfigMap/tenants/a']);
  assert.equal(store.peek('ConfigMap/tenants/a')?.metadata.annotations?.own, 'x');
});

test('openStatusWriter() leaves a new object of the same name alone, and forgets one that is gone', async () => {
  const { store, clock, open, objectOf } = given(configMap('a'));
  await using writer = open();
  const gone = { ...objectOf('a'), name: 'gone', uid: 'x' };
  writer.update([
    { object: { ...objectOf('a'), uid: 'an earlier one' }, status: '1', findings: [] },
    { object: gone, status: '1', findings: [] },
  ]);
  await clock.advance(60_000);
  assert.deepEqual(store.writes, []);
  assert.equal(writer.error, undefined);
});

test('openStatusWriter() retries one object with back-off while others go on', async () => {
  const { store, clock, open, state, annotation } = given(configMap('a'), configMap('b'));
  await using writer = open();
  let calls = 0;
  store.fault = method => {
    if (method !== 'merge' || ++calls > 3) return undefined;
    return { status: 500, reason: 'InternalError', message: 'webhook' };
  };
  writer.update([state('a', '1'), state('b', '1')]);
  await clock.advance(0);
  assert.equal(
    writer.error,
    `Cannot write ${STATUS_ANNOTATION} on ConfigMap tenants/a; retrying: 500 InternalError: webhook`,
  );
  await clock.advance(10_000);
  assert.deepEqual([annotation('a'), annotation('b')], ['1', '1']);
  assert.equal(writer.error, undefined);
});

test('openStatusWriter() reports a conflict only if it lasts', async () => {
  const { store, clock, open, state } = given(configMap('a'));
  await using writer = open();
  store.fault = method =>
    method === 'merge' ? { status: 409, reason: 'Conflict', message: 'uid mismatch' } : undefined;
  writer.update([state('a', '1')]);
  await clock.advance(0);
  assert.equal(writer.error, undefined);
  await clock.advance(10_000);
  assert.match(writer.error ?? '', /409 Conflict: uid mismatch/);
});

test('openStatusWriter() paces ten thousand objects, and ends at once', async () => {
  const names = Array.from({ length: 1000 }, (_, i) => `s${i}`);
  const { store, clock, open, state } = given(...names.map(name => configMap(name)));
  const writer = open();
  writer.update(names.map(name => state(name, '1')));
  await clock.advance(1000);
  assert.ok(store.writes.length <= 88, `${store.writes.length}`);
  await writer[Symbol.asyncDispose]();
  const before = store.writes.length;
  await clock.advance(60_000);
  assert.equal(store.writes.length, before);
});

test('openStatusWriter() does not keep an object waiting for others that change all the time', async () => {
  // More than can be written in the 10 s after which each may be written again.
  const names = Array.from({ length: 1200 }, (_, i) => `s${i}`);
  const { clock, open, state, objectOf, annotation } = given(
    ...[...names, 'late'].map(name => configMap(name)),
  );
  await using writer = open();
  const objects = names.map(objectOf);
  const late = state('late', '1');
  for (let i = 0; i < 50; i++) {
    const states = objects.map(object => ({ object, findings: [], status: `${i}` }));
    writer.update(i < 25 ? states : [...states, late]);
    await clock.advance(500);
  }
  assert.equal(annotation('late'), '1');
});

test('openStatusWriter() keeps the condition of a Service beside the annotation', async () => {
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a', namespace: 'tenants' } };
  const theirs = { type: 'theirs', status: 'True' };
  const store = memoryStore({ ...service, status: { conditions: [theirs] } } as KubeObject);
  const clock = testClock();
  await using writer = openStatusWriter(store.client(), { isLeader: () => true, enabled: true, clock });
  const { uid = '' } = store.peek('Service/tenants/a')?.metadata ?? {};
  const object = { ...service, ...service.metadata, uid, createdAt: '' };
  const condition = () => {
    const { status } = store.peek('Service/tenants/a') as { status?: { conditions?: object[] } };
    return status?.conditions?.find(each => 'type' in each && each.type === 'causeway.dev/Ready');
  };
  writer.update([{ object, status: '1', ready: false, findings: [] }]);
  await clock.advance(0);
  const message = 'A route has no backend that is up';
  const first = clock
    .date()
    .toISOString()
    .replace(/\.\d+Z$/, 'Z');
  const type = 'causeway.dev/Ready';
  assert.deepEqual(condition(), {
    type,
    status: 'False',
    reason: 'BackendsDown',
    message,
    lastTransitionTime: first,
  });
  const finding = { severity: 'warning', code: 'HostInvalid', text: 'bad', fix: '' } as const;
  await clock.advance(20_000);
  writer.update([{ object, status: '2', ready: false, findings: [finding] }]);
  await clock.advance(0);
  assert.deepEqual(condition(), {
    type,
    status: 'False',
    reason: 'HostInvalid',
    message: 'bad',
    lastTransitionTime: first,
  });
  // Only the annotation has changed.
  const before = store.writes.length;
  writer.update([{ object, status: '3', ready: false, findings: [finding] }]);
  await clock.advance(20_000);
  assert.deepEqual(store.writes.slice(before), ['merge Service/tenants/a']);
  writer.update([]);
  await clock.advance(20_000);
  assert.equal(condition(), undefined);
});
