import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { KubeFault } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import { openReflector, type ReflectorOptions } from './reflector.ts';
import { customResourceDefinitions, type Resource, resource } from './resources.ts';

interface Widget extends KubeObject {
  readonly spec?: { readonly size: number };
}

const widgets: Resource<Widget> = resource('test.causeway.dev/v1', 'widgets', 'Widget');
const configMaps: Resource<KubeObject> = resource('v1', 'configmaps', 'ConfigMap');
const DEFINITION = 'widgets.test.causeway.dev';
const UNREACHABLE: KubeFault = { status: 0, reason: 'Unreachable', message: 'connect ECONNREFUSED' };
const FORBIDDEN: KubeFault = { status: 403, reason: 'Forbidden', message: 'widgets is forbidden' };
const MINUTE = 60_000;

function definition(...versions: readonly string[]) {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: DEFINITION },
    spec: {
      group: widgets.group,
      scope: 'Namespaced',
      names: { plural: 'widgets', kind: 'Widget' },
      versions: (versions.length === 0 ? ['v1'] : versions).map(name => ({ name, served: true })),
    },
  };
}

function widget(name: string, { namespace = 'a', size = 1, labels = {} } = {}): Widget {
  const metadata = { name, namespace, labels };
  return { apiVersion: 'test.causeway.dev/v1', kind: 'Widget', metadata, spec: { size } };
}

/** A store with a definition unless told otherwise, and reflectors whose time the test moves. */
function given(...objects: readonly KubeObject[]) {
  const store = memoryStore(...objects);
  const clock = testClock();
  const api = store.client();
  let changes = 0;
  return {
    store,
    clock,
    api,
    changes: () => changes,
    open: <K = Widget>(options: ReflectorOptions<Widget, K> = {}) =>
      openReflector<Widget, K>(api, widgets, { clock, random: () => 1, ...options }, () => changes++),
    async remove(...names: readonly string[]) {
      for (const name of names) assert.ok((await api.remove(widgets, identityOf(widget(name)))).ok);
    },
    async removeDefinition() {
      const object = { ...definition(), metadata: { name: DEFINITION } };
      assert.ok((await api.remove(customResourceDefinitions, object)).ok);
    },
    /** As a server that is away. */
    goAway() {
      store.fault = () => UNREACHABLE;
      store.cutWatches({ why: 'failed', fault: UNREACHABLE });
    },
  };
}

function identityOf({ apiVersion, kind, metadata: { name, namespace } }: Widget): Widget {
  return { apiVersion, kind, metadata: { name, ...(namespace && { namespace }) } };
}

const names = ({ objects }: { objects: ReadonlyMap<string, unknown> }) => [...objects.keys()].toSorted();

test('openReflector() lists, then follows what is created, changed and deleted', async () => {
  const { clock, api, open, remove, changes } = given(definition(), widget('x'), widget('y'));
  await using reflector = open();
  assert.deepEqual([reflector.synced, reflector.objects.size, changes()], [false, 0, 0]);
  await clock.advance(0);
  assert.deepEqual([reflector.synced, names(reflector), changes()], [true, ['a/x', 'a/y'], 1]);
  assert.equal(reflector.objects.get('a/x')?.metadata.managedFields, undefined);
  const [x, y] = [reflector.objects.get('a/x'), reflector.objects.get('a/y')];

  await api.apply(widgets, widget('z'));
  await api.merge(widgets, 'a', 'x', { spec: { size: 2 } });
  await clock.advance(0);
  assert.deepEqual(names(reflector), ['a/x', 'a/y', 'a/z']);
  assert.equal(reflector.objects.get('a/x')?.spec?.size, 2);
  assert.notEqual(reflector.objects.get('a/x'), x);
  assert.equal(reflector.objects.get('a/y'), y);
  await remove('y');
  await clock.advance(0);
  assert.deepEqual(names(reflector), ['a/x', 'a/z']);
  assert.deepEqual([reflector.error, reflector.absent, reflector.emptied], [undefined, false, false]);
});

test('openReflector() calls changed() once for events that come together, and not from within', async () => {
  const { clock, api, open, changes } = given(definition());
  await using reflector = open();
  await clock.advance(0);
  const before = changes();
  for (let i = 0; i < 50; i++) void api.apply(widgets, widget(`w${i}`));
  await clock.advance(0);
  assert.equal(reflector.objects.size, 50);
  assert.ok(changes() - before < 5, `${changes() - before} calls`);
});

test('openReflector() reads chosen namespaces, by selector, and resources without namespaces', async () => {
  const labels = { a: 'b' };
  const { clock, api, open } = given(
    definition(),
    widget('x', { labels }),
    widget('unlabelled'),
    widget('y', { namespace: 'b', labels }),
    widget('z', { namespace: 'c', labels }),
  );
  await using reflector = open({ namespaces: ['a', 'b', 'a'], labelSelector: 'a=b' });
  await clock.advance(0);
  assert.deepEqual(names(reflector), ['a/x', 'b/y']);
  await api.apply(widgets, widget('new', { namespace: 'c', labels }));
  await api.merge(widgets, 'a', 'x', { metadata: { labels: { a: null } } });
  await api.merge(widgets, 'a', 'unlabelled', { metadata: { labels } });
  await clock.advance(0);
  assert.deepEqual(names(reflector), ['a/unlabelled', 'b/y']);

  await using definitions = openReflector(api, customResourceDefinitions, { clock }, () => {});
  await clock.advance(0);
  assert.deepEqual(names(definitions), [DEFINITION]);
});

test('openReflector() is synced only when every namespace has been listed', async () => {
  const { store, clock, open } = given(definition(), widget('x'), widget('y', { namespace: 'b' }));
  let lists = 0;
  store.fault = method => (method === 'list' && ++lists === 2 ? FORBIDDEN : undefined);
  await using reflector = open({ namespaces: ['a', 'b'] });
  await clock.advance(500);
  assert.deepEqual([reflector.synced, names(reflector)], [false, ['a/x']]);
  assert.equal(reflector.error, '403 Forbidden: widgets is forbidden');
  await clock.advance(500);
  assert.deepEqual([reflector.synced, names(reflector)], [true, ['a/x', 'b/y']]);
  assert.equal(reflector.error, undefined);
});

test('openReflector() keeps what `keep` makes of an object, and asks again only for another version', async () => {
  const { store, clock, api, open } = given(definition(), widget('x'), widget('y'));
  const asked: string[] = [];
  const keep = ({ metadata, spec }: Widget) => {
    asked.push(metadata.name);
    return { size: spec?.size };
  };
  await using reflector = open({ keep });
  await clock.advance(0);
  const x = reflector.objects.get('a/x');
  assert.deepEqual([...reflector.objects.values()], [{ size: 1 }, { size: 1 }]);
  store.cutWatches();
  await api.merge(widgets, 'a', 'y', { spec: { size: 2 } });
  store.forget();
  await clock.advance(MINUTE);
  assert.deepEqual(asked, ['x', 'y', 'y']);
  assert.equal(reflector.objects.get('a/x'), x);
  assert.deepEqual(reflector.objects.get('a/y'), { size: 2 });
});

test('openReflector() does not report a version in which nothing that is kept has changed', async () => {
  const { store, clock, api, open, changes } = given(definition(), widget('x'));
  await using reflector = open({ keep: ({ spec }) => new Map([['size', spec?.size]]) });
  await clock.advance(0);
  const [x, before] = [reflector.objects.get('a/x'), changes()];
  const annotate = (text: string) => api.merge(widgets, 'a', 'x', { metadata: { annotations: { text } } });
  await annotate('by event');
  await clock.advance(0);
  store.cutWatches();
  await annotate('by list');
  store.forget();
  await clock.advance(MINUTE);
  assert.deepEqual([reflector.objects.get('a/x') === x, changes()], [true, before]);
  await api.merge(widgets, 'a', 'x', { spec: { size: 2 } });
  await clock.advance(0);
  assert.deepEqual([reflector.objects.get('a/x')?.get('size'), changes()], [2, before + 1]);
});

test('openReflector() reports that an object can be read again although it is as it was', async () => {
  const { clock, api, open, changes } = given(definition(), widget('x'));
  await using reflector = open({
    keep: ({ spec }) => {
      if (spec?.size === 0) throw new Error('too small');
      return spec?.size;
    },
  });
  const resize = async (size: number) => {
    await api.merge(widgets, 'a', 'x', { spec: { size } });
    await clock.advance(0);
  };
  await clock.advance(0);
  await resize(0);
  const before = changes();
  assert.match(reflector.error ?? '', /too small/);
  await resize(1);
  assert.deepEqual([reflector.error, reflector.objects.get('a/x'), changes()], [undefined, 1, before + 1]);
});

test('openReflector() keeps an object as it was where `keep` throws, says so, and follows the others', async () => {
  const { store, clock, api, open, goAway, remove } = given(definition(), widget('x'), widget('y'));
  await using reflector = open({
    keep: ({ spec }) => {
      if (spec?.size === 0) throw new Error('too small');
      return spec?.size;
    },
  });
  await clock.advance(0);
  const resize = (name: string, size: number) => api.merge(widgets, 'a', name, { spec: { size } });
  await resize('x', 0);
  await resize('y', 2);
  await api.apply(widgets, widget('z', { size: 0 }));
  await clock.advance(0);
  assert.match(reflector.error ?? '', /'a\/x': Error: too small/);
  assert.deepEqual(Object.fromEntries(reflector.objects), { 'a/x': 1, 'a/y': 2 });
  goAway();
  await clock.advance(2000);
  store.fault = undefined;
  await resize('y', 3);
  await clock.advance(MINUTE);
  assert.deepEqual(Object.fromEntries(reflector.objects), { 'a/x': 1, 'a/y': 3 });
  await resize('x', 3);
  await clock.advance(0);
  assert.match(reflector.error ?? '', /'a\/z': Error: too small/);
  await remove('z');
  await clock.advance(0);
  assert.equal(reflector.error, undefined);
  assert.deepEqual(Object.fromEntries(reflector.objects), { 'a/x': 3, 'a/y': 3 });
});

test('openReflector() resumes a watch that ended where it was, at most once a second', async () => {
  const { store, clock, api, open } = given(definition(), widget('x'));
  const calls: string[] = [];
  store.fault = method => void calls.push(`${method} ${clock.now()}`);
  await using reflector = open();
  await clock.advance(100);
  calls.length = 0;
  for (let i = 0; i < 10; i++) {
    store.cutWatches({ why: 'failed', fault: UNREACHABLE });
    await clock.advance(100);
  }
  assert.deepEqual(calls, ['watch 1000']);
  assert.equal(reflector.error, undefined);
  store.fault = undefined;
  store.cutWatches();
  await api.apply(widgets, widget('y'));
  await clock.advance(2000);
  assert.deepEqual(names(reflector), ['a/x', 'a/y']);
});

test('openReflector() resumes from a bookmark where older changes are forgotten', async () => {
  const { store, clock, api, open } = given(definition(), widget('x'));
  const lists: number[] = [];
  store.fault = method => void (method === 'list' && lists.push(clock.now()));
  await using reflector = open();
  await clock.advance(0);
  await api.create(configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'c', namespace: 'a' },
  });
  store.bookmark();
  await clock.advance(0);
  store.forget();
  store.cutWatches();
  await clock.advance(MINUTE);
  assert.deepEqual([lists, names(reflector)], [[0], ['a/x']]);
});

test('openReflector() lists again when its position has expired, with back-off if that goes on', async () => {
  const { store, clock, api, open } = given(definition(), widget('x'), widget('y'), widget('z'));
  await using reflector = open();
  await clock.advance(MINUTE);
  const x = reflector.objects.get('a/x');
  store.cutWatches();
  await api.merge(widgets, 'a', 'y', { spec: { size: 2 } });
  await api.remove(widgets, identityOf(widget('z')));
  store.forget();
  await clock.advance(2000);
  assert.deepEqual(names(reflector), ['a/x', 'a/y']);
  assert.deepEqual([reflector.objects.get('a/x'), reflector.objects.get('a/y')?.spec?.size], [x, 2]);

  const lists: number[] = [];
  store.fault = method => {
    if (method === 'list') lists.push(clock.now());
    return method === 'watch' ? { status: 410, reason: 'Expired', message: 'too old' } : undefined;
  };
  store.cutWatches();
  await clock.advance(10 * MINUTE);
  assert.ok(lists.length > 15 && lists.length < 30, `${lists.length} lists`);
  assert.ok(lists.slice(8).every((at, i) => i === 0 || at - lists[i + 7] === 30_000));
});

test('openReflector() keeps its objects and tries again, ever less often, while the server is away', async () => {
  const { store, clock, api, open, goAway } = given(definition(), widget('x'));
  await using reflector = open();
  await clock.advance(MINUTE);
  goAway();
  const attempts: number[] = [];
  store.fault = () => {
    attempts.push(clock.now() - MINUTE);
    return UNREACHABLE;
  };
  await clock.advance(10 * MINUTE);
  assert.deepEqual(attempts.slice(0, 7), [0, 1000, 3000, 7000, 15_000, 31_000, 61_000]);
  assert.deepEqual(names(reflector), ['a/x']);
  assert.match(reflector.error ?? '', /^Unreachable: connect ECONNREFUSED$/);
  store.fault = undefined;
  await api.merge(widgets, 'a', 'x', { spec: { size: 7 } });
  await clock.advance(30_000);
  assert.deepEqual([reflector.error, reflector.objects.get('a/x')?.spec?.size], [undefined, 7]);
});

test('openReflector() lists after an outage: the server may have been restored from a backup', async () => {
  const { store, clock, open, goAway } = given(definition(), widget('x'));
  await using reflector = open();
  await clock.advance(0);
  goAway();
  await clock.advance(1000);
  const calls: string[] = [];
  store.fault = method => void calls.push(method);
  await clock.advance(MINUTE);
  assert.deepEqual(calls, ['get', 'list', 'watch']);
  assert.deepEqual(names(reflector), ['a/x']);
});

test('openReflector() shows a refused watch, keeps its objects, and resumes it when permitted', async () => {
  const { store, clock, api, open } = given(definition(), widget('x'));
  await using reflector = open();
  await clock.advance(0);
  let watches = 0;
  store.fault = method => (method === 'watch' && ++watches > 0 ? FORBIDDEN : undefined);
  store.cutWatches();
  await clock.advance(5 * MINUTE);
  assert.ok(watches > 5 && watches < 20, `${watches} watches`);
  assert.match(reflector.error ?? '', /^403 Forbidden/);
  await api.apply(widgets, widget('y'));
  store.fault = undefined;
  await clock.advance(MINUTE);
  assert.deepEqual([reflector.error, names(reflector)], [undefined, ['a/x', 'a/y']]);
});

test('openReflector() waits for a resource that is absent, and reads it once it is installed', async () => {
  const { store, clock, api, open, changes } = given();
  await using reflector = open();
  await clock.advance(0);
  assert.deepEqual([reflector.absent, reflector.synced], [true, false]);
  assert.match(reflector.error ?? '', /does not serve 'widgets\.test\.causeway\.dev'/);
  let lists = 0;
  store.fault = method => void (method === 'list' && lists++);
  const before = changes();
  await clock.advance(10 * MINUTE);
  assert.ok(lists > 9 && lists < 15, `${lists} lists`);
  assert.equal(changes(), before);
  await api.create(customResourceDefinitions, definition());
  await api.apply(widgets, widget('x'));
  await clock.advance(MINUTE);
  assert.deepEqual([reflector.absent, reflector.synced, reflector.error], [false, true, undefined]);
  assert.deepEqual(names(reflector), ['a/x']);
});

test('openReflector() reads the best supported version that is served, and says when there is none', async () => {
  const { clock, api, open } = given();
  await using reflector = open({ versions: ['v2', 'v1', 'v1beta1'], namespaces: ['a', 'b'] });
  await clock.advance(0);
  assert.match(reflector.error ?? '', /does not serve 'widgets\.test\.causeway\.dev'/);
  const create = async (...versions: readonly string[]) => {
    await api.create(customResourceDefinitions, definition(...versions));
    await api.apply({ ...widgets, version: versions[0] }, widget('x'));
    await clock.advance(MINUTE);
  };
  await create('v3', 'v4alpha1');
  assert.equal(reflector.absent, true);
  assert.match(
    reflector.error ?? '',
    /serves 'widgets\.test.causeway\.dev' as v3, v4alpha1; supported: v2, v1, v1beta1/,
  );
  await api.replace(customResourceDefinitions, definition('v3', 'v1beta1', 'v1'));
  await clock.advance(MINUTE);
  assert.deepEqual([reflector.absent, reflector.error], [false, undefined]);
  assert.equal(reflector.objects.get('a/x')?.apiVersion, 'test.causeway.dev/v1');
});

for (const slowTermination of [false, true]) {
  test(`openReflector() keeps objects whose definition is deleted, ${slowTermination ? 'slowly' : 'at once'}`, async () => {
    const { store, clock, api, open, remove, removeDefinition } = given(
      definition(),
      widget('x'),
      widget('y'),
      widget('z'),
    );
    await using reflector = open();
    await clock.advance(0);
    await remove('z');
    await clock.advance(0);
    assert.deepEqual(names(reflector), ['a/x', 'a/y']);
    store.slowTermination = slowTermination;
    await removeDefinition();
    await clock.advance(0);
    assert.deepEqual([names(reflector), reflector.absent], [['a/x', 'a/y'], true]);
    assert.match(
      reflector.error ?? '',
      slowTermination ? /is being deleted/ : /being deleted|does not serve/,
    );
    await clock.advance(10 * MINUTE);
    assert.deepEqual([names(reflector), reflector.absent], [['a/x', 'a/y'], true]);
    if (slowTermination) {
      store.slowTermination = false;
      await removeDefinition();
      await clock.advance(10 * MINUTE);
    }
    assert.match(reflector.error ?? '', /does not serve/);

    await api.create(customResourceDefinitions, definition());
    await api.apply(widgets, widget('new'));
    await clock.advance(MINUTE);
    assert.deepEqual([names(reflector), reflector.absent, reflector.error], [['a/new'], false, undefined]);
  });
}

test('openReflector() keeps objects where it lists while their definition is being deleted', async () => {
  const { store, clock, open, goAway, removeDefinition } = given(definition(), widget('x'), widget('y'));
  await using reflector = open();
  await clock.advance(0);
  store.slowTermination = true;
  goAway();
  await clock.advance(1000);
  store.fault = undefined;
  await removeDefinition();
  await clock.advance(10 * MINUTE);
  assert.deepEqual([names(reflector), reflector.absent], [['a/x', 'a/y'], true]);
  assert.match(reflector.error ?? '', /is being deleted/);
});

test('openReflector() keeps objects whose definition is deleted just before they are listed', async () => {
  const held = { ...widget('x').metadata, finalizers: ['test.causeway.dev/hold'] };
  const { store, clock, open, goAway, removeDefinition } = given(
    definition(),
    { ...widget('x'), metadata: held },
    widget('y'),
  );
  await using reflector = open();
  await clock.advance(0);
  goAway();
  await clock.advance(1000);
  store.fault = undefined;
  store.slowTermination = true;
  store.gate = async label => {
    if (label !== 'list widgets') return;
    store.gate = async () => {};
    await removeDefinition();
  };
  await clock.advance(10 * MINUTE);
  assert.deepEqual([names(reflector), reflector.absent], [['a/x', 'a/y'], true]);
});

test('openReflector() keeps objects where their definition is replaced between two watches', async () => {
  const { store, clock, api, open, removeDefinition } = given(definition(), widget('x'), widget('y'));
  await using reflector = open();
  await clock.advance(0);
  store.cutWatches();
  await removeDefinition();
  await api.create(customResourceDefinitions, definition());
  await clock.advance(2000);
  // The watch has reported their deletion; the new definition has none, which may change.
  assert.deepEqual([names(reflector), reflector.emptied], [['a/x', 'a/y'], true]);
  await api.apply(widgets, widget('x'));
  await clock.advance(2000);
  assert.deepEqual(names(reflector), ['a/x', 'a/y']);
  await clock.advance(10 * MINUTE);
  assert.deepEqual([names(reflector), reflector.emptied], [['a/x'], false]);
});

test('openReflector() believes a deletion only after it could look at the definition', async () => {
  const { store, clock, open, remove } = given(definition(), widget('x'), widget('y'));
  await using reflector = open();
  await clock.advance(0);
  store.fault = method =>
    method === 'get' ? { status: 500, reason: 'InternalError', message: 'etcd' } : undefined;
  await remove('x');
  await clock.advance(MINUTE);
  assert.deepEqual([names(reflector), reflector.error], [['a/x', 'a/y'], '500 InternalError: etcd']);
  store.fault = undefined;
  await clock.advance(MINUTE);
  assert.deepEqual([names(reflector), reflector.error], [['a/y'], undefined]);
});

test('openReflector() no longer reports a look at the definition that it does not need any more', async () => {
  const { store, clock, api, open, remove } = given(definition(), widget('x'));
  await using reflector = open();
  await clock.advance(0);
  store.fault = method => (method === 'get' ? FORBIDDEN : method === 'discover' ? UNREACHABLE : undefined);
  await remove('x');
  await clock.advance(5000);
  assert.match(reflector.error ?? '', /^Unreachable/);
  await api.apply(widgets, widget('x'));
  await clock.advance(MINUTE);
  assert.deepEqual([names(reflector), reflector.error], [['a/x'], undefined]);
});

test('openReflector() keeps an object that is created again before its deletion is confirmed', async () => {
  const { store, clock, api, open, remove } = given(definition(), widget('x'));
  await using reflector = open();
  await clock.advance(0);
  const gate = Promise.withResolvers<void>();
  store.gate = async label => label.startsWith('get') && (await gate.promise);
  await remove('x');
  await clock.advance(0);
  await api.apply(widgets, widget('x', { size: 2 }));
  await clock.advance(0);
  gate.resolve();
  await clock.advance(0);
  assert.equal(reflector.objects.get('a/x')?.spec?.size, 2);
});

test('openReflector() asks discovery where it may not read definitions', async () => {
  const { store, clock, open, remove, removeDefinition } = given(definition(), widget('x'), widget('y'));
  store.fault = (method, plural) =>
    method === 'get' && plural === 'customresourcedefinitions' ? FORBIDDEN : undefined;
  await using reflector = open();
  await clock.advance(0);
  assert.equal(reflector.synced, true);
  await remove('x');
  await clock.advance(5000);
  assert.deepEqual([names(reflector), reflector.error], [['a/y'], undefined]);
  store.slowTermination = true;
  await removeDefinition();
  await clock.advance(10 * MINUTE);
  assert.deepEqual([names(reflector), reflector.absent], [['a/y'], true]);
});

test('openReflector() believes an empty list after others only when it stays so for five minutes', async () => {
  const { store, clock, api, open, goAway, remove } = given(definition(), widget('x'), widget('y'));
  await using reflector = open();
  await clock.advance(0);
  const empty = async () => {
    goAway();
    await clock.advance(1000);
    store.fault = undefined;
    await remove('x', 'y');
    await clock.advance(1000);
  };
  await empty();
  assert.deepEqual([names(reflector), reflector.emptied, reflector.error], [['a/x', 'a/y'], true, undefined]);
  await clock.advance(4 * MINUTE);
  assert.deepEqual([names(reflector), reflector.emptied], [['a/x', 'a/y'], true]);
  // They are back: that was close.
  await api.apply(widgets, widget('x'));
  await api.apply(widgets, widget('y'));
  await clock.advance(2 * MINUTE);
  assert.deepEqual([names(reflector), reflector.emptied], [['a/x', 'a/y'], false]);

  await empty();
  // Cut connections must not put it off for ever.
  for (let i = 0; i < 400; i++) {
    store.cutWatches();
    await clock.advance(1000);
  }
  assert.deepEqual([names(reflector), reflector.emptied], [[], false]);
  await api.apply(widgets, widget('z'));
  await clock.advance(2000);
  await remove('z');
  await clock.advance(0);
  assert.deepEqual([names(reflector), reflector.emptied], [[], false]);
});

test('openReflector() changes nothing and calls nobody after it was disposed, whatever is under way', async () => {
  for (const stuck of ['get', 'list', 'watch', 'discover', 'nothing']) {
    const { store, clock, api, open, changes } = given(definition(), widget('x'));
    const gate = Promise.withResolvers<void>();
    store.gate = async label => label.startsWith(stuck) && (await gate.promise);
    const reflector = open({ versions: ['v1'] });
    await clock.advance(0);
    await reflector[Symbol.asyncDispose]();
    const [before, size] = [changes(), reflector.objects.size];
    let calls = 0;
    store.fault = () => void calls++;
    gate.resolve();
    await api.apply(widgets, widget('y'));
    await clock.advance(10 * MINUTE);
    assert.deepEqual([changes(), reflector.objects.size], [before, size], stuck);
    // At most the call that was stuck, and our own.
    assert.ok(calls <= 2, `${stuck}: ${calls} calls`);
  }
});

type Step =
  | readonly ['put' | 'remove', string]
  | readonly ['cut' | 'forget' | 'bookmark' | 'fault' | 'mend']
  | readonly ['wait', number];

test('openReflector() has what the server has in the end, whatever happened on the way', async () => {
  const name = fc.constantFrom('u', 'v', 'w', 'x', 'y');
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(fc.constant('put' as const), name) },
    { weight: 3, arbitrary: fc.tuple(fc.constant('remove' as const), name) },
    { weight: 2, arbitrary: fc.tuple(fc.constant('wait' as const), fc.constantFrom(0, 10, 1000, 40_000)) },
    fc.tuple(
      fc.constantFrom(
        'cut' as const,
        'forget' as const,
        'bookmark' as const,
        'fault' as const,
        'mend' as const,
      ),
    ),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.boolean(), async (steps, isDelayed) => {
      const { store, clock, api, open } = given(definition(), widget('u'), widget('v'));
      let delay = 0;
      if (isDelayed) {
        store.gate = label =>
          label.startsWith('put')
            ? Promise.resolve()
            : clock.wait((delay = (delay * 7 + 3) % 50), new AbortController().signal);
      }
      const other = store.client('other');
      let size = 0;
      const act = async ([what, how]: Step) => {
        if (what === 'put') void other.apply(widgets, widget(how, { size: ++size }), { force: true });
        else if (what === 'remove') void other.remove(widgets, identityOf(widget(how)));
        else if (what === 'cut') store.cutWatches({ why: 'failed', fault: UNREACHABLE });
        else if (what === 'forget') store.forget();
        else if (what === 'bookmark') store.bookmark();
        else if (what === 'fault')
          store.fault = method => (method === 'remove' || method === 'apply' ? undefined : UNREACHABLE);
        else if (what === 'mend') store.fault = undefined;
        else if (what === 'wait') await clock.advance(how);
      };
      await using reflector = open();
      for (const one of steps) await act(one);
      store.fault = undefined;
      await clock.advance(15 * MINUTE);
      store.gate = async () => {};
      const listed = await api.list(widgets, {});
      assert.ok(listed.ok);
      const versions = listed.value.items.map(
        ({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`,
      );
      const kept = [...reflector.objects.values()].map(
        ({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`,
      );
      assert.deepEqual(kept.toSorted(), versions.toSorted());
      assert.deepEqual([reflector.synced, reflector.error, reflector.emptied], [true, undefined, false]);
    }),
    { numRuns: 150 },
  );
});
