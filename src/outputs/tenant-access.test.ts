import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authorityOf } from '../../testbed/certificates.ts';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { KubeAccess } from '../kube/kube-access.ts';
import { type Answer, failed, type KubeApi, type KubeFault } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { openReflector } from '../kube/reflector.ts';
import { resource, services } from '../kube/resources.ts';
import { secrets } from '../kube/tenant-credentials.ts';
import { openServingCertificates } from './serving-certificates.ts';
import { openTenantAccess } from './tenant-access.ts';
import { sampleAgentContext, sampleAgentOptions, sampleTenant } from './tenant-agent.samples.ts';
import { tenantAgentObjects, tenantAgentResources } from './tenant-agent-objects.ts';
import { openObjectWriter } from './write-objects.ts';

function kubeconfig(token: string): string {
  return JSON.stringify({
    clusters: [{ name: 'x', cluster: { server: 'https://192.0.2.1:6443' } }],
    users: [{ name: 'x', user: { token } }],
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
    'current-context': 'x',
  });
}

function secret(name: string, data: Record<string, string>) {
  const encoded = Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: 'tenants' },
    data: Object.fromEntries(encoded),
  };
}

function tenant(name: string): Cluster {
  const { controlPlane, ...rest } = sampleTenant();
  const kubeconfig = {
    namespace: 'tenants',
    secret: `${name}-admin-kubeconfig`,
    keys: ['admin.svc', 'admin.conf'],
  };
  return { ...rest, name: `tenants.${name}`, controlPlane: { isPaused: false, ...controlPlane, kubeconfig } };
}

/** A tenant's API server in memory, which is reached with credentials. */
function given(...objects: readonly KubeObject[]) {
  const management = memoryStore(...objects);
  const tenants = memoryStore();
  const clock = testClock();
  const state = {
    fault: undefined as KubeFault | undefined,
    /** Authorization headers of calls that arrived. */
    calls: [] as string[],
    open: 0,
    atOnce: 0,
    mostAtOnce: 0,
    changes: 0,
    gate: async (): Promise<unknown> => undefined,
  };
  const openClient = (access: KubeAccess): KubeApi & Disposable => {
    state.open++;
    const inner = tenants.client();
    const list = async () => {
      let header: string;
      try {
        header = (await access.credentials()).headers.Authorization ?? '';
      } catch (error) {
        return failed(0, 'Credentials', (error as Error).message);
      }
      state.calls.push(header);
      state.mostAtOnce = Math.max(state.mostAtOnce, ++state.atOnce);
      await state.gate();
      state.atOnce--;
      return state.fault === undefined ? undefined : failed(state.fault.status, state.fault.reason, 'x');
    };
    return {
      ...inner,
      list: async (...args) => (await list()) ?? inner.list(...args),
      create: async (...args) => (await list()) ?? inner.create(...args),
      [Symbol.dispose]: () => void state.open--,
    };
  };
  const access = openTenantAccess(
    { management: () => management.client(), clock, random: () => 1, openClient },
    () => state.changes++,
  );
  const ask = (name: string): Promise<Answer<unknown>> => {
    const api = access.apiOf(`tenants.${name}`);
    assert.ok(api);
    return api.list(services, {});
  };
  const problems = () => access.findings.map(({ cluster, code }) => `${cluster} ${code}`);
  const rotate = async (name: string, data: Record<string, string>) => {
    const object = secret(`${name}-admin-kubeconfig`, data);
    assert.ok((await management.client().replace(secrets, object)).ok);
  };
  return { management, tenants, clock, state, access, ask, problems, rotate };
}

const admin = secret('a-admin-kubeconfig', {
  'admin.conf': kubeconfig('conf'),
  'admin.svc': kubeconfig('svc'),
});

test('openTenantAccess() uses admin.svc, else admin.conf', async () => {
  const { access, ask, state } = given(
    admin,
    secret('b-admin-kubeconfig', { 'admin.conf': kubeconfig('conf') }),
  );
  access.update([tenant('a'), tenant('b')]);
  assert.ok((await ask('a')).ok);
  assert.ok((await ask('b')).ok);
  assert.deepEqual(state.calls, ['Bearer svc', 'Bearer conf']);
  assert.deepEqual(access.findings, []);
});

test('openTenantAccess() has none for a cluster without an admin kubeconfig, and gives the same one again', () => {
  const { access } = given(admin);
  const { controlPlane: _, ...file } = tenant('file');
  access.update([tenant('a'), file]);
  assert.equal(access.apiOf('tenants.file'), undefined);
  assert.equal(access.apiOf('tenants.other'), undefined);
  const api = access.apiOf('tenants.a');
  access.update([{ ...tenant('a') }]);
  assert.equal(access.apiOf('tenants.a'), api);
});

const broken: readonly [string, Record<string, string> | undefined, string, RegExp][] = [
  ['no Secret', undefined, 'SecretMissing', /tenants\/a-admin-kubeconfig does not exist/],
  [
    'no key',
    { other: 'x', more: 'y' },
    'SecretMissing',
    /no key admin.svc or admin.conf; its keys: other, more/,
  ],
  ['an empty Secret', {}, 'SecretMissing', /its keys: none/],
  ['no YAML', { 'admin.svc': '{' }, 'KubeconfigInvalid', /is not YAML/],
  ['no server', { 'admin.svc': 'a: b' }, 'KubeconfigInvalid', /key admin.svc/],
  ['NUL bytes', { 'admin.svc': '\0\0' }, 'KubeconfigInvalid', /./],
];
for (const [what, data, code, text] of broken) {
  test(`openTenantAccess() finds ${code} with ${what}, and recovers`, async () => {
    const objects = data === undefined ? [] : [secret('a-admin-kubeconfig', data)];
    const { access, ask, problems, management, rotate, clock, state } = given(...objects);
    access.update([tenant('a')]);
    assert.equal((await ask('a')).ok, false);
    assert.deepEqual(problems(), [`tenants.a ${code}`]);
    const [finding] = access.findings;
    assert.match(finding.text, text);
    assert.deepEqual([finding.severity, finding.origin?.object?.name], ['error', 'a']);
    assert.equal(state.changes, 1);
    if (data === undefined) await management.client().create(secrets, admin);
    else await rotate('a', { 'admin.svc': kubeconfig('new') });
    await clock.advance(30_000);
    assert.ok((await ask('a')).ok);
    assert.deepEqual(problems(), []);
    assert.equal(state.changes, 2);
  });
}

test('openTenantAccess() reads the Secret again after a 401, and every five minutes', async () => {
  const { access, ask, problems, rotate, clock, state } = given(admin);
  access.update([tenant('a')]);
  await ask('a');
  await rotate('a', { 'admin.svc': kubeconfig('second') });
  state.fault = { status: 401, reason: 'Unauthorized', message: 'x' };
  await ask('a');
  assert.deepEqual(problems(), ['tenants.a KubeconfigInvalid']);
  state.fault = undefined;
  await clock.advance(10_000);
  await ask('a');
  assert.deepEqual(problems(), []);
  await rotate('a', { 'admin.svc': kubeconfig('third') });
  await clock.advance(299_000);
  await ask('a');
  await clock.advance(1000);
  await ask('a');
  assert.deepEqual(state.calls, [
    'Bearer svc',
    'Bearer svc',
    'Bearer second',
    'Bearer second',
    'Bearer third',
  ]);
});

test('openTenantAccess() keeps credentials while the management cluster fails, not when the Secret is deleted', async () => {
  const { access, ask, problems, management, clock, state } = given(admin);
  access.update([tenant('a')]);
  await ask('a');
  management.fault = () => ({ status: 0, reason: 'Unreachable', message: 'x' });
  await clock.advance(300_000);
  assert.ok((await ask('a')).ok);
  assert.deepEqual(problems(), []);
  management.fault = () => ({ status: 403, reason: 'Forbidden', message: 'x' });
  await clock.advance(300_000);
  assert.ok((await ask('a')).ok);
  assert.deepEqual(problems(), ['tenants.a SecretMissing']);
  management.fault = undefined;
  await management.client().remove(secrets, admin);
  await clock.advance(300_000);
  assert.equal((await ask('a')).ok, false);
  assert.equal(state.calls.length, 3);
});

test('openTenantAccess() asks a tenant that does not answer ever more rarely, and others as ever', async () => {
  const { access, ask, problems, clock, state } = given(
    admin,
    secret('b-admin-kubeconfig', { 'admin.svc': kubeconfig('b') }),
  );
  access.update([tenant('a'), tenant('b')]);
  state.fault = { status: 0, reason: 'Timeout', message: 'x' };
  for (let i = 0; i < 1200; i++) {
    assert.equal((await ask('a')).ok, false);
    await clock.advance(1000);
  }
  // After 5, 10, 20, 40, 80, 160 s, then every 300 s.
  assert.equal(state.calls.length, 9);
  assert.deepEqual(problems(), ['tenants.a TenantUnreachable']);
  state.fault = undefined;
  assert.ok((await ask('b')).ok);
  await clock.advance(300_000);
  assert.ok((await ask('a')).ok);
  assert.deepEqual(problems(), []);
});

test('openTenantAccess() keeps to the fault of a call where the tenant does answer', async () => {
  const { access, ask, problems, state } = given(admin);
  access.update([tenant('a')]);
  state.fault = { status: 403, reason: 'Forbidden', message: 'x' };
  assert.equal((await ask('a')).ok, false);
  assert.equal((await ask('a')).ok, false);
  assert.equal(state.calls.length, 2);
  assert.deepEqual(problems(), []);
});

test('openTenantAccess() has one call to a tenant under way, so that one connection does', async () => {
  const { access, ask, state } = given(admin);
  access.update([tenant('a')]);
  const { promise, resolve } = Promise.withResolvers();
  state.gate = () => promise;
  const all = Array.from({ length: 5 }, () => ask('a'));
  resolve(undefined);
  assert.ok((await Promise.all(all)).every(({ ok }) => ok));
  assert.equal(state.mostAtOnce, 1);
});

test('openTenantAccess() has at most 128 calls to all tenants under way', async () => {
  const names = Array.from({ length: 300 }, (_, i) => `t${i}`);
  const { access, ask, state, clock } = given(
    ...names.map(name => secret(`${name}-admin-kubeconfig`, { 'admin.svc': kubeconfig(name) })),
  );
  access.update(names.map(tenant));
  const { promise, resolve } = Promise.withResolvers();
  state.gate = () => promise;
  const all = names.flatMap(name => [ask(name), ask(name)]);
  await clock.advance(1000);
  assert.equal(state.atOnce, 128);
  resolve(undefined);
  assert.ok((await Promise.all(all)).every(({ ok }) => ok));
  assert.equal(state.mostAtOnce, 128);
});

test('openTenantAccess() does not wait without end behind tenants that hang', async () => {
  const names = Array.from({ length: 129 }, (_, i) => `t${i}`);
  const { access, ask, state, clock } = given(
    ...names.map(name => secret(`${name}-admin-kubeconfig`, { 'admin.svc': kubeconfig(name) })),
  );
  access.update(names.map(tenant));
  const { promise, resolve } = Promise.withResolvers();
  state.gate = () => promise;
  const all = names.map(ask);
  await clock.advance(30_000);
  const last = await (all.at(-1) as Promise<Answer<unknown>>);
  assert.equal(!last.ok && last.fault.reason, 'Timeout');
  // That says nothing about the tenant.
  assert.deepEqual(access.findings, []);
  resolve(undefined);
  await Promise.all(all);
});

test('openTenantAccess() closes the connections of a tenant that is gone or was created again', () => {
  const { access, state } = given(admin);
  access.update([tenant('a'), tenant('b')]);
  assert.equal(state.open, 2);
  access.update([tenant('a')]);
  assert.equal(state.open, 1);
  const before = access.apiOf('tenants.a');
  const { origin, ...rest } = tenant('a');
  const object = origin.object && { ...origin.object, uid: 'new' };
  access.update([{ ...rest, origin: { ...origin, ...(object && { object }) } }]);
  assert.notEqual(access.apiOf('tenants.a'), before);
  assert.equal(state.open, 1);
  access[Symbol.dispose]();
  assert.equal(state.open, 0);
});

test('openTenantAccess() lets a reflector follow a tenant by lists, soon after a write of our own', async () => {
  const { access, clock, state, tenants } = given(admin);
  access.update([tenant('a')]);
  const api = access.apiOf('tenants.a') as KubeApi;
  await using reflector = openReflector(api, services, { clock, random: () => 1 }, () => {});
  await clock.advance(1000);
  assert.ok(reflector.synced);
  const service = (name: string) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
  });
  await api.create(services, service('own'));
  await clock.advance(10_000);
  assert.deepEqual([...reflector.objects.keys()], ['default/own']);
  await tenants.client('other').create(services, service('foreign'));
  await clock.advance(60_000);
  assert.equal(reflector.objects.size, 1);
  const before = state.calls.length;
  await clock.advance(600_000);
  assert.equal(reflector.objects.size, 2);
  assert.ok(state.calls.length - before <= 3, `${state.calls.length - before} calls`);
  assert.equal(reflector.error, undefined);
});

test('a write between a list and the next watch is confirmed soon', async () => {
  const { access, clock } = given(admin);
  access.update([tenant('a')]);
  const api = access.apiOf('tenants.a') as KubeApi;
  const end = new AbortController();
  const options = { resourceVersion: '1', signal: end.signal };
  const configMaps = resource('v1', 'configmaps', 'ConfigMap');
  await api.create(configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'x', namespace: 'kube-system' },
  });
  let ended: string | undefined;
  const watching = api.watch(configMaps, options, () => {}).then(({ why }) => (ended = why));
  await clock.advance(10_000);
  assert.equal(ended, 'expired');
  // Without a write, the next one lasts.
  ended = undefined;
  const next = api.watch(configMaps, options, () => {}).then(({ why }) => (ended = why));
  await clock.advance(60_000);
  assert.equal(ended, undefined);
  end.abort();
  await Promise.all([watching, next]);
});

test('openObjectWriter() installs and removes an agent through it, and writes nothing twice', async () => {
  const { access, clock, state, tenants } = given(admin);
  const { origin, ...rest } = tenant('a');
  // Where the objects of the agent are, too: it must not own them there.
  const object = origin.object && { ...origin.object, namespace: 'kube-system' };
  const cluster = { ...rest, origin: { ...origin, ...(object && { object }) } };
  access.update([cluster]);
  const api = access.apiOf('tenants.a') as KubeApi;
  const lease = { isLeader: () => true };
  const instance = 'causeway-system.causeway';
  await using writer = openObjectWriter(
    { api, instance, lease, known: [], clock, random: () => 1 },
    () => {},
  );
  const { objects = [] } = tenantAgentObjects(cluster, sampleAgentOptions, sampleAgentContext);
  const source = new Set([cluster.origin.source]);
  const guard = { configured: source, complete: source, nonEmpty: source, paused: new Set<string>() };
  writer.write(objects, { ...guard, resources: tenantAgentResources });
  await clock.advance(3_600_000);
  assert.deepEqual(writer.findings(), []);
  assert.equal(tenants.writes.length, objects.length);
  for (const key of tenants.keys()) assert.equal(tenants.peek(key)?.metadata.ownerReferences, undefined, key);
  assert.ok(state.mostAtOnce <= 1);
  writer.write([], { ...guard, resources: tenantAgentResources });
  await clock.advance(60_000);
  assert.deepEqual(tenants.keys(), []);
});

test('openServingCertificates() keeps in step with the Secret, and keeps the last good pair', {
  skip: missingPrograms('openssl'),
}, async () => {
  const clock = testClock();
  const authority = await authorityOf('tenant');
  const pairOf = async (name: string) => {
    const { certFile, keyFile } = await authority.certificateFor(name);
    const { readFile } = await import('node:fs/promises');
    return {
      'apiserver.crt': await readFile(certFile, 'utf8'),
      'apiserver.key': await readFile(keyFile, 'utf8'),
    };
  };
  const [first, second] = [await pairOf('one'), await pairOf('two')];
  const store = memoryStore();
  const api = store.client();
  let changes = 0;
  await using certificates = openServingCertificates(
    { management: () => api, isLeader: () => true, clock },
    () => changes++,
  );
  const place = { namespace: 'tenants', secret: 'a-cert', certKey: 'apiserver.crt', keyKey: 'apiserver.key' };
  const { controlPlane, ...rest } = sampleTenant();
  const cluster = { ...rest, controlPlane: { isPaused: false, ...controlPlane, servingCertificate: place } };
  certificates.update([cluster]);
  await clock.advance(0);
  assert.equal(certificates.certificateOf(cluster), undefined);
  assert.deepEqual(
    certificates.findings.map(({ code, text }) => [code, text]),
    [['SecretMissing', 'Secret tenants/a-cert does not exist']],
  );
  await api.create(secrets, secret('a-cert', first));
  await clock.advance(31_000);
  assert.equal(certificates.certificateOf(cluster)?.cert, first['apiserver.crt']);
  assert.deepEqual(certificates.findings, []);
  await api.replace(secrets, secret('a-cert', { ...second, 'apiserver.key': first['apiserver.key'] }));
  await clock.advance(301_000);
  assert.equal(certificates.certificateOf(cluster)?.cert, first['apiserver.crt']);
  assert.equal(certificates.findings.length, 1);
  await api.replace(secrets, secret('a-cert', second));
  await clock.advance(31_000);
  assert.equal(certificates.certificateOf(cluster)?.cert, second['apiserver.crt']);
  assert.equal(changes, 4);
  certificates.update([]);
  assert.equal(certificates.certificateOf(cluster), undefined);
});
