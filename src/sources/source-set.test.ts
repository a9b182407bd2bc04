import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster } from '../cluster/cluster.ts';
import { sampleCluster } from '../cluster/clusters.samples.ts';
import type { SourceSettings } from '../config/config.ts';
import type { Observation, Source } from './source.ts';
import { SourceSet, sourceKey } from './source-set.ts';

const directory = (path: string, name = 'directory'): SourceSettings => ({
  kind: 'directory',
  name,
  options: { path },
});

function given(saved?: ReadonlyMap<string, readonly Cluster[]>) {
  const opened: { settings: SourceSettings; observation: Observation; isOpen: boolean }[] = [];
  const set = new SourceSet({
    open: (settings): Source => {
      const observation = { clusters: [], findings: [], synced: false, complete: false };
      const one = { settings, observation, isOpen: true };
      opened.push(one);
      return {
        name: settings.name,
        observe: () => one.observation,
        async [Symbol.asyncDispose]() {
          one.isOpen = false;
        },
      };
    },
    changed: () => {},
    ...(saved && { saved }),
  });
  const list = (index: number, ...names: readonly string[]) => {
    const clusters = names.map(name => sampleCluster(name));
    opened[index].observation = { clusters, findings: [], synced: true, complete: true };
  };
  const names = () => set.observe().claims.map(({ name }) => name);
  return { set, opened, list, names };
}

test('a source stays open while its settings do not change, and closes when it is gone', () => {
  const { set, opened } = given();
  set.use([directory('a'), directory('b', 'directory-2')]);
  set.use([directory('a')]);
  set.use([directory('a')]);
  assert.deepEqual(
    opened.map(({ isOpen }) => isOpen),
    [true, false],
  );
});

test('clusters of the last run are served until the source has listed', () => {
  const { set, list, names } = given(new Map([[sourceKey(directory('a')), [sampleCluster('saved')]]]));
  set.use([directory('a')]);
  assert.deepEqual(names(), ['saved']);
  assert.deepEqual(
    set.observe().sources.map(({ synced, complete }) => [synced, complete]),
    [[false, false]],
  );
  assert.deepEqual(
    [...set.toSave().values()].map(clusters => clusters.map(({ name }) => name)),
    [['saved']],
  );
  list(0, 'listed');
  assert.deepEqual(names(), ['listed']);
});

test('a source with other settings is opened anew, and its clusters are served until it has listed', () => {
  const { set, opened, list, names } = given();
  set.use([directory('a')]);
  list(0, 'x', 'y');
  set.use([directory('b')]);
  assert.deepEqual(
    opened.map(({ isOpen }) => isOpen),
    [false, true],
  );
  assert.deepEqual(names(), ['x', 'y']);
  list(1, 'y');
  assert.deepEqual(names(), ['y']);
  // Back again: nothing is left of the first time.
  set.use([]);
  set.use([directory('a')]);
  assert.deepEqual(names(), []);
});

test('all sources are opened anew for another variant, without a gap', () => {
  const { set, opened, list, names } = given();
  set.use([directory('a')], 'one');
  list(0, 'x');
  set.use([directory('a')], 'two');
  assert.equal(opened.length, 2);
  assert.deepEqual(names(), ['x']);
  list(1, 'z');
  assert.deepEqual(names(), ['z']);
});

test('observe() of settings that are not used yet shows what would be served', () => {
  const { set, list } = given();
  set.use([directory('a')]);
  list(0, 'x');
  // Other settings of the same source: its clusters, until it has listed.
  assert.deepEqual(
    set.observe([directory('new'), directory('b', 'directory-2')]).claims.map(({ name }) => name),
    ['x'],
  );
  assert.deepEqual(
    set.observe([directory('a')]).claims.map(({ name }) => name),
    ['x'],
  );
});
