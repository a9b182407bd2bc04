import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { endpointSlices, services } from '../kube/resources.ts';
import { openServiceBackends, type ServiceBackendsOptions } from './service-backends.ts';
import { sampleService, sampleSlice } from './services.samples.ts';

const OPTIONS: ServiceBackendsOptions = { source: 'test', via: 'endpoints' };

test('openServiceBackends() never says that it has listed what find() does not show yet', async () => {
  const store = memoryStore(sampleService('x'), sampleSlice('x'));
  await using backends = openServiceBackends(store.client(), OPTIONS, () => {});
  let turns = 0;
  for (let turn = 0; turn < 20; turn++) {
    for (let i = 0; i < 200; i++) {
      await undefined;
      const { synced, complete } = backends.state;
      const found = backends.find('team-a', 'x', undefined, 'endpoints');
      const isThere = found.kind === 'found' && found.backends.length === 1 && backends.services.size === 1;
      assert.equal(synced, complete);
      if (synced) assert.ok(isThere, 'it is synced and shows nothing');
      else turns++;
    }
    await setImmediate();
  }
  assert.equal(backends.state.synced, true);
  assert.ok(turns > 0, 'it was looked at before it was synced');
});

test('openServiceBackends() follows Services and slices, and calls changed()', async () => {
  const store = memoryStore();
  const clock = testClock();
  let changes = 0;
  await using backends = openServiceBackends(store.client(), { ...OPTIONS, clock }, () => changes++);
  const find = () => backends.find('team-a', 'x', undefined, 'endpoints');
  const api = store.client('test');
  await clock.advance(0);
  assert.deepEqual([find(), backends.state.complete], [{ kind: 'no-service' }, true]);

  let before = changes;
  await api.create(services, sampleService('x'));
  await clock.advance(0);
  const empty = find();
  assert.ok(empty.kind === 'found' && empty.backends.length === 0 && changes > before);

  before = changes;
  await api.create(endpointSlices, sampleSlice('x'));
  await clock.advance(0);
  const found = find();
  assert.ok(found.kind === 'found' && found.backends.length === 1 && changes > before);
  assert.equal(find(), found);

  before = changes;
  await api.remove(services, { ...sampleService('x'), metadata: { name: 'x', namespace: 'team-a' } });
  await clock.advance(0);
  assert.deepEqual([find(), changes > before], [{ kind: 'no-service' }, true]);
});

test('openServiceBackends() says of both resources together whether they are up to date', async () => {
  for (const broken of ['services', 'endpointslices']) {
    const store = memoryStore(sampleService('x'), sampleSlice('x'));
    const clock = testClock();
    await using backends = openServiceBackends(store.client(), { ...OPTIONS, clock }, () => {});
    await clock.advance(0);
    assert.deepEqual(backends.state, { synced: true, complete: true, findings: [] });
    const found = backends.find('team-a', 'x', undefined, 'endpoints');
    const fault = { status: 403, reason: 'Forbidden', message: `${broken} is forbidden` };
    store.fault = (_, plural) => (plural === broken ? fault : undefined);
    store.cutWatches();
    await clock.advance(60_000);
    const error = `403 Forbidden: ${broken} is forbidden`;
    assert.deepEqual(backends.state, { synced: true, complete: false, findings: [], error });
    assert.equal(backends.find('team-a', 'x', undefined, 'endpoints'), found);
  }
});

test('openServiceBackends() lists Services once for all sources that want the same', async () => {
  const store = memoryStore(sampleService('x'), sampleSlice('x'));
  const clock = testClock();
  const api = store.client();
  const lists: string[] = [];
  const counting = {
    ...api,
    list: ((...args) => (lists.push(args[0].plural), api.list(...args))) as KubeApi['list'],
  };
  const changes = { one: 0, two: 0 };
  const open = (name: keyof typeof changes, more: Partial<ServiceBackendsOptions> = {}) =>
    openServiceBackends(counting, { ...OPTIONS, source: name, clock, ...more }, () => changes[name]++);
  const one = open('one');
  await clock.advance(0);
  // One that comes later is told that there is something, but not from within the call.
  const two = open('two');
  assert.equal(changes.two, 0);
  await clock.advance(0);
  assert.ok(changes.two > 0);
  assert.deepEqual(lists, ['services', 'endpointslices']);
  for (const each of [one, two]) {
    assert.deepEqual(each.state, { synced: true, complete: true, findings: [] });
    assert.equal(each.find('team-a', 'x', undefined, 'endpoints').kind, 'found');
  }
  await using other = open('two', { via: 'clusterIP' });
  await clock.advance(0);
  assert.equal(other.state.synced, true);
  assert.deepEqual(lists, ['services', 'endpointslices', 'services']);

  // Each ends for itself.
  await one[Symbol.asyncDispose]();
  await one[Symbol.asyncDispose]();
  const before = { ...changes };
  await store.client('test').create(services, sampleService('y'));
  await clock.advance(0);
  assert.equal(changes.one, before.one);
  assert.ok(changes.two > before.two);
  assert.equal(two.find('team-a', 'y', undefined, 'endpoints').kind, 'found');
  await two[Symbol.asyncDispose]();
  await using again = open('one');
  await clock.advance(0);
  assert.equal(again.find('team-a', 'y', undefined, 'endpoints').kind, 'found');
  assert.deepEqual(lists.slice(3), ['services', 'endpointslices']);
});
