// What every KubeApi does, whatever is behind it: the suite for kube-client.ts with a real API server and for the one
// in memory that other tests stand on.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Answer, KubeApi, WatchEnd, WatchEvent, WatchOptions } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import { customResourceDefinitions, type Resource, resource, services } from './resources.ts';

export interface ContractSubject extends AsyncDisposable {
  readonly api: KubeApi;
  /** Applies as another field manager, without force. */
  applyAs(manager: string, resource: Resource<KubeObject>, object: KubeObject): Promise<void>;
  /** Makes the server forget what has changed before. */
  forget(): Promise<void>;
}

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

interface Widget extends KubeObject {
  readonly spec?: { readonly size?: number; readonly names?: readonly string[] };
  readonly status?: { readonly ready?: boolean };
}

const configMaps: Resource<ConfigMap> = resource('v1', 'configmaps', 'ConfigMap');
const namespaces: Resource<KubeObject> = resource('v1', 'namespaces', 'Namespace');
const roles: Resource<KubeObject> = resource('rbac.authorization.k8s.io/v1', 'clusterroles', 'ClusterRole');
const widgets: Resource<Widget> = resource('contract.causeway.dev/v1', 'widgets', 'Widget');
const [A, B] = ['contract-a', 'contract-b'];

export function kubeApiContract(
  name: string,
  open: () => Promise<ContractSubject>,
  options: { readonly skip?: string | false; readonly timeout?: number } = {},
): void {
  describe(`${name} is a KubeApi`, options, () => {
    let subject: ContractSubject;
    let api: KubeApi;
    before(async () => {
      subject = await open();
      ({ api } = subject);
      for (const name of [A, B]) {
        const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
        valueOf(await api.create(namespaces, object));
      }
      valueOf(await api.create(customResourceDefinitions, widgetDefinition));
      await eventually(async () => (await api.list(widgets, {})).ok);
    });
    after(() => subject?.[Symbol.asyncDispose]());

    /** Watches until the test ends it; gives the events so far. */
    function watching<T extends KubeObject>(
      resource: Resource<T>,
      { resourceVersion, ...selection }: Omit<WatchOptions, 'signal'>,
    ) {
      const events: WatchEvent<T>[] = [];
      const stop = new AbortController();
      let ended: WatchEnd | undefined;
      const end = watchToEnd();
      async function watchToEnd(): Promise<WatchEnd> {
        ended = await api.watch(resource, { resourceVersion, ...selection, signal: stop.signal }, event => {
          if (event.type !== 'BOOKMARK') events.push(event);
        });
        return ended;
      }
      const seen = () => events.map(event => `${event.type} ${nameOf(event)}`);
      return {
        events,
        seen,
        /** Waits for so many. */
        until: (count: number) =>
          eventually(async () => {
            if (events.length >= count) return true;
            assert.equal(ended, undefined, `after ${seen().join(', ')}`);
            return false;
          }),
        stop: (): Promise<WatchEnd> => {
          stop.abort();
          return end;
        },
        end,
      };
    }

    test('an object is created once, read, replaced at its version, and removed at its version', async () => {
      const created = valueOf(await api.create(configMaps, configMap('one', { a: '1' })));
      assert.ok(created.metadata.uid);
      assert.equal(faultOf(await api.create(configMaps, configMap('one', {}))).reason, 'AlreadyExists');
      const read = valueOf(await api.get(configMaps, A, 'one'));
      assert.deepEqual(read, created);
      assert.deepEqual([read.apiVersion, read.kind, read.data], ['v1', 'ConfigMap', { a: '1' }]);

      const replaced = valueOf(await api.replace(configMaps, { ...read, data: { a: 'Grüße 🌍' } }));
      assert.notEqual(replaced.metadata.resourceVersion, read.metadata.resourceVersion);
      assert.equal(replaced.metadata.uid, read.metadata.uid);
      assert.deepEqual(valueOf(await api.get(configMaps, A, 'one')).data, { a: 'Grüße 🌍' });
      const late = faultOf(await api.replace(configMaps, { ...read, data: { a: '3' } }));
      assert.deepEqual([late.status, late.reason], [409, 'Conflict']);

      assert.equal(faultOf(await api.remove(configMaps, read)).status, 409);
      const { resourceVersion: _, ...rest } = replaced.metadata;
      const other = { ...replaced, metadata: { ...rest, uid: 'another' } };
      assert.equal(faultOf(await api.remove(configMaps, other)).status, 409);
      valueOf(await api.remove(configMaps, replaced));
      for (const gone of [
        await api.get(configMaps, A, 'one'),
        await api.remove(configMaps, configMap('one', {})),
        await api.replace(configMaps, replaced),
      ]) {
        assert.deepEqual([faultOf(gone).status, faultOf(gone).reason], [404, 'NotFound']);
      }
    });

    test('a write that changes nothing leaves the version as it is', async () => {
      const object = valueOf(await api.create(configMaps, configMap('same', { a: '1' })));
      const version = object.metadata.resourceVersion;
      for (const same of [
        await api.replace(configMaps, object),
        await api.merge(configMaps, A, 'same', { data: { a: '1' } }),
        await api.patch(configMaps, A, 'same', [{ op: 'replace', path: '/data/a', value: '1' }]),
      ]) {
        assert.equal(valueOf(same).metadata.resourceVersion, version);
      }
    });

    test('a list has all that is selected, by namespace, labels and fields, on any number of pages', async () => {
      for (let i = 0; i < 8; i++) {
        const labels = { list: 'yes', parity: i % 2 === 0 ? 'even' : 'odd' };
        const namespace = i < 6 ? A : B;
        valueOf(await api.create(configMaps, configMap(`list-${i}`, {}, { namespace, labels })));
      }
      const names = async (selection: object) => {
        const { items } = valueOf(await api.list(configMaps, selection));
        return items
          .map(({ metadata }) => metadata.name.replace('list-', ''))
          .toSorted()
          .join('');
      };
      assert.equal(await names({ labelSelector: 'list=yes' }), '01234567');
      assert.equal(await names({ labelSelector: 'list', namespace: A }), '012345');
      assert.equal(await names({ labelSelector: 'list=yes,parity=odd' }), '1357');
      assert.equal(await names({ labelSelector: 'list,parity!=odd', namespace: B }), '6');
      assert.equal(await names({ labelSelector: 'list,parity in (odd, none)', namespace: B }), '7');
      assert.equal(await names({ labelSelector: 'list,parity notin (odd),!absent', namespace: B }), '6');
      assert.equal(await names({ labelSelector: 'list', fieldSelector: 'metadata.name=list-3' }), '3');
      assert.equal(await names({ labelSelector: 'list', fieldSelector: `metadata.namespace=${B}` }), '67');
      assert.equal(await names({ namespace: 'no-such-namespace' }), '');
      const listed = valueOf(
        await api.list(configMaps, {
          labelSelector: 'list=yes',
          keep: ({ apiVersion, kind, metadata }) => `${apiVersion} ${kind} ${metadata.namespace}`,
        }),
      );
      assert.deepEqual(new Set(listed.items), new Set([`v1 ConfigMap ${A}`, `v1 ConfigMap ${B}`]));
      assert.match(listed.resourceVersion, /^\d+$/);
    });

    test('a watch goes on where a list ended, in order, with each object as it was then', async () => {
      valueOf(await api.create(configMaps, configMap('watched-before', {}, { labels: { watch: '1' } })));
      const { items, resourceVersion } = valueOf(await api.list(configMaps, { labelSelector: 'watch=1' }));
      assert.equal(items.length, 1);
      const watch = watching(configMaps, { labelSelector: 'watch=1', resourceVersion });
      let object = valueOf(
        await api.create(configMaps, configMap('watched', { a: '1' }, { labels: { watch: '1' } })),
      );
      object = valueOf(await api.replace(configMaps, { ...object, data: { a: '2' } }));
      valueOf(await api.remove(configMaps, object));
      await watch.until(3);
      assert.deepEqual(watch.seen(), ['ADDED watched', 'MODIFIED watched', 'DELETED watched']);
      const [first, second, third] = watch.events.map(event =>
        'object' in event ? event.object : undefined,
      );
      assert.deepEqual([first?.data, second?.data], [{ a: '1' }, { a: '2' }]);
      assert.deepEqual([second?.apiVersion, second?.kind], ['v1', 'ConfigMap']);
      assert.equal(second?.metadata.resourceVersion, object.metadata.resourceVersion);
      assert.ok(Number(third?.metadata.resourceVersion) > Number(object.metadata.resourceVersion));
      assert.deepEqual(await watch.stop(), { why: 'aborted' });

      const again = watching(configMaps, {
        labelSelector: 'watch=1',
        resourceVersion: first?.metadata.resourceVersion ?? '',
      });
      await again.until(2);
      assert.deepEqual(again.seen(), ['MODIFIED watched', 'DELETED watched']);
      await again.stop();
    });

    test('a watch sees an object enter and leave its selection', async () => {
      const { resourceVersion } = valueOf(await api.list(configMaps, { labelSelector: 'move=in' }));
      const watch = watching(configMaps, { labelSelector: 'move=in', namespace: A, resourceVersion });
      valueOf(await api.create(configMaps, configMap('moved', {}, { labels: { move: 'out' } })));
      valueOf(await api.create(configMaps, configMap('moved', {}, { labels: { move: 'in' }, namespace: B })));
      for (const move of ['in', 'in', 'out', 'in']) {
        valueOf(
          await api.merge(configMaps, A, 'moved', { metadata: { labels: { move } }, data: { at: move } }),
        );
      }
      await watch.until(3);
      assert.deepEqual(watch.seen(), ['ADDED moved', 'DELETED moved', 'ADDED moved']);
      await watch.stop();
    });

    test('a watch of what the server has forgotten has expired', async () => {
      const created = valueOf(await api.create(configMaps, configMap('forgotten', {})));
      valueOf(await api.merge(configMaps, A, 'forgotten', { data: { a: '1' } }));
      await subject.forget();
      const watch = watching(configMaps, { resourceVersion: '1' });
      const end = await watch.end;
      assert.deepEqual([end.why, 'fault' in end && end.fault.status], ['expired', 410]);
      assert.ok(created.metadata.resourceVersion);
    });

    test('what is not served is a fault, 404, for every call', async () => {
      const things: Resource<KubeObject> = resource('absent.causeway.dev/v1', 'things', 'Thing');
      const object = {
        apiVersion: 'absent.causeway.dev/v1',
        kind: 'Thing',
        metadata: { name: 'a', namespace: A },
      };
      const end = await watching(things, { resourceVersion: '1' }).end;
      assert.equal('fault' in end && end.fault.status, 404);
      for (const answer of [
        await api.get(things, A, 'a'),
        await api.list(things, {}),
        await api.create(things, object),
        await api.apply(things, object),
        await api.merge(things, A, 'a', {}),
        await api.discover('absent.causeway.dev'),
        await api.list({ ...widgets, version: 'v7' }, {}),
      ]) {
        assert.equal(faultOf(answer).status, 404);
      }
    });

    test('apply makes an object, changes nothing when repeated, and removes what it no longer states', async () => {
      const applied = valueOf(await api.apply(configMaps, configMap('applied', { a: '1', b: '1' })));
      assert.equal(applied.metadata.managedFields?.[0].manager, 'causeway');
      const again = valueOf(await api.apply(configMaps, configMap('applied', { b: '1', a: '1' })));
      assert.equal(again.metadata.resourceVersion, applied.metadata.resourceVersion);
      const fewer = valueOf(await api.apply(configMaps, configMap('applied', { b: '2' })));
      assert.deepEqual(fewer.data, { b: '2' });
    });

    test("apply leaves others' fields alone, and takes them over by force only", async () => {
      await subject.applyAs('other', configMaps, configMap('shared', { theirs: '1', both: '1' }));
      const shared = valueOf(await api.apply(configMaps, configMap('shared', { ours: '1', both: '1' })));
      assert.deepEqual(shared.data, { theirs: '1', both: '1', ours: '1' });
      const conflict = faultOf(await api.apply(configMaps, configMap('shared', { ours: '2', theirs: '2' })));
      assert.deepEqual([conflict.status, conflict.reason], [409, 'Conflict']);
      assert.match(conflict.message, /other/);
      assert.deepEqual(valueOf(await api.get(configMaps, A, 'shared')).data, shared.data);
      const forced = valueOf(
        await api.apply(configMaps, configMap('shared', { ours: '2', theirs: '2' }), { force: true }),
      );
      // Both owned `both`: it stays with the other.
      assert.deepEqual(forced.data, { theirs: '2', both: '1', ours: '2' });
      await assert.rejects(
        subject.applyAs('other', configMaps, configMap('shared', { theirs: '3', both: '1' })),
      );
      const left = valueOf(await api.apply(configMaps, configMap('shared', {})));
      assert.deepEqual(left.data, { both: '1' });
    });

    test('apply is refused where the object is not the one, or not at the version, that is named', async () => {
      const named = (uid: string, resourceVersion?: string) => {
        const { metadata, ...rest } = configMap('precise', { a: '2' });
        return { ...rest, metadata: { ...metadata, uid, ...(resourceVersion && { resourceVersion }) } };
      };
      const force = { force: true };
      const none = faultOf(await api.apply(configMaps, named('00000000-0000-0000-0000-000000000000'), force));
      assert.equal(none.status, 409);
      const { metadata } = valueOf(await api.apply(configMaps, configMap('precise', { a: '1' })));
      const [uid, version] = [metadata.uid as string, metadata.resourceVersion as string];
      const changed = valueOf(await api.apply(configMaps, named(uid, version), force));
      assert.equal(changed.metadata.uid, uid);
      assert.equal(faultOf(await api.apply(configMaps, named(uid, version), force)).status, 409);
      valueOf(await api.remove(configMaps, changed));
      assert.equal(faultOf(await api.apply(configMaps, named(uid), force)).status, 409);
    });

    test('what was created without apply is in conflict with apply', async () => {
      valueOf(await api.create(configMaps, configMap('mine', { a: '1' })));
      assert.equal(faultOf(await api.apply(configMaps, configMap('mine', { a: '2' }))).status, 409);
    });

    test('patch does all of its operations or none', async () => {
      const path = '/metadata/resourceVersion';
      const spec = { names: ['a'] };
      const created = valueOf(await api.create(widgets, widget('patched', spec)));
      const version = created.metadata.resourceVersion;
      const patched = valueOf(
        await api.patch(widgets, A, 'patched', [
          { op: 'test', path, value: version },
          { op: 'add', path: '/spec/names/-', value: 'c' },
          { op: 'add', path: '/spec/names/1', value: 'b' },
          // API servers add what is not there; the RFC would have it fail.
          { op: 'replace', path: '/spec/size', value: 3 },
          { op: 'add', path: '/metadata/annotations', value: {} },
          { op: 'add', path: '/metadata/annotations/causeway.dev~1status', value: 'x~y' },
        ]),
      );
      assert.deepEqual(patched.spec, { names: ['a', 'b', 'c'], size: 3 });
      assert.equal(patched.metadata.annotations?.['causeway.dev/status'], 'x~y');
      for (const operation of [
        { op: 'test', path, value: version },
        { op: 'test', path: '/spec/size', value: 4 },
        { op: 'remove', path: '/spec/nothing' },
        { op: 'add', path: '/spec/nothing/inside', value: 1 },
        { op: 'remove', path: '/spec/names/9' },
      ] as const) {
        const remove = { op: 'remove', path: '/spec/size' } as const;
        const answer = await api.patch(widgets, A, 'patched', [remove, operation]);
        assert.equal(faultOf(answer).status, 422, JSON.stringify(operation));
      }
      const same = valueOf(await api.get(widgets, A, 'patched'));
      assert.equal(same.metadata.resourceVersion, patched.metadata.resourceVersion);
      assert.equal(faultOf(await api.patch(widgets, A, 'absent', [])).status, 404);
    });

    test('merge sets, removes with null, and replaces lists', async () => {
      valueOf(await api.create(widgets, widget('merged', { size: 1, names: ['a', 'b'] })));
      const annotations = { a: '1', b: '1' };
      valueOf(await api.merge(widgets, A, 'merged', { metadata: { annotations } }));
      const merged = valueOf(
        await api.merge(widgets, A, 'merged', {
          metadata: { annotations: { a: null, c: '1' } },
          spec: { size: null, names: ['c'] },
        }),
      );
      assert.deepEqual(merged.metadata.annotations, { b: '1', c: '1' });
      assert.deepEqual(merged.spec, { names: ['c'] });
      const stale = await api.merge(widgets, A, 'merged', {
        metadata: { resourceVersion: '1' },
        spec: { size: 2 },
      });
      assert.equal(faultOf(stale).status, 409);
      assert.equal(faultOf(await api.merge(widgets, A, 'absent', {})).status, 404);
    });

    test('status is written as a subresource, and only so', async () => {
      const given = { ...widget('stated', { size: 1 }), status: { ready: true } };
      assert.equal(valueOf(await api.create(widgets, given)).status, undefined);
      const status = { subresource: 'status' } as const;
      const stated = valueOf(
        await api.merge(widgets, A, 'stated', { spec: { size: 2 }, status: { ready: false } }, status),
      );
      assert.deepEqual([stated.spec, stated.status], [{ size: 1 }, { ready: false }]);
      const replace = { op: 'replace', path: '/status/ready', value: true } as const;
      assert.deepEqual(valueOf(await api.patch(widgets, A, 'stated', [replace], status)).status, {
        ready: true,
      });
      const kept = valueOf(
        await api.merge(widgets, A, 'stated', { spec: { size: 3 }, status: { ready: false } }),
      );
      assert.deepEqual([kept.spec, kept.status], [{ size: 3 }, { ready: true }]);
      const { spec: _, ...statusOnly } = { ...widget('stated', {}), status: { ready: false } };
      const applied = valueOf(await api.apply(widgets, statusOnly, { ...status, force: true }));
      assert.deepEqual([applied.spec, applied.status], [{ size: 3 }, { ready: false }]);
      assert.equal(faultOf(await api.merge(configMaps, A, 'one', {}, status)).status, 404);
    });

    test('objects without a namespace are read and written likewise', async () => {
      const role = {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRole',
        metadata: { name: 'contract' },
      };
      const { resourceVersion } = valueOf(await api.list(roles, {}));
      const watch = watching(roles, { resourceVersion, fieldSelector: 'metadata.name=contract' });
      valueOf(await api.apply(roles, role));
      const labels = { a: 'b' };
      valueOf(await api.merge(roles, undefined, 'contract', { metadata: { labels } }));
      assert.deepEqual(valueOf(await api.get(roles, undefined, 'contract')).metadata.labels, labels);
      const { items } = valueOf(await api.list(roles, { labelSelector: 'a=b' }));
      assert.deepEqual(
        items.map(({ metadata }) => metadata.name),
        ['contract'],
      );
      valueOf(await api.remove(roles, role));
      await watch.until(3);
      assert.deepEqual(watch.seen(), ['ADDED contract', 'MODIFIED contract', 'DELETED contract']);
      await watch.stop();
    });

    test('discovery tells the versions of a group, the preferred one first, and their resources', async () => {
      const core = valueOf(await api.discover(services.group));
      const service = core.versions[0].resources.find(({ plural }) => plural === 'services');
      assert.deepEqual([service?.kind, service?.namespaced], ['Service', true]);
      assert.ok(!core.versions[0].resources.some(({ plural }) => plural.includes('/')));
      // It is told a moment after the resource is served.
      const custom = async () => {
        const group = await api.discover(widgets.group);
        return group.ok ? group.value.versions : [];
      };
      await eventually(async () => (await custom()).length === 2);
      const [preferred, older] = await custom();
      assert.deepEqual([preferred.version, older.version], ['v1', 'v1beta1']);
      const [{ verbs, ...found }] = preferred.resources;
      assert.deepEqual(found, { plural: 'widgets', kind: 'Widget', namespaced: true });
      assert.deepEqual(verbs.toSorted(), [
        'create',
        'delete',
        'deletecollection',
        'get',
        'list',
        'patch',
        'update',
        'watch',
      ]);
    });

    test('an object is the same in every version that is served', async () => {
      valueOf(await api.create(widgets, widget('versions', { size: 1 })));
      const older = valueOf(await api.get({ ...widgets, version: 'v1beta1' }, A, 'versions'));
      assert.equal(older.apiVersion, 'contract.causeway.dev/v1beta1');
      assert.deepEqual(older.spec, { size: 1 });
    });

    test('when a definition is deleted, watchers see its objects deleted before it is gone', async () => {
      const doomed = {
        ...widgetDefinition,
        metadata: { name: 'doomed.contract.causeway.dev' },
        spec: {
          ...widgetDefinition.spec,
          names: { plural: 'doomed', singular: 'doom', kind: 'Doom', listKind: 'DoomList' },
        },
      };
      const dooms: Resource<KubeObject> = { ...widgets, plural: 'doomed', kind: 'Doom' };
      const definition = valueOf(await api.create(customResourceDefinitions, doomed));
      await eventually(async () => (await api.list(dooms, {})).ok);
      const { resourceVersion } = valueOf(await api.list(dooms, {}));
      const watch = watching(dooms, { resourceVersion });
      for (const name of ['a', 'b']) {
        const object = {
          apiVersion: 'contract.causeway.dev/v1',
          kind: 'Doom',
          metadata: { name, namespace: A },
        };
        valueOf(await api.create(dooms, object));
      }
      // A watch that arrived after the definition was deleted would be answered with 404.
      await watch.until(2);
      const { name, uid = '' } = definition.metadata;
      valueOf(await api.remove(customResourceDefinitions, { ...definition, metadata: { name, uid } }));
      await watch.until(4);
      assert.deepEqual(new Set(watch.seen().slice(2)), new Set(['DELETED a', 'DELETED b']));
      const after = await api.get(customResourceDefinitions, undefined, name);
      assert.ok(!after.ok || after.value.metadata.deletionTimestamp !== undefined);
      await eventually(async () => !(await api.list(dooms, {})).ok);
      assert.equal(faultOf(await api.list(dooms, {})).status, 404);
      await watch.stop();
    });
  });
}

const schema = {
  openAPIV3Schema: {
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          size: { type: 'integer' },
          names: { type: 'array', items: { type: 'string' } },
        },
      },
      status: { type: 'object', properties: { ready: { type: 'boolean' } } },
    },
  },
};

const widgetDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.contract.causeway.dev' },
  spec: {
    group: 'contract.causeway.dev',
    scope: 'Namespaced',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
    versions: ['v1beta1', 'v1'].map(name => ({
      name,
      served: true,
      storage: name === 'v1',
      schema,
      subresources: { status: {} },
    })),
  },
};

function configMap(
  name: string,
  data: Readonly<Record<string, string>>,
  { namespace = A, labels }: { namespace?: string; labels?: Record<string, string> } = {},
): ConfigMap {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace, ...(labels && { labels }) },
    data,
  };
}

function widget(name: string, spec: NonNullable<Widget['spec']>): Widget {
  return { apiVersion: 'contract.causeway.dev/v1', kind: 'Widget', metadata: { name, namespace: A }, spec };
}

function nameOf(event: WatchEvent<KubeObject>): string {
  return 'object' in event ? event.object.metadata.name : '';
}

function valueOf<T>(answer: Answer<T>): T {
  assert.ok(answer.ok, JSON.stringify(answer));
  return answer.value;
}

function faultOf(answer: Answer<unknown>) {
  assert.ok(!answer.ok, JSON.stringify(answer));
  return answer.fault;
}

/** At most for a minute: a loop that outlived its test would keep the whole file from ending. */
async function eventually(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `not within a minute: ${condition}`);
    await setTimeout(20);
  }
}
