import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import { sampleCluster } from '../cluster/clusters.samples.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { resource } from '../kube/resources.ts';
import { FixWriter, type ObjectFix } from './fix-writer.ts';

const configMaps = resource<ConfigMap>('v1', 'configmaps', 'ConfigMap');

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

async function given({ isLeader = true, break: broken = false } = {}) {
  const clock = testClock();
  const store = memoryStore();
  const api = store.client();
  const created = await api.create(configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'a', namespace: 'tenants' },
    data: { theirs: 'kept' },
  });
  assert.ok(created.ok);
  const state = { isLeader, broken };
  const patched: ObjectFix[] = [];
  store.fault = method =>
    state.broken && method === 'patch' ? { status: 403, reason: 'Forbidden', message: 'no' } : undefined;
  const patches = () => store.writes.filter(write => write.startsWith('patch')).length;
  const writer = new FixWriter(api, {
    isLeader: () => state.isLeader,
    clock,
    random: () => 0.5,
    onPatched: fix => patched.push(fix),
  });
  const current = async () => {
    const found = await api.get(configMaps, 'tenants', 'a');
    assert.ok(found.ok);
    return found.value;
  };
  const fix = async (): Promise<ObjectFix> => {
    const { metadata, data } = await current();
    const { uid = '', resourceVersion, creationTimestamp = '' } = metadata;
    const object = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      namespace: 'tenants',
      name: 'a',
      uid,
      createdAt: creationTimestamp,
    };
    return {
      cluster: sampleCluster('a', { origin: { source: 'kamaji', object } }),
      resource: configMaps,
      operations:
        data?.ours === 'added'
          ? []
          : [
              { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
              { op: 'add', path: '/data/ours', value: 'added' },
            ],
    };
  };
  return { writer, clock, state, current, fix, patches, patched, other: store.client('other') };
}

test('it adds what is missing, once, and keeps what is there', async () => {
  const { writer, clock, patches, current, fix, patched } = await given();
  await using _ = writer;
  const wanted = await fix();
  writer.update([wanted]);
  await clock.advance(5000);
  assert.deepEqual((await current()).data, { theirs: 'kept', ours: 'added' });
  // The watch may be late.
  writer.update([wanted]);
  await clock.advance(5000);
  writer.update([await fix()]);
  await clock.advance(5000);
  assert.equal(patches(), 1);
  assert.equal(patched.length, 1);
  assert.deepEqual(writer.findings, []);
});

test('only the leader writes', async () => {
  const { writer, clock, state, patches, current, fix } = await given({ isLeader: false });
  await using _ = writer;
  writer.update([await fix()]);
  await clock.advance(60_000);
  assert.equal(patches(), 0);
  state.isLeader = true;
  await clock.advance(5000);
  assert.equal((await current()).data?.ours, 'added');
});

test('a refusal is a finding, and is tried again', async () => {
  const { writer, clock, state, current, fix } = await given({ break: true });
  await using _ = writer;
  writer.update([await fix()]);
  await clock.advance(10_000);
  assert.deepEqual(
    writer.findings.map(({ code }) => code),
    ['OutputRejected'],
  );
  state.broken = false;
  await clock.advance(60_000);
  assert.equal((await current()).data?.ours, 'added');
  writer.update([await fix()]);
  assert.deepEqual(writer.findings, []);
});

test('somebody who reverts the change wins, with a finding', async () => {
  const { writer, clock, other, current, fix, patched } = await given();
  await using _ = writer;
  for (let round = 0; round < 6; round++) {
    writer.update([await fix()]);
    await clock.advance(5000);
    const { data } = await current();
    if (data?.ours !== undefined)
      await other.patch(configMaps, 'tenants', 'a', [{ op: 'remove', path: '/data/ours' }]);
  }
  assert.equal(patched.length, 3);
  assert.deepEqual(
    writer.findings.map(({ code }) => code),
    ['ForeignWriter'],
  );
});
