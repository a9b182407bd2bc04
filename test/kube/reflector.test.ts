// Reflectors against real API servers: definitions that come and go, servers that are killed, connections that are cut,
// history that is compacted, permissions that are missing, and 10,000 objects.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { type Clock, systemClock } from '../../src/kube/clock.ts';
import type { KubeApi } from '../../src/kube/kube-api.ts';
import { type KubeClientOptions, openKubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { openReflector, type Reflector } from '../../src/kube/reflector.ts';
import { customResourceDefinitions, type Resource, resource } from '../../src/kube/resources.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { startEtcd } from '../../testbed/start-etcd.ts';
import { startTcpProxy } from '../../testbed/start-tcp-proxy.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const options = { skip, timeout: 300_000 };

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const configMaps: Resource<ConfigMap> = resource('v1', 'configmaps', 'ConfigMap');
const namespaces: Resource<KubeObject> = resource('v1', 'namespaces', 'Namespace');
const widgets: Resource<KubeObject> = resource('test.causeway.dev/v1', 'widgets', 'Widget');
const DEFINITION = 'widgets.test.causeway.dev';

const SPEED = 50;
const fastClock: Clock = {
  ...systemClock,
  now: () => systemClock.now() * SPEED,
  wait: (ms, signal) => systemClock.wait(ms / SPEED, signal),
};

async function client(server: ApiServer, options: Partial<KubeClientOptions> = {}) {
  const access = await openKubeAccess({ kubeconfig: await server.kubeconfig() });
  return openKubeClient({ access, timeoutMs: 60_000, ...options });
}

function configMap(
  name: string,
  data: Readonly<Record<string, string>> = {},
  namespace = 'default',
): ConfigMap {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace, labels: { test: 'yes' } },
    data,
  };
}

function widget(name: string): KubeObject {
  return { apiVersion: 'test.causeway.dev/v1', kind: 'Widget', metadata: { name, namespace: 'default' } };
}

function definition(...versions: readonly string[]) {
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: DEFINITION },
    spec: {
      group: widgets.group,
      scope: 'Namespaced',
      names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
      versions: versions.map((name, i) => ({ name, served: true, storage: i === 0, schema })),
    },
  };
}

async function install(api: KubeApi, ...versions: readonly string[]): Promise<void> {
  await until(async () => (await api.create(customResourceDefinitions, definition(...versions))).ok);
  await until(async () => (await api.list({ ...widgets, version: versions[0] }, {})).ok);
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await setTimeout(10);
}

const names = ({ objects }: Reflector<unknown>) =>
  [...objects.keys()].map(key => key.replace('default/', '')).toSorted();
const isAt = (reflector: Reflector<unknown>, ...expected: readonly string[]) =>
  until(() => names(reflector).join() === expected.join());

test(
  'openReflector() waits for a definition, keeps objects that go with it, and believes the next one',
  options,
  async (t: TestContext) => {
    await using server = await startApiServer();
    using api = await client(server);
    await using reflector = openReflector(
      api,
      widgets,
      { versions: ['v2', 'v1'], clock: fastClock },
      () => {},
    );
    await until(() => reflector.absent);
    assert.match(reflector.error ?? '', /does not serve 'widgets\.test\.causeway\.dev'/);
    await install(api, 'v1', 'v1beta1');
    const all = Array.from({ length: 30 }, (_, i) => `w${i}`).toSorted();
    for (const name of ['gone', ...all]) assert.ok((await api.create(widgets, widget(name))).ok);
    await isAt(reflector, 'gone', ...all);
    await until(() => reflector.error === undefined);
    assert.deepEqual([reflector.synced, reflector.absent], [true, false]);
    const began = performance.now();
    assert.ok((await api.remove(widgets, widget('gone'))).ok);
    await isAt(reflector, ...all);
    t.diagnostic(`a deletion was believed after ${Math.round(performance.now() - began)} ms`);

    for (const next of ['a', 'b']) {
      const before = names(reflector);
      assert.ok((await api.remove(customResourceDefinitions, definition('v1'))).ok);
      await until(async () => !(await api.list(widgets, {})).ok && reflector.absent);
      await until(() => /does not serve/.test(reflector.error ?? ''));
      assert.deepEqual(names(reflector), before);
      await install(api, 'v1');
      assert.ok((await api.create(widgets, widget(next))).ok);
      await isAt(reflector, next);
      await until(() => reflector.error === undefined);
      assert.equal(reflector.absent, false);
    }
  },
);

test(
  'openReflector() keeps objects while the deletion of their definition waits for a finalizer',
  options,
  async () => {
    await using server = await startApiServer();
    using api = await client(server);
    await install(api, 'v1');
    const held = widget('held');
    const metadata = { ...held.metadata, finalizers: ['test.causeway.dev/hold'] };
    assert.ok((await api.create(widgets, { ...held, metadata })).ok);
    assert.ok((await api.create(widgets, widget('free'))).ok);
    await using reflector = openReflector(api, widgets, { clock: fastClock }, () => {});
    await isAt(reflector, 'free', 'held');
    assert.ok((await api.remove(customResourceDefinitions, definition('v1'))).ok);
    await until(() => /is being deleted/.test(reflector.error ?? ''));
    // A reflector that starts now sees what is left.
    await using late = openReflector(api, widgets, { clock: fastClock }, () => {});
    await isAt(late, 'held');
    assert.deepEqual([late.absent, names(reflector)], [true, ['free', 'held']]);
    assert.ok((await api.merge(widgets, 'default', 'held', { metadata: { finalizers: null } })).ok);
    await until(() => /does not serve/.test(reflector.error ?? ''));
    assert.deepEqual(names(reflector), ['free', 'held']);
  },
);

test(
  'openReflector() tells the deletion of a definition by discovery where it may not read it',
  options,
  async () => {
    await using server = await startApiServer();
    using admin = await client(server);
    await install(admin, 'v1');
    for (const name of ['a', 'b']) assert.ok((await admin.create(widgets, widget(name))).ok);
    const rules = [{ apiGroups: [widgets.group], resources: ['widgets'], verbs: ['get', 'list', 'watch'] }];
    using api = openKubeClient({ access: await userAccess(server, 'reader') });
    await using reflector = openReflector(api, widgets, {}, () => {});
    await until(() => /403 Forbidden.*widgets/.test(reflector.error ?? ''));
    assert.equal(reflector.synced, false);
    await grant(server, 'reader', rules);
    await isAt(reflector, 'a', 'b');
    await until(() => reflector.error === undefined);
    assert.ok((await admin.remove(widgets, widget('a'))).ok);
    await isAt(reflector, 'b');
    assert.ok((await admin.remove(customResourceDefinitions, definition('v1'))).ok);
    await until(() => reflector.absent);
    assert.deepEqual(names(reflector), ['b']);
  },
);

test('openReflector() keeps its objects while the API server is away, and catches up', options, async () => {
  await using store = await startEtcd();
  await using first = await startApiServer({ store });
  await using proxy = await startTcpProxy(first.port);
  using api = await client(first, { at: { host: '127.0.0.1', port: proxy.port }, timeoutMs: 10_000 });
  const selection = { labelSelector: 'test=yes', clock: fastClock };
  await using reflector = openReflector(api, configMaps, selection, () => {});
  for (const name of ['a', 'b', 'c']) assert.ok((await api.create(configMaps, configMap(name))).ok);
  await isAt(reflector, 'a', 'b', 'c');
  const a = reflector.objects.get('default/a');

  await first.stop();
  await until(() => reflector.error !== undefined);
  assert.match(reflector.error ?? '', /^(Unreachable|Timeout)/);
  await using second = await startApiServer({ store, authority: first.authority });
  using other = await client(second);
  assert.ok((await other.remove(configMaps, configMap('b'))).ok);
  assert.ok((await other.merge(configMaps, 'default', 'c', { data: { x: '2' } })).ok);
  assert.ok((await other.create(configMaps, configMap('d'))).ok);
  assert.deepEqual(names(reflector), ['a', 'b', 'c']);
  proxy.connectTo(second.port);
  await isAt(reflector, 'a', 'c', 'd');
  await until(() => reflector.error === undefined);
  assert.deepEqual(reflector.objects.get('default/c')?.data, { x: '2' });
  assert.equal(reflector.objects.get('default/a'), a);
});

test(
  'openReflector() misses nothing while its connections are cut every half second and history is compacted',
  options,
  async () => {
    await using store = await startEtcd();
    await using server = await startApiServer({ store });
    await using proxy = await startTcpProxy(server.port);
    using direct = await client(server);
    using api = await client(server, { at: { host: '127.0.0.1', port: proxy.port } });
    const seen = new Set<string>();
    await using reflector = openReflector(
      api,
      configMaps,
      { labelSelector: 'test=yes', clock: fastClock },
      () => {
        for (const name of names(reflector)) seen.add(name);
      },
    );
    await until(() => reflector.synced);
    for (let i = 0; i < 40; i++) {
      assert.ok((await direct.create(configMaps, configMap(`c${i}`))).ok);
      if (i % 5 === 4) assert.ok((await direct.remove(configMaps, configMap(`c${i - 2}`))).ok);
      if (i % 4 === 0) proxy.cut();
      await setTimeout(100);
      if (i === 20) await store.compact();
    }
    const left = Array.from({ length: 40 }, (_, i) => i).filter(i => i % 5 !== 2);
    await isAt(reflector, ...left.map(i => `c${i}`).toSorted());
    await until(() => reflector.error === undefined);
    assert.ok(proxy.connections() > 8, `${proxy.connections()} connections`);
  },
);

test('openReflector() lists 10,000 objects and follows one change', options, async (t: TestContext) => {
  await using server = await startApiServer();
  using api = await client(server);
  const count = 10_000;
  const bulk = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'bulk' } };
  assert.ok((await api.create(namespaces, bulk)).ok);
  const data = { text: 'x'.repeat(2000) };
  const create = async (from: number) => {
    for (let i = from; i < count; i += 8) {
      const created = await api.create(configMaps, configMap(`c${i}`, { ...data, i: String(i) }, 'bulk'));
      assert.ok(created.ok, JSON.stringify(created));
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, i) => create(i)));
  const before = process.memoryUsage().rss;
  const began = performance.now();
  const keep = ({ metadata, data }: ConfigMap) => ({ uid: metadata.uid, i: data?.i });
  await using reflector = openReflector(api, configMaps, { namespaces: ['bulk'], keep }, () => {});
  await until(() => reflector.synced);
  const listed = performance.now();
  assert.equal(reflector.objects.size, count);
  const memory = Math.round((process.memoryUsage().rss - before) / 2 ** 20);
  assert.ok((await api.merge(configMaps, 'bulk', 'c77', { data: { i: 'new' } })).ok);
  const changed = performance.now();
  await until(() => reflector.objects.get('bulk/c77')?.i === 'new');
  t.diagnostic(
    `${count} objects: listed in ${Math.round(listed - began)} ms with ${memory} MiB; a change ${Math.round(performance.now() - changed)} ms after its answer`,
  );
});

async function userAccess(server: ApiServer, user: string) {
  const certificate = await server.authority.clientCertificate({ user });
  const [ca, cert, key] = await Promise.all(
    [server.caFile, certificate.certFile, certificate.keyFile].map(file => readFile(file)),
  );
  const { host, port } = server;
  const credentials = { server: { host, port }, serverName: host, basePath: '', ca, cert, key, headers: {} };
  return { credentials: async () => credentials };
}

async function grant(server: ApiServer, user: string, rules: readonly object[]): Promise<void> {
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  await server.apply(
    { apiVersion, kind: 'ClusterRole', metadata: { name: user }, rules },
    {
      apiVersion,
      kind: 'ClusterRoleBinding',
      metadata: { name: user },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: user },
      subjects: [{ kind: 'User', name: user, apiGroup: 'rbac.authorization.k8s.io' }],
    },
  );
}
