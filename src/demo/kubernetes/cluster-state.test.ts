import assert from 'node:assert/strict';
import { test } from 'node:test';
import { demoClusters } from '../demo-clusters.ts';
import { ClusterState, type WatchEvent } from './cluster-state.ts';
import { type KubeObject, valueAt } from './kube-object.ts';
import { smallCluster } from './small-cluster.ts';

function pod(name: string): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', uid: name, creationTimestamp: '' },
  };
}

test('ClusterState tells watchers what happens, with versions that only grow', () => {
  const state = new ClusterState();
  const reported: WatchEvent[] = [];
  const stop = state.watch(event => reported.push(event));
  state.put('pods', pod('a'));
  state.put('pods', pod('a'));
  state.remove('pods', pod('a'));
  state.remove('pods', pod('a'));
  stop();
  state.put('pods', pod('b'));
  assert.deepEqual(
    reported.map(({ type, object }) => [type, object.metadata.name]),
    [
      ['ADDED', 'a'],
      ['MODIFIED', 'a'],
      ['DELETED', 'a'],
    ],
  );
  const versions = reported.map(({ version }) => version);
  assert.deepEqual(
    versions,
    versions.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(versions).size, versions.length);
  for (const { object, version } of reported) assert.equal(object.metadata.resourceVersion, String(version));
});

test('ClusterState.since() misses nothing, and says when it can no longer know', () => {
  const state = new ClusterState();
  const start = state.version;
  state.put('pods', pod('a'));
  const middle = state.version;
  state.put('pods', pod('b'));
  assert.deepEqual(
    state.since(start)?.map(({ object }) => object.metadata.name),
    ['a', 'b'],
  );
  assert.deepEqual(
    state.since(middle)?.map(({ object }) => object.metadata.name),
    ['b'],
  );
  assert.deepEqual(state.since(state.version), []);
  for (let i = 0; i < 1000; i++) state.put('pods', pod('a'));
  assert.equal(state.since(middle), undefined);
  assert.deepEqual(state.since(state.version), []);
});

test('smallCluster() takes a pod through its life, one step at a time, and then the next', () => {
  const now = Date.parse('2026-01-02T03:04:05Z');
  const { state, step } = smallCluster(demoClusters[0], now);
  const reported: string[] = [];
  state.watch(({ type, object }) =>
    reported.push(`${type} ${object.metadata.name} ${valueAt(object, 'status.phase')}`),
  );
  for (let i = 0; i < 5; i++) step(now + i * 1000);
  assert.deepEqual(reported, [
    'ADDED tick-1 Pending',
    'MODIFIED tick-1 Pending',
    'MODIFIED tick-1 Running',
    'MODIFIED tick-1 Succeeded',
    'DELETED tick-1 Succeeded',
    'ADDED tick-2 Pending',
  ]);
  const [tick] = state.list('pods').filter(({ metadata }) => metadata.name === 'tick-2');
  assert.equal(tick.metadata.creationTimestamp, '2026-01-02T03:04:09Z');
});
