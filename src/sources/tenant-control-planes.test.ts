import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { TenantControlPlaneOptions } from '../config/config.ts';
import { definitionOf } from '../kube/definition.samples.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { endpointSlices, type Resource, services } from '../kube/resources.ts';
import { kubeWorld } from './contract/kube-world.ts';
import { sourceContract } from './source.contract.ts';
import { DOMAIN, documentedTenant, routesOf, sampleTenant } from './tenant.samples.ts';
import { kamaji, steward, type TenantControlPlane } from './tenant-control-plane.ts';
import { openKamaji, openSteward } from './tenant-control-planes.ts';

const NAMESPACE = 'tenants';
const defaults: TenantControlPlaneOptions = { expose: 'annotated', via: 'endpoints', fix: false };

/** As the operator creates it. */
function serviceOf(name: string, namespace = NAMESPACE): KubeObject {
  const ports = [
    { name: 'kube-apiserver', port: 6443, protocol: 'TCP', targetPort: 6443 },
    { name: 'konnectivity-server', port: 8132, protocol: 'TCP', targetPort: 8132 },
  ];
  const spec = { type: 'ClusterIP', clusterIP: '10.96.0.9', clusterIPs: ['10.96.0.9'], ports };
  const metadata = { name, namespace, uid: `uid-${name}`, creationTimestamp: '2026-01-01T00:00:00Z' };
  return { apiVersion: 'v1', kind: 'Service', metadata, spec } as KubeObject;
}

function sliceOf(service: string, namespace = NAMESPACE, ...addresses: readonly string[]): KubeObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${service}-x`, namespace, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    endpoints: addresses.map(address => ({ addresses: [address], conditions: { ready: true } })),
    ports: [
      { name: 'kube-apiserver', port: 6443, protocol: 'TCP' },
      { name: 'konnectivity-server', port: 8132, protocol: 'TCP' },
    ],
  } as KubeObject;
}

const beside = (key: string): readonly (readonly [Resource<KubeObject>, KubeObject])[] => [
  [services, serviceOf(key)],
  [endpointSlices, sliceOf(key, NAMESPACE, '10.244.0.7')],
];

for (const [system, open] of [
  [kamaji, openKamaji],
  [steward, openSteward],
] as const) {
  const { group, version } = system.resource;
  const tenant = (name: string, object: Partial<TenantControlPlane>): TenantControlPlane => ({
    ...sampleTenant({ system, namespace: NAMESPACE, name }),
    ...object,
  });
  const withoutIdentity = ({ metadata, ...object }: TenantControlPlane, uid: string) => {
    const { resourceVersion: _, ...rest } = metadata;
    return { ...object, apiVersion: `${group}/${version}`, metadata: { ...rest, uid } };
  };
  sourceContract(
    system.title,
    () =>
      kubeWorld({
        open,
        options: defaults,
        resource: system.resource,
        definition: definitionOf(system.resource),
        clusterName: key => `${NAMESPACE}.${key}`,
        object: key => withoutIdentity(documentedTenant(NAMESPACE, key), `uid-${key}`),
        beside,
        change: { metadata: { annotations: { 'causeway.dev/allow': '10.0.0.0/8' } } },
        broken: [
          tenant('no-service', { spec: { controlPlane: { ingress: { hostname: 'x.test:443' } } } }),
          tenant('bad-host', { spec: { controlPlane: { ingress: { hostname: 'a b\0*' } } } }),
          tenant('bad-types', {
            spec: { controlPlane: { ingress: { hostname: [7] } }, networkProfile: 'x' },
          }),
          tenant('no-spec', {}),
        ].map((object, i) => withoutIdentity(object, `uid-broken-${i}`)),
      }),
    { server: true },
  );
}

async function given(options: Partial<TenantControlPlaneOptions>, ...objects: readonly KubeObject[]) {
  const store = memoryStore(definitionOf(kamaji.resource), ...objects);
  const clock = testClock();
  const asked: unknown[] = [];
  const context = {
    name: 'kamaji-2',
    folder: '/',
    kubeApi: (server: unknown) => {
      asked.push(server);
      return store.client();
    },
    clock,
    wantsReconcilerNone: true,
  };
  const source = openKamaji({ ...defaults, ...options }, context, () => {});
  await clock.advance(0);
  return { store, clock, source, asked, api: store.client('test') };
}

test('openKamaji() asks for its server, and names itself in its clusters and findings', async () => {
  const kubeconfig = 'management.kubeconfig';
  const tenant = sampleTenant({ annotations: { [DOMAIN]: 'example.com' } });
  const { source, asked } = await given({ kubeconfig, context: 'east' }, tenant);
  await using _ = source;
  assert.deepEqual(asked, [{ kubeconfig, context: 'east' }]);
  const { clusters, findings } = source.observe();
  assert.equal(source.name, 'kamaji-2');
  assert.equal(clusters[0].origin.source, 'kamaji-2');
  assert.ok(findings.some(({ code, origin }) => code === 'ServiceMissing' && origin?.source === 'kamaji-2'));
  assert.ok(findings.some(({ code }) => code === 'ReconcilerTypeMissing'));
});

test('openKamaji() reads the namespaces and labels that it is told', async () => {
  const labelled = (namespace: string, name: string, team: string) => {
    const tenant = documentedTenant(namespace, name);
    return { ...tenant, metadata: { ...tenant.metadata, labels: { team } } };
  };
  const objects = [labelled('a', 'x', 'one'), labelled('a', 'y', 'two'), labelled('b', 'x', 'one')];
  const { source } = await given({ namespaces: ['a'], selector: 'team=one' }, ...objects);
  await using _ = source;
  assert.deepEqual(
    source.observe().clusters.map(({ name }) => name),
    ['a.x'],
  );
});

for (const [via, hosts] of [
  ['endpoints', ['10.244.0.7', '10.244.0.8']],
  ['clusterIP', ['10.96.0.9']],
] as const) {
  test(`openKamaji() takes backends via ${via}, and follows them`, async () => {
    const slice = sliceOf('t', NAMESPACE, '10.244.0.7', '10.244.0.8');
    const { source, api, clock } = await given(
      { via },
      documentedTenant(NAMESPACE, 't'),
      serviceOf('t'),
      slice,
    );
    await using _ = source;
    const [before] = source.observe().clusters;
    assert.deepEqual(routesOf(before), {
      api: `tenants-t.k8s.clastix.cloud → ${hosts.map(host => `${host}:6443`).join(' ')}`,
      konnectivity: `tenants-t.konnectivity.clastix.cloud → ${hosts.map(host => `${host}:8132`).join(' ')}`,
    });
    assert.ok((await api.remove(services, serviceOf('t'))).ok);
    await clock.advance(1000);
    const after = source.observe();
    assert.deepEqual(
      after.clusters[0].routes.map(({ pool }) => pool.backends),
      [[], []],
    );
    assert.deepEqual(
      after.findings.map(({ code }) => code),
      ['ServiceMissing'],
    );
  });
}

test('openKamaji() has fixes for its clusters, with fix: true only', async () => {
  const tenant = sampleTenant({
    namespace: NAMESPACE,
    name: 't',
    annotations: { [DOMAIN]: 'example.com' },
    spec: { controlPlane: {}, networkProfile: { certSANs: ['mine.test'] } },
  });
  for (const fix of [false, true]) {
    const { source, api, clock, store } = await given({ fix }, tenant);
    await using _ = source;
    const [cluster] = source.observe().clusters;
    const operations = source.fixesFor(cluster);
    assert.equal(operations.length, fix ? 3 : 0);
    if (!fix) continue;
    assert.deepEqual(source.fixesFor({ ...cluster, origin: { source: 'file' } }), []);
    assert.ok((await api.patch(source.resource, NAMESPACE, 't', operations)).ok);
    const again = await api.patch(source.resource, NAMESPACE, 't', operations);
    assert.equal(again.ok ? 0 : again.fault.status, 422);
    await clock.advance(1000);
    assert.deepEqual(source.fixesFor(source.observe().clusters[0]), []);
    const patched = store.peek<TenantControlPlane>('TenantControlPlane/tenants/t');
    assert.deepEqual(patched?.spec, {
      controlPlane: { deployment: { extraArgs: { apiServer: ['--endpoint-reconciler-type=none'] } } },
      networkProfile: { certSANs: ['mine.test', 'tenants-t.k8s.example.com'] },
    });
  }
});
