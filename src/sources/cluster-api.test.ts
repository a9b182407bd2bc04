// Feature tests of Cluster API: given a Cluster, then its cluster and findings.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import { definitionOf } from '../kube/definition.samples.ts';
import {
  clusterApiCluster,
  clusterApiClusters,
  keepClusterApiCluster,
  openClusterApi,
} from './cluster-api.ts';
import {
  controlPlaneObjects,
  lookupOf,
  NAMESPACE,
  type SampleControlPlane,
  type SampleObject,
  sampleObject,
  summaryOf,
} from './cluster-object.samples.ts';
import { kubeWorld } from './contract/kube-world.ts';
import { sourceContract } from './source.contract.ts';
import { CREATED, UID } from './tenant.samples.ts';

const TEMPLATE = '{name}-control-plane';
const PLANE: SampleControlPlane = { name: 'a-control-plane', ports: { https: 6443 } };
const endpoint = (host: unknown, port: unknown = 6443) => ({ controlPlaneEndpoint: { host, port } });

function made(
  object: SampleObject,
  planes: readonly SampleControlPlane[] = [PLANE],
  { service = TEMPLATE, via = 'endpoints' }: { service?: string; via?: 'endpoints' | 'clusterIP' } = {},
) {
  const kept = keepClusterApiCluster(sampleObject(clusterApiClusters, object));
  return summaryOf(clusterApiCluster(kept, lookupOf(...planes), { source: 'clusterApi', service, via }));
}

test('a Cluster gives its endpoint as host, and the backends of its Service', () => {
  const spec = { ...endpoint('API.example.com.', 443), clusterNetwork: { pods: {} }, paused: true };
  const { cluster, routes, findings } = made({ spec });
  assert.deepEqual(findings, []);
  assert.deepEqual(routes, { api: 'api.example.com → 10.244.0.7:6443' });
  assert.deepEqual([cluster?.name, cluster?.id, cluster?.allow], ['tenants.a', UID, undefined]);
  assert.deepEqual(cluster?.origin, {
    source: 'clusterApi',
    object: {
      apiVersion: 'cluster.x-k8s.io/v1beta2',
      kind: 'Cluster',
      namespace: NAMESPACE,
      name: 'a',
      uid: UID,
      createdAt: CREATED,
    },
  });
  assert.deepEqual(cluster?.routes[0].service, { namespace: NAMESPACE, name: 'a-control-plane', port: 6443 });
  assert.deepEqual(cluster?.controlPlane, {
    isPaused: false,
    kubeconfig: { namespace: NAMESPACE, secret: 'a-kubeconfig', keys: ['value'] },
  });
});

interface Case {
  readonly given: string;
  readonly object: SampleObject;
  readonly planes?: readonly SampleControlPlane[];
  readonly service?: string;
  readonly via?: 'clusterIP';
  readonly api: string | undefined;
  readonly codes?: readonly string[];
}

const HOST = { spec: endpoint('api.example.com') };
const cases: readonly Case[] = [
  {
    given: 'via: clusterIP',
    object: HOST,
    via: 'clusterIP',
    api: 'api.example.com → 10.96.0.9:6443',
  },
  {
    given: 'a template with the namespace',
    object: HOST,
    service: '{namespace}-{name}',
    planes: [{ name: 'tenants-a', ports: { https: 443 } }],
    api: 'api.example.com → 10.244.0.7:443',
  },
  {
    given: 'a single port of any name and number',
    object: HOST,
    planes: [{ ...PLANE, ports: { x: 8443 } }],
    api: 'api.example.com → 10.244.0.7:8443',
  },
  {
    given: "a port https, and another with the endpoint's number, which is that of clients",
    object: { spec: endpoint('api.example.com', 443) },
    planes: [{ ...PLANE, ports: { other: 443, https: 8443 } }],
    api: 'api.example.com → 10.244.0.7:8443',
  },
  {
    given: "the ports of Kamaji's Service",
    object: HOST,
    planes: [{ ...PLANE, ports: { 'konnectivity-server': 8132, 'kube-apiserver': 7443 } }],
    api: 'api.example.com → 10.244.0.7:7443',
  },
  {
    given: 'ports of other names, one of them 6443',
    object: HOST,
    planes: [{ ...PLANE, ports: { metrics: 8080, secure: 6443 } }],
    api: 'api.example.com → 10.244.0.7:6443',
  },
  {
    given: "ports of other names, one of them the endpoint's",
    object: { spec: endpoint('api.example.com', 9443) },
    planes: [{ ...PLANE, ports: { metrics: 8080, secure: 9443 } }],
    api: 'api.example.com → 10.244.0.7:9443',
  },
  {
    given: 'ports that say nothing',
    object: HOST,
    planes: [{ ...PLANE, ports: { metrics: 8080, other: 8081 } }],
    api: 'api.example.com → ',
    codes: ['error PortMissing'],
  },
  {
    given: 'no Service: the endpoint is no backend',
    object: HOST,
    planes: [],
    api: 'api.example.com → ',
    codes: ['error ServiceMissing'],
  },
  {
    given: 'a Service that leads elsewhere',
    object: HOST,
    planes: [{ ...PLANE, spec: { type: 'ExternalName', externalName: 'api.example.com' } }],
    api: 'api.example.com → ',
    codes: ['error BackendForbidden'],
  },
  { given: 'no spec', object: {}, api: ' → 10.244.0.7:6443', codes: ['warning HostMissing'] },
  {
    given: 'no endpoint yet',
    object: { spec: endpoint('', 0) },
    api: ' → 10.244.0.7:6443',
    codes: ['warning HostMissing'],
  },
  {
    given: 'an endpoint that is an address',
    object: { spec: endpoint('192.0.2.1') },
    api: ' → 10.244.0.7:6443',
    codes: ['warning HostMissing'],
  },
  {
    given: 'an endpoint that is an IPv6 address',
    object: { spec: endpoint('[2001:db8::1]') },
    api: ' → 10.244.0.7:6443',
    codes: ['warning HostMissing'],
  },
  ...['a b', '*.example.com', 'a\0b', 'x'.repeat(512), 'https://api.example.com', 7, {}, ['a.example']].map(
    host => ({
      given: `the host ${JSON.stringify(host).slice(0, 30)}`,
      object: { spec: endpoint(host) },
      api: ' → 10.244.0.7:6443',
      codes: ['error HostInvalid'],
    }),
  ),
  {
    given: 'fields of wrong types',
    object: { spec: { controlPlaneEndpoint: 'api.example.com:6443' } },
    api: ' → 10.244.0.7:6443',
    codes: ['warning HostMissing'],
  },
  {
    given: 'a name that no Service can have',
    object: { name: 'a.b', ...HOST },
    api: undefined,
    codes: ['error ServiceMissing'],
  },
];

for (const { given, object, planes, service, via, api, codes = [] } of cases) {
  test(`given ${given}`, () => {
    const options = { ...(service !== undefined && { service }), ...(via && { via }) };
    const found = made(object, planes, options);
    assert.equal(found.routes?.api, api);
    assert.deepEqual(found.codes, codes);
    for (const { origin, fix } of found.findings) {
      assert.equal(origin?.object?.uid, UID);
      assert.notEqual(fix, '');
    }
  });
}

test('annotations allow and paused count', () => {
  const annotations = { 'causeway.dev/allow': '10.0.0.0/8, 192.0.2.7', 'causeway.dev/paused': 'true' };
  const { cluster, codes } = made({ ...HOST, annotations });
  assert.deepEqual(cluster?.allow, ['10.0.0.0/8', '192.0.2.7']);
  assert.equal(cluster?.controlPlane?.isPaused, true);
  assert.deepEqual(codes, []);
  const bad = made({ ...HOST, annotations: { 'causeway.dev/allow': 'anyone' } });
  assert.deepEqual(bad.cluster?.allow, []);
  assert.deepEqual(bad.codes, ['error AnnotationInvalid']);
});

const OPTIONS = { via: 'endpoints', service: TEMPLATE } as const;

sourceContract('Cluster API', () =>
  kubeWorld({
    open: openClusterApi,
    options: OPTIONS,
    resource: clusterApiClusters,
    definition: definitionOf(clusterApiClusters),
    clusterName: key => `${NAMESPACE}.${key}`,
    object: key =>
      sampleObject(clusterApiClusters, {
        name: key,
        uid: `uid-${key}`,
        spec: endpoint(`${key}.example.com`),
      }),
    beside: key => controlPlaneObjects({ name: `${key}-control-plane`, ports: { https: 6443 } }),
    change: { metadata: { annotations: { 'causeway.dev/allow': '10.0.0.0/8' } } },
    broken: [
      sampleObject(clusterApiClusters, { name: 'no-service', uid: 'uid-1', spec: endpoint('x.test') }),
      sampleObject(clusterApiClusters, { name: 'bad-host', uid: 'uid-2', spec: endpoint('a b') }),
      sampleObject(clusterApiClusters, { name: 'no-spec', uid: 'uid-3' }),
    ],
  }),
);

test('openClusterApi() reads the older version where there is no other, and says which it knows', async () => {
  for (const [versions, expected] of [
    [['v1beta1'], 'cluster.x-k8s.io/v1beta1'],
    [['v1beta1', 'v1beta2'], 'cluster.x-k8s.io/v1beta2'],
    [['v9'], undefined],
  ] as const) {
    const clock = testClock();
    const [version] = versions;
    const resource = { ...clusterApiClusters, version };
    const store = memoryStore(
      definitionOf(clusterApiClusters, versions),
      sampleObject(resource, { spec: endpoint('api.example.com') }),
    );
    const context = { name: 'clusterApi', folder: '/', kubeApi: () => store.client(), clock };
    await using source = openClusterApi(OPTIONS, context, () => {});
    await clock.advance(0);
    const { clusters, findings, synced } = source.observe();
    assert.equal(clusters[0]?.origin.object?.apiVersion, expected);
    assert.equal(synced, true);
    if (expected === undefined) {
      assert.deepEqual(
        findings.map(({ code, text }) => [code, text]),
        [
          [
            'SourceCrdMissing',
            "404 NotFound: The API server serves 'clusters.cluster.x-k8s.io' as v9; supported: v1beta2, v1beta1",
          ],
        ],
      );
    }
  }
});
