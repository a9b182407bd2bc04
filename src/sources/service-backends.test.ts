import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
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
