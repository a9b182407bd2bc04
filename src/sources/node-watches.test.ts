// The nodes of user clusters, as the source of Kubermatic follows them: apps lead to those that can serve.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { nodes } from '../kube/resources.ts';
import { secrets } from '../kube/tenant-credentials.ts';
import {
  type KubermaticWorld,
  kubermaticWorld,
  sampleApiService,
  sampleKubeconfig,
  sampleKubermatic,
  sampleNode,
} from './kubermatic.samples.ts';
import { kubermaticClusters } from './kubermatic-object.ts';
import { keepNode } from './ready-nodes.ts';
import type { SourceContext } from './source.ts';

const MINUTE = 60_000;
const internal = (address: string) => [['InternalIP', address]] as const;
const STATUS = { subresource: 'status' } as const;
const options = { zone: 'apps.example' };

/** User clusters with these ids, whose control planes are complete. */
function given(ids: readonly string[], context: Partial<SourceContext> = {}): KubermaticWorld {
  const objects = ids.flatMap(id => [sampleKubermatic(id), ...sampleApiService(id), sampleKubeconfig(id)]);
  return kubermaticWorld(objects, options, context);
}

function appsOf(world: KubermaticWorld, id = 'abc'): string {
  const routes = world.cluster(id)?.routes.filter(({ kind }) => kind.startsWith('apps-')) ?? [];
  return routes.map(({ hosts, pool }) => `${hosts} → ${pool.backends.map(({ text }) => text)}`).join('; ');
}

const apps = (...addresses: readonly string[]) =>
  [443, 80].map(port => `*.abc.apps.example → ${addresses.map(each => `${each}:${port}`)}`).join('; ');

test('apps lead to the nodes that are Ready and not cordoned, and follow them', async () => {
  await using world = given(['abc']);
  const tenant = memoryStore(
    sampleNode('a', internal('10.1.0.1')),
    sampleNode('b', internal('10.1.0.2'), { ready: 'False' }),
    sampleNode('c', internal('10.1.0.3'), { unschedulable: true }),
  );
  world.tenants.set('abc', tenant);
  const admin = tenant.client('admin');
  await world.clock.advance(0);
  assert.equal(appsOf(world), apps('10.1.0.1'));
  assert.deepEqual(world.codes(), []);
  assert.deepEqual(world.cluster('abc')?.controlPlane?.nodes, ['10.1.0.1']);

  const put = async (node: ReturnType<typeof sampleNode>) => {
    const { name } = node.metadata;
    const spec = { unschedulable: null, ...node.spec };
    assert.ok((await admin.merge(nodes, undefined, name, { spec })).ok);
    assert.ok((await admin.merge(nodes, undefined, name, { status: node.status }, STATUS)).ok);
    await world.clock.advance(0);
  };
  await put(sampleNode('b', internal('10.1.0.2')));
  assert.equal(appsOf(world), apps('10.1.0.1', '10.1.0.2'));
  await put(sampleNode('c', internal('10.1.0.3')));
  await put(sampleNode('a', internal('10.1.0.1'), { unschedulable: true }));
  assert.equal(appsOf(world), apps('10.1.0.2', '10.1.0.3'));
  const fourth = sampleNode('d', internal('10.1.0.4'));
  assert.ok((await admin.create(nodes, fourth)).ok);
  await put(fourth);
  assert.ok((await admin.remove(nodes, { ...sampleNode('b', []), metadata: { name: 'b' } })).ok);
  await world.clock.advance(0);
  assert.equal(appsOf(world), apps('10.1.0.3', '10.1.0.4'));

  const { changes } = world;
  const before = world.cluster('abc');
  assert.ok((await admin.merge(nodes, undefined, 'd', { metadata: { labels: { heartbeat: 'x' } } })).ok);
  await world.clock.advance(0);
  assert.deepEqual(
    [world.changes, world.cluster('abc') === before],
    [changes, true],
    'heartbeats change nothing',
  );
});

test('the last addresses stay while no node can serve, with a finding', async () => {
  await using world = given(['abc']);
  const tenant = memoryStore(sampleNode('a', internal('10.1.0.1')), sampleNode('b', internal('10.1.0.2')));
  world.tenants.set('abc', tenant);
  await world.clock.advance(0);
  const admin = tenant.client('admin');
  for (const name of ['a', 'b']) {
    const status = { conditions: [{ type: 'Ready', status: 'Unknown' }] };
    assert.ok((await admin.merge(nodes, undefined, name, { status }, STATUS)).ok);
    await world.clock.advance(0);
  }
  assert.equal(appsOf(world), apps('10.1.0.2'));
  assert.deepEqual(world.codes(), ['abc NodesNotReady']);
  const [finding] = world.source.observe().findings;
  assert.equal(finding.severity, 'warning');
  assert.match(finding.text, /none of its 2 nodes can serve \(2 not Ready\), so the last addresses/);
  assert.equal(finding.origin?.object?.name, 'abc');
  for (const name of ['a', 'b']) {
    assert.ok((await admin.remove(nodes, { ...sampleNode(name, []), metadata: { name } })).ok);
  }
  await world.clock.advance(0);
  assert.equal(appsOf(world), apps('10.1.0.2'));
  assert.deepEqual(world.codes(), ['abc NodesNotReady']);
});

test('a cluster without nodes has apps without backends, and keeps its hosts', async () => {
  await using world = given(['abc']);
  world.tenants.set('abc', memoryStore());
  await world.clock.advance(0);
  assert.equal(appsOf(world), apps());
  assert.deepEqual(world.codes(), ['abc NodesNotReady']);
  assert.equal(world.source.observe().findings[0].severity, 'error');
});

test('keepNode() takes the ExternalIPs of a node, else its InternalIPs, of both families, and none that leads elsewhere', () => {
  const kept = (...addresses: readonly (readonly [string, string])[]) =>
    keepNode(sampleNode('a', addresses)).addresses;
  const [v4, v6] = [
    ['InternalIP', '10.0.0.1'],
    ['InternalIP', 'FD00::0:1'],
  ] as const;
  assert.deepEqual(kept(v4, v6, ['Hostname', 'a'], ['InternalDNS', 'a.lab']), ['10.0.0.1', 'fd00::1']);
  assert.deepEqual(kept(v4, v6, ['ExternalIP', '192.0.2.1'], ['ExternalIP', '2001:db8::1']), [
    '192.0.2.1',
    '2001:db8::1',
  ]);
  assert.deepEqual(kept(v4, ['ExternalIP', '']), ['10.0.0.1']);
  assert.deepEqual(kept(v4, ['ExternalIP', '127.0.0.1'], ['ExternalIP', '169.254.169.254']), ['10.0.0.1']);
  assert.deepEqual(kept(['InternalIP', '::1'], ['InternalIP', 'a.lab'], ['InternalIP', '10.0.0.256']), []);
  for (const status of [
    undefined,
    null,
    7,
    { conditions: 7, addresses: 7 },
    { conditions: [null], addresses: [7] },
  ]) {
    const node = { ...sampleNode('a', []), status, spec: status } as unknown as ReturnType<typeof sampleNode>;
    assert.deepEqual(keepNode(node).addresses, []);
  }
});

test('a user cluster that cannot be reached fails alone, and is asked ever more rarely', async () => {
  await using world = given(['abc', 'bad']);
  world.tenants.set('abc', memoryStore(sampleNode('a', internal('10.1.0.1'))));
  await world.clock.advance(MINUTE);
  assert.equal(appsOf(world), apps('10.1.0.1'));
  assert.deepEqual(world.codes(), ['bad TenantUnreachable']);
  assert.deepEqual([world.source.observe().complete, world.source.observe().error], [true, undefined]);

  let reads = 0;
  world.seed.gate = async label => void (label === 'get secrets' && reads++);
  await world.clock.advance(60 * MINUTE);
  assert.ok(reads > 0 && reads <= 40, `${reads} reads of Secrets in an hour, for two clusters`);

  world.tenants.set('bad', memoryStore(sampleNode('a', internal('10.2.0.1'))));
  await world.clock.advance(10 * MINUTE);
  assert.deepEqual(world.codes(), []);
  assert.deepEqual(world.cluster('bad')?.controlPlane?.nodes, ['10.2.0.1']);
});

test('nodes stay as they were while a user cluster is away', async () => {
  await using world = given(['abc']);
  const tenant = memoryStore(sampleNode('a', internal('10.1.0.1')));
  world.tenants.set('abc', tenant);
  await world.clock.advance(0);
  world.tenants.delete('abc');
  tenant.cutWatches({ why: 'failed', fault: { status: 0, reason: 'Unreachable', message: 'cut' } });
  await world.clock.advance(MINUTE);
  assert.deepEqual(world.codes(), ['abc TenantUnreachable']);
  assert.equal(world.source.observe().findings[0].severity, 'warning');
  assert.equal(appsOf(world), apps('10.1.0.1'));
});

test('addresses of the last run are served until the nodes have been read', async () => {
  const former = await (async () => {
    await using world = given(['abc']);
    world.tenants.set('abc', memoryStore(sampleNode('a', internal('10.1.0.1'))));
    await world.clock.advance(0);
    return world.source.observe().clusters;
  })();
  await using world = given(['abc'], { former });
  await world.clock.advance(0);
  assert.equal(appsOf(world), apps('10.1.0.1'));
  world.tenants.set('abc', memoryStore(sampleNode('b', internal('10.1.0.2'))));
  await world.clock.advance(MINUTE);
  assert.equal(appsOf(world), apps('10.1.0.2'));
});

test('a kubeconfig that was rotated is used', async () => {
  await using world = given(['abc']);
  const tenant = memoryStore(sampleNode('a', internal('10.1.0.1')));
  world.tenants.set('abc', tenant);
  await world.clock.advance(0);
  assert.deepEqual(world.calls, ['abc admin list', 'abc admin watch']);
  const replace = async (secret: KubeObject) =>
    assert.ok((await world.seed.client('kubermatic').replace(secrets, secret)).ok);
  const refuse = () =>
    tenant.cutWatches({ why: 'failed', fault: { status: 401, reason: 'Unauthorized', message: 'expired' } });

  // Well before it expires: the next watch has the new one.
  await replace(sampleKubeconfig('abc', 'second'));
  await world.clock.advance(6 * MINUTE);
  tenant.cutWatches();
  await world.clock.advance(MINUTE);
  assert.equal(world.calls.at(-1), 'abc second watch');

  // After it was refused.
  await replace(sampleKubeconfig('abc', 'refused'));
  await world.clock.advance(6 * MINUTE);
  refuse();
  await world.clock.advance(MINUTE);
  assert.deepEqual(world.codes(), ['abc KubeconfigInvalid']);
  await replace(sampleKubeconfig('abc', 'third'));
  await world.clock.advance(5 * MINUTE);
  assert.deepEqual(world.codes(), []);
  assert.equal(world.calls.at(-1), 'abc third watch');
  assert.equal(appsOf(world), apps('10.1.0.1'));
});

test('a Secret that is missing, has no key or no kubeconfig is a finding', async () => {
  const [valid, bad] = [sampleKubeconfig('x'), Buffer.from('x').toString('base64')];
  for (const [secret, code] of [
    [undefined, 'SecretMissing'],
    [Object.assign({}, valid, { data: {} }), 'SecretMissing'],
    [Object.assign({}, valid, { data: { kubeconfig: bad } }), 'KubeconfigInvalid'],
  ] as const) {
    const found = secret === undefined ? [] : [secret];
    await using world = kubermaticWorld([sampleKubermatic('x'), ...sampleApiService('x'), ...found], options);
    await world.clock.advance(0);
    assert.deepEqual(world.codes(), [`x ${code}`]);
  }
});

test('nodes are followed only where apps or DNS need them, and no longer than their cluster exists', async () => {
  for (const [zone, wantsNodes, clients] of [
    [undefined, false, 0],
    [undefined, true, 1],
    ['apps.example', false, 1],
  ] as const) {
    const objects = [sampleKubermatic('abc'), ...sampleApiService('abc'), sampleKubeconfig('abc')];
    await using world = kubermaticWorld(objects, { ...(zone && { zone }) }, { wantsNodes });
    world.tenants.set('abc', memoryStore(sampleNode('a', internal('10.1.0.1'))));
    await world.clock.advance(0);
    assert.equal(world.clients, clients);
    assert.equal(world.cluster('abc')?.routes.length, zone === undefined ? 1 : 3);
    assert.deepEqual(world.cluster('abc')?.controlPlane?.nodes, clients === 0 ? undefined : ['10.1.0.1']);
    const cluster = { ...sampleKubermatic('abc'), metadata: { name: 'abc' } };
    assert.ok((await world.seed.client('x').remove(kubermaticClusters, cluster)).ok);
    await world.clock.advance(MINUTE);
    assert.equal(world.clients, 0);
  }
});

test('a user cluster with an absurd number of nodes keeps its last addresses', async () => {
  await using world = given(['abc']);
  const tenant = memoryStore(sampleNode('a', internal('10.1.0.1')));
  world.tenants.set('abc', tenant);
  await world.clock.advance(0);
  const many = Array.from({ length: 20_001 }, (_, i) => sampleNode(`n${i}`, internal('10.9.0.1')));
  world.tenants.set('abc', memoryStore(...many));
  tenant.forget();
  tenant.cutWatches({ why: 'expired', fault: { status: 410, reason: 'Expired', message: 'x' } });
  await world.clock.advance(MINUTE);
  assert.deepEqual(world.codes(), ['abc TenantUnreachable']);
  assert.match(world.source.observe().findings[0].text, /more than 20000 nodes/);
  assert.equal(appsOf(world), apps('10.1.0.1'));
});
