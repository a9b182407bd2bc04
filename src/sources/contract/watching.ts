// Contract of sources: following what is created, changed and deleted.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertSameClusters, SourceUnderTest, type StartWorld } from './source-world.ts';

const MINUTE = 60_000;

export function watchingContract(name: string, start: StartWorld): void {
  test(`${name} knows nothing when it is opened, then all that is there`, async t => {
    const world = await start(t);
    const names = [await world.create('a'), await world.create('b')];
    await using source = new SourceUnderTest(world);
    const { clusters, synced, complete } = source.observe();
    assert.deepEqual([clusters, synced, complete, source.changes], [[], false, false, 0]);
    const listed = await source.until('is synced', observation => observation.synced);
    assert.deepEqual(source.clusterNames(), names.toSorted());
    assert.deepEqual([listed.complete, listed.error, listed.findings], [true, undefined, []]);
    assert.ok(source.changes > 0);
  });

  test(`${name} is synced and complete where there is nothing`, async t => {
    await using source = new SourceUnderTest(await start(t));
    const { clusters } = await source.until('is complete', ({ complete }) => complete);
    assert.deepEqual(clusters, []);
  });

  test(`${name} calls changed() after each change, and shows it`, async t => {
    const world = await start(t);
    const a = await world.create('a');
    await using source = new SourceUnderTest(world);
    await source.untilNames(a);

    let before = source.changes;
    const b = await world.create('b');
    const both = await source.untilNames(a, b);
    assert.ok(source.changes > before, 'created');

    before = source.changes;
    await world.change('b');
    const changed = await source.until('shows the change', ({ clusters }) =>
      clusters.some(cluster => !both.clusters.includes(cluster)),
    );
    assert.ok(source.changes > before, 'changed');
    const others = (clusters: typeof both.clusters) => clusters.filter(cluster => cluster.name !== b);
    assertSameClusters(others(changed.clusters), others(both.clusters));

    before = source.changes;
    await world.remove('a');
    const { complete } = await source.untilNames(b);
    assert.ok(source.changes > before, 'removed');
    assert.equal(complete, true);
  });

  test(`${name} gives the same clusters while nothing about them changes`, async t => {
    const world = await start(t);
    const names = [await world.create('a'), await world.create('b')];
    await using source = new SourceUnderTest(world);
    const before = await source.untilNames(...names);
    await world.touch('a');
    await world.advance(5 * MINUTE);
    assertSameClusters(source.observe().clusters, before.clusters);
  });

  test(`${name} shows one that is deleted and created again`, async t => {
    const world = await start(t);
    const names = [await world.create('a'), await world.create('b')];
    await using source = new SourceUnderTest(world);
    await source.untilNames(...names);
    await world.remove('b');
    await world.create('b');
    await world.advance(MINUTE);
    await source.untilNames(...names);
    await world.remove('a');
    await world.remove('b');
    const { complete } = await source.untilNames();
    assert.equal(complete, true, 'deletions that were seen are believed, even of everything');
  });

  test(`${name} is not held up by objects that are wrong, and reports them`, async t => {
    const world = await start(t);
    const a = await world.create('a');
    await world.createBroken();
    await using source = new SourceUnderTest(world);
    const listed = await source.until('is synced', ({ synced }) => synced);
    assert.ok(listed.clusters.some(cluster => cluster.name === a));
    assert.ok(listed.findings.length > 0);
    const b = await world.create('b');
    await source.until('has another', ({ clusters }) => clusters.some(cluster => cluster.name === b));
    await world.remove('a');
    await source.until('lacks the first', ({ clusters }) => clusters.every(cluster => cluster.name !== a));
  });

  test(`${name} ends at once and for good when it is disposed`, async t => {
    const world = await start(t);
    await world.create('a');
    const source = new SourceUnderTest(world);
    await source.until('is synced', ({ synced }) => synced);
    // A change is on its way.
    await world.create('b');
    await source[Symbol.asyncDispose]();
    const changes = source.changes;
    const before = source.observe();
    await world.create('c');
    await world.advance(MINUTE);
    assert.equal(source.changes, changes);
    assertSameClusters(source.observe().clusters, before.clusters);
  });

  test(`${name} can be disposed before it has read anything`, async t => {
    const world = await start(t);
    await world.create('a');
    const source = new SourceUnderTest(world);
    await source[Symbol.asyncDispose]();
    await world.advance(MINUTE);
    assert.equal(source.changes, 0);
  });
}
