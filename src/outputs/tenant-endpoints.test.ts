import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kubernetesService, type MemoryStore, memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import { addressesOf } from '../kube/desired-endpoints.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { EndpointSlice, Endpoints, KubeObject } from '../kube/kube-object.ts';
import { endpointSlices, endpoints } from '../kube/resources.ts';
import { endpointsOfPods, type Pod, pods } from './agent-endpoints.ts';
import { sampleTenant } from './tenant-agent.samples.ts';
import { openTenantEndpoints } from './tenant-endpoints.ts';

function pod(name: string, ips: readonly string[], phase = 'Running'): Pod {
  const labels = { 'app.kubernetes.io/name': 'causeway-agent' };
  const podIPs = ips.map(ip => ({ ip }));
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'kube-system', labels },
    status: { phase, podIPs, ...(ips[0] && { podIP: ips[0] }) },
  };
}

/** As a kubelet does: the status is written apart. */
async function start(store: MemoryStore, started: Pod): Promise<void> {
  const { name, namespace } = started.metadata;
  const kubelet = store.client('kubelet');
  assert.ok((await kubelet.create(pods, started)).ok);
  const { status } = started;
  assert.ok((await kubelet.merge(pods, namespace, name, { status }, { subresource: 'status' })).ok);
}

function given(address: string, ...objects: readonly KubeObject[]) {
  const store = memoryStore(kubernetesService('10.96.0.1'), ...objects);
  const clock = testClock();
  const lead = { is: true };
  // The same client each time, as TenantAccess has it.
  const client = store.client();
  const open = (api = client) =>
    openTenantEndpoints(
      { address, apiOf: () => api, isLeader: () => lead.is, log: () => {}, clock, random: () => 1 },
      () => {},
    );
  const slice = () => store.peek<EndpointSlice>('EndpointSlice/default/kubernetes');
  const addresses = () => addressesOf(slice() as EndpointSlice);
  return { store, clock, lead, open, slice, addresses };
}

test('endpointsOfPods() takes Pods that run and have an address, of both families, and no others', () => {
  const leaving = pod('e', ['10.0.0.5']);
  const all = [
    pod('a', ['10.0.0.2', '2001:db8::2']),
    pod('b', ['10.0.0.1']),
    pod('c', ['10.0.0.3'], 'Pending'),
    pod('d', []),
    { ...leaving, metadata: { ...leaving.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } },
    pod('f', ['127.0.0.1', 'nonsense', '169.254.0.1']),
    { ...pod('g', []), status: { phase: 'Running', podIP: '10.0.0.7' } },
  ];
  assert.deepEqual(
    endpointsOfPods(all).map(({ address, port }) => `${address} ${port}`),
    ['10.0.0.1 6443', '10.0.0.2 6443', '10.0.0.7 6443', '2001:db8::2 6443'],
  );
});

test('openTenantEndpoints() follows the agents of a tenant', async () => {
  const { store, clock, open, addresses } = given('agents', pod('a', ['10.0.0.1']), pod('b', ['10.0.0.2']));
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(0);
  assert.deepEqual(addresses(), ['10.0.0.1', '10.0.0.2']);
  const written = store.peek<Endpoints>('Endpoints/default/kubernetes') as Endpoints;
  assert.deepEqual(addressesOf(written), ['10.0.0.1', '10.0.0.2']);
  await store.client('kubelet').remove(pods, pod('a', []));
  await start(store, pod('c', ['10.0.0.3']));
  await clock.advance(31_000);
  assert.deepEqual(addresses(), ['10.0.0.2', '10.0.0.3']);
});

test('openTenantEndpoints() looks often while the agents change, and rarely otherwise', async () => {
  const { store, clock, open, addresses } = given('agents', pod('a', ['10.0.0.1']));
  let lists = 0;
  store.gate = async label => {
    if (label.startsWith('list pods') && !label.endsWith('answered')) lists++;
  };
  await using output = open();
  output.update([sampleTenant()]);
  // After 2, 4, 8 and 16 s, then every 30 s.
  await clock.advance(30_500);
  assert.equal(lists, 5);
  await clock.advance(600_000);
  assert.equal(lists, 25);
  await start(store, pod('b', ['10.0.0.2']));
  await clock.advance(31_000);
  assert.deepEqual(addresses(), ['10.0.0.1', '10.0.0.2']);
  await start(store, pod('c', ['10.0.0.3']));
  await clock.advance(9000);
  assert.deepEqual(addresses(), ['10.0.0.1', '10.0.0.2', '10.0.0.3']);
});

test('openTenantEndpoints() looks at once where changes are expected, and soon again', async () => {
  const { store, clock, open, addresses } = given('agents', pod('a', ['10.0.0.1']));
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(600_000);
  output.expectChanges();
  await clock.advance(0);
  await start(store, pod('b', ['10.0.0.2']));
  await clock.advance(2500);
  assert.deepEqual(addresses(), ['10.0.0.1', '10.0.0.2']);
});

test('openTenantEndpoints() sees a slow agent before a roll-out goes on', async () => {
  const { store, clock, open, addresses } = given(
    'agents',
    pod('a', ['10.0.0.1']),
    pod('b', ['10.0.0.2'], 'Pending'),
  );
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(600_000);
  assert.deepEqual(addresses(), ['10.0.0.1']);
  const { status } = pod('b', ['10.0.0.2']);
  await store.client('kubelet').merge(pods, 'kube-system', 'b', { status }, { subresource: 'status' });
  await clock.advance(9000);
  assert.deepEqual(addresses(), ['10.0.0.1', '10.0.0.2']);
});

test('openTenantEndpoints() looks at every tenant, however many change all the time', async () => {
  const store = memoryStore(kubernetesService('10.96.0.1'));
  const clock = testClock();
  const looks = new Map<string, number>();
  const apis = new Map<string, KubeApi>();
  const tenants = Array.from({ length: 600 }, (_, i) => ({ ...sampleTenant(), name: `tenants.${i}` }));
  for (const { name } of tenants) {
    const list = async () => {
      const count = (looks.get(name) ?? 0) + 1;
      looks.set(name, count);
      // Another address each time, of a family that the Service does not have: nothing is written.
      return { ok: true, value: { items: [pod('a', [`2001:db8::${count}`])], resourceVersion: '1' } };
    };
    apis.set(name, { ...store.client(), list: list as unknown as KubeApi['list'] });
  }
  const options = { address: 'agents', isLeader: () => true, log: () => {}, clock, random: () => 1 };
  await using output = openTenantEndpoints({ ...options, apiOf: name => apis.get(name) }, () => {});
  output.update(tenants);
  await clock.advance(10_000);
  assert.equal(looks.size, tenants.length);
  assert.ok(Math.min(...looks.values()) >= 3);
});

test('openTenantEndpoints() keeps the last endpoints while no agent runs, and says so', async () => {
  const { store, clock, open, addresses } = given('agents', pod('a', ['10.0.0.1']));
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(0);
  await store.client('kubelet').remove(pods, pod('a', []));
  await clock.advance(31_000);
  assert.deepEqual(addresses(), ['10.0.0.1']);
  assert.deepEqual(
    output.findings.map(({ code, cluster }) => [code, cluster]),
    [['NoEndpoints', 'tenants.a']],
  );
  await start(store, pod('b', ['10.0.0.2']));
  await clock.advance(31_000);
  assert.deepEqual([addresses(), output.findings], [['10.0.0.2'], []]);
  // Gone and back, the same, long after the last write.
  await clock.advance(120_000);
  await store.client('kubelet').remove(pods, pod('b', []));
  await clock.advance(31_000);
  assert.equal(output.findings.length, 1);
  await start(store, pod('b', ['10.0.0.2']));
  await clock.advance(31_000);
  assert.deepEqual(output.findings, []);
});

test('openTenantEndpoints() does not empty the endpoints for agents of another family', async () => {
  const { store, clock, open } = given('agents', pod('a', ['2001:db8::1']));
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(0);
  assert.deepEqual(store.writes, []);
  assert.equal(output.findings[0].code, 'NoEndpoints');
});

test('openTenantEndpoints() survives an API server that answers nonsense', async () => {
  const { store, clock, open, addresses } = given('192.0.2.1');
  const sane = store.client();
  const get = sane.get;
  sane.get = async (...args) => {
    const answer = await get(...args);
    return answer.ok ? { ok: true, value: { ...answer.value, spec: { ipFamilies: 7 } } } : answer;
  };
  await using output = open(sane);
  output.update([sampleTenant()]);
  await clock.advance(0);
  assert.deepEqual(store.writes, []);
  assert.match(output.findings[0].text, /not understood/);
  sane.get = get;
  await clock.advance(31_000);
  assert.deepEqual([addresses(), output.findings], [['192.0.2.1'], []]);
});

test('openTenantEndpoints() writes one address, and nothing where that is no endpoint', async () => {
  const good = given('192.0.2.1');
  await using output = good.open();
  output.update([sampleTenant()]);
  await good.clock.advance(0);
  assert.deepEqual(good.addresses(), ['192.0.2.1']);
  assert.deepEqual(good.slice()?.ports, [{ name: 'https', port: 6443, protocol: 'TCP' }]);
  const bad = given('127.0.0.1');
  await using refused = bad.open();
  refused.update([sampleTenant()]);
  await bad.clock.advance(0);
  assert.deepEqual(bad.store.writes, []);
  assert.deepEqual(
    refused.findings.map(({ code }) => code),
    ['OutputRejected'],
  );
});

test('openTenantEndpoints() yields to another writer for ten minutes', async () => {
  const { store, clock, open, addresses } = given('192.0.2.1');
  const apiServer = store.client('kube-apiserver');
  const revert = async () => {
    const slice = store.peek<EndpointSlice>('EndpointSlice/default/kubernetes') as EndpointSlice;
    const addresses = ['192.0.2.99'];
    assert.ok((await apiServer.replace(endpointSlices, { ...slice, endpoints: [{ addresses }] })).ok);
    const object = store.peek<Endpoints>('Endpoints/default/kubernetes') as Endpoints;
    const subsets = [{ addresses: [{ ip: '192.0.2.99' }] }];
    assert.ok((await apiServer.replace(endpoints, { ...object, subsets })).ok);
  };
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(0);
  await revert();
  await clock.advance(31_000);
  assert.deepEqual(addresses(), ['192.0.2.99']);
  assert.match(output.findings[0].text, /'kube-apiserver' reverts/);
  assert.equal(output.findings[0].code, 'ForeignWriter');
  await clock.advance(500_000);
  assert.deepEqual(addresses(), ['192.0.2.99']);
  await clock.advance(200_000);
  assert.deepEqual(addresses(), ['192.0.2.1']);
  await clock.advance(120_000);
  assert.deepEqual(output.findings, []);
});

test('openTenantEndpoints() corrects what somebody changed once, and reads rarely otherwise', async () => {
  const { store, clock, open, addresses } = given('192.0.2.1');
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(300_000);
  assert.equal(store.writes.length, 2);
  let calls = 0;
  store.gate = async label => {
    if (!label.endsWith('answered')) calls++;
  };
  await clock.advance(300_000);
  assert.equal(calls, 0);
  store.gate = async () => {};
  const object = store.peek<EndpointSlice>('EndpointSlice/default/kubernetes') as EndpointSlice;
  await store.client('kubectl').replace(endpointSlices, { ...object, endpoints: [] });
  await clock.advance(600_000);
  assert.deepEqual(addresses(), ['192.0.2.1']);
});

test('openTenantEndpoints() writes only as the leader, and nothing for paused clusters', async () => {
  const { store, clock, lead, open } = given('192.0.2.1');
  lead.is = false;
  await using output = open();
  output.update([sampleTenant()]);
  await clock.advance(60_000);
  assert.deepEqual(store.writes, []);
  const { controlPlane, ...rest } = sampleTenant();
  output.update([{ ...rest, controlPlane: { ...controlPlane, isPaused: true } }]);
  lead.is = true;
  await clock.advance(60_000);
  assert.deepEqual(store.writes, []);
  output.update([sampleTenant()]);
  await clock.advance(1000);
  assert.equal(store.writes.length, 2);
});

test('openTenantEndpoints() stops without removing anything', async () => {
  const { store, clock, open, addresses } = given('192.0.2.1');
  {
    await using output = open();
    output.update([sampleTenant()]);
    await clock.advance(0);
  }
  await clock.advance(60_000);
  assert.deepEqual(addresses(), ['192.0.2.1']);
  assert.equal(store.writes.filter(write => write.startsWith('remove')).length, 0);
});
