// Contract of sources that read an API server: nothing is forgotten because it cannot be read.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeFault } from '../../kube/kube-api.ts';
import { assertSameClusters, type SourceServer, SourceUnderTest, type StartWorld } from './source-world.ts';

const MINUTE = 60_000;
const UNREACHABLE: KubeFault = { status: 0, reason: 'Unreachable', message: 'connect ECONNREFUSED' };
const FAULTS: readonly KubeFault[] = [
  UNREACHABLE,
  { status: 401, reason: 'Unauthorized', message: 'the token has expired' },
  { status: 403, reason: 'Forbidden', message: 'is forbidden' },
  { status: 404, reason: 'NotFound', message: 'the server could not find the requested resource' },
  { status: 500, reason: 'InternalError', message: 'etcdserver: request timed out' },
];

export function serverContract(name: string, start: StartWorld): void {
  const given = async (t: Parameters<StartWorld>[0]) => {
    const world = await start(t);
    assert.ok(world.server, 'the world has a server');
    return { world, server: world.server as SourceServer };
  };

  for (const fault of FAULTS) {
    const { reason } = fault;
    test(`${name} keeps its clusters and says why, while the server answers ${reason}`, async t => {
      const { world, server } = await given(t);
      const names = [await world.create('a'), await world.create('b')];
      await using source = new SourceUnderTest(world);
      const before = await source.untilNames(...names);
      server.fail(fault);
      const { error = '' } = await source.until('is incomplete', ({ complete }) => !complete);
      assert.notEqual(error, '');
      await world.advance(10 * MINUTE);
      const during = source.observe();
      assert.deepEqual([during.synced, during.complete], [true, false]);
      assertSameClusters(during.clusters, before.clusters);

      server.fail(undefined);
      const after = await source.until('is complete', ({ complete }) => complete);
      assertSameClusters(after.clusters, before.clusters);
      const c = await world.create('c');
      await source.untilNames(...names, c);
    });

    test(`${name} opened while the server answers ${reason} starts once it works`, async t => {
      const { world, server } = await given(t);
      const a = await world.create('a');
      server.fail(fault);
      await using source = new SourceUnderTest(world);
      await source.until('has an error', ({ error }) => error !== undefined);
      await world.advance(10 * MINUTE);
      const { clusters, synced, complete } = source.observe();
      // What is not served counts as listed.
      assert.deepEqual([clusters, synced, complete], [[], fault.status === 404, false]);
      server.fail(undefined);
      const { complete: isComplete } = await source.untilNames(a);
      assert.equal(isComplete, true);
    });
  }

  test(`${name} misses nothing where watches are cut or expire`, async t => {
    const { world, server } = await given(t);
    const names = [await world.create('a'), await world.create('b')];
    await using source = new SourceUnderTest(world);
    await source.untilNames(...names);
    for (const expires of [false, true]) {
      server.cutWatches();
      await world.remove('b');
      const c = await world.create('c');
      if (expires) server.forget();
      await source.untilNames(names[0], c);
      await world.remove('c');
      await world.create('b');
      await source.untilNames(...names);
    }
    assert.deepEqual([source.observe().complete, source.observe().error], [true, undefined]);
  });

  test(`${name} believes a list that is suddenly empty only after some minutes`, async t => {
    const { world, server } = await given(t);
    const names = [await world.create('a'), await world.create('b')];
    await using source = new SourceUnderTest(world);
    const before = await source.untilNames(...names);
    server.fail(UNREACHABLE);
    await source.until('is incomplete', ({ complete }) => !complete);
    await world.remove('a');
    await world.remove('b');
    server.fail(undefined);
    const isEmptied = (codes: readonly { code: string }[]) =>
      codes.some(({ code }) => code === 'SourceEmpty');
    const emptied = await source.until('reports it', ({ findings }) => isEmptied(findings));
    assertSameClusters(emptied.clusters, before.clusters);
    assert.equal(emptied.complete, false);
    assert.ok(emptied.error);
    await world.advance(10 * MINUTE);
    const { complete, findings } = await source.untilNames();
    assert.deepEqual([complete, isEmptied(findings)], [true, false]);
  });

  test(`${name} removes only what is missing from a list that has others`, async t => {
    const { world, server } = await given(t);
    const names = [await world.create('a'), await world.create('b')];
    await using source = new SourceUnderTest(world);
    await source.untilNames(...names);
    server.fail(UNREACHABLE);
    await source.until('is incomplete', ({ complete }) => !complete);
    await world.remove('a');
    server.fail(undefined);
    await source.untilNames(names[1]);
  });

  test(`${name} keeps its clusters where their CustomResourceDefinition is deleted`, async t => {
    const { world, server } = await given(t);
    const { definition } = server;
    if (definition === undefined) return t.diagnostic('its objects are of a built-in resource');
    const names = [await world.create('a'), await world.create('b')];
    await using source = new SourceUnderTest(world);
    const before = await source.untilNames(...names);
    await definition.remove();
    const absent = await source.until('is incomplete', ({ complete }) => !complete);
    assert.ok(absent.error);
    await world.advance(10 * MINUTE);
    const { clusters, findings } = source.observe();
    assertSameClusters(clusters, before.clusters);
    assert.ok(findings.some(({ code }) => code === 'SourceCrdMissing'));
    await definition.create();
    const c = await world.create('c');
    await source.untilNames(c);
  });

  test(`${name} waits for a CustomResourceDefinition that is not there yet`, async t => {
    const { world, server } = await given(t);
    const { definition } = server;
    if (definition === undefined) return t.diagnostic('its objects are of a built-in resource');
    await definition.remove();
    await using source = new SourceUnderTest(world);
    const { clusters, complete, findings } = await source.until('is synced', ({ synced }) => synced);
    assert.deepEqual([clusters, complete], [[], false]);
    assert.ok(findings.some(({ code }) => code === 'SourceCrdMissing'));
    await definition.create();
    const a = await world.create('a');
    const after = await source.untilNames(a);
    assert.deepEqual([after.complete, after.findings], [true, []]);
  });
}
