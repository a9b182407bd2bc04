// Feature tests of Kubermatic: given Clusters and Services of a seed cluster, then clusters and findings, and what the
// plan makes of them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster } from '../cluster/cluster.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { endpointSlices, services } from '../kube/resources.ts';
import { kubeWorld } from './contract/kube-world.ts';
import {
  KUBERMATIC_DEFINITION,
  kubermaticWorld,
  type SampleProxied,
  sampleApiService,
  sampleKubermatic,
  sampleProxied,
} from './kubermatic.samples.ts';
import { openKubermatic } from './kubermatic.ts';
import { kubermaticClusters } from './kubermatic-object.ts';
import { sourceContract } from './source.contract.ts';

/** What a test looks at: `hosts | connect → backends` by kind, of a cluster and of its Services. */
function routesOf(clusters: readonly Cluster[]): Record<string, string> {
  return Object.fromEntries(
    clusters.flatMap(({ origin, routes }) =>
      routes.map(({ kind, hosts, connect, pool }) => [
        `${origin.object?.name} ${kind}`,
        `${hosts} | ${connect} → ${pool.backends.map(({ text }) => text)}`,
      ]),
    ),
  );
}

async function observed(objects: readonly KubeObject[], options: Parameters<typeof kubermaticWorld>[1] = {}) {
  await using world = kubermaticWorld(objects, options);
  await world.clock.advance(0);
  const { clusters, findings, synced, complete } = world.source.observe();
  assert.deepEqual([synced, complete], [true, true]);
  const codes = findings.map(({ severity, code, origin }) => `${origin?.object?.name} ${severity} ${code}`);
  return { clusters, findings, routes: routesOf(clusters), codes: codes.toSorted() };
}

test('a Cluster with a tunnel gives its API server by external name, id and CONNECT, and no findings', async () => {
  const { clusters, codes, routes } = await observed([sampleKubermatic('abc'), ...sampleApiService('abc')]);
  assert.deepEqual(codes, []);
  assert.deepEqual(routes, {
    'abc api': 'abc.eu.k8c.example |  → 10.0.0.1:6443',
    'apiserver-external api':
      'abc.eu.k8c.example | apiserver-external.cluster-abc.svc.cluster.local → 10.0.0.1:6443',
  });
  const [cluster, service] = clusters;
  assert.deepEqual([cluster.name, cluster.id, service.name, service.id], ['abc', 'abc', 'abc', undefined]);
  assert.equal(cluster.allow, undefined);
  assert.deepEqual(cluster.origin, {
    source: 'kubermatic',
    object: {
      apiVersion: 'kubermatic.k8c.io/v1',
      kind: 'Cluster',
      namespace: '',
      name: 'abc',
      uid: 'uid-abc',
      createdAt: '2025-12-31T23:58:20.000Z',
    },
  });
  assert.deepEqual(service.origin.object?.kind, 'Service');
  assert.deepEqual(cluster.controlPlane, {
    isPaused: false,
    namespace: 'cluster-abc',
    kubeconfig: { namespace: 'cluster-abc', secret: 'admin-kubeconfig', keys: ['kubeconfig'] },
    servingCertificate: {
      namespace: 'cluster-abc',
      secret: 'apiserver-tls',
      certKey: 'apiserver-tls.crt',
      keyKey: 'apiserver-tls.key',
    },
  });
});

test('the allow list is for the control plane; causeway.dev/allow is for everything', async () => {
  const spec = { apiServerAllowedIPRanges: { cidrBlocks: ['10.0.0.0/8'] } };
  const annotations = { 'causeway.dev/allow': '10.1.0.0/16', 'causeway.dev/paused': 'true' };
  const objects = [sampleKubermatic('abc', { spec, annotations }), ...sampleApiService('abc')];
  const { clusters, codes } = await observed(objects, { zone: 'apps.example' });
  assert.deepEqual(codes, ['abc error SecretMissing']);
  assert.deepEqual(clusters[0].allow, ['10.1.0.0/16']);
  assert.equal(clusters[0].controlPlane?.isPaused, true);
  assert.deepEqual(
    clusters.flatMap(({ routes }) => routes.map(({ kind, allow }) => `${kind} ${allow}`)),
    ['api 10.0.0.0/8', 'apps-https undefined', 'apps-http undefined', 'api 10.0.0.0/8'],
  );
});

interface Case {
  readonly given: string;
  readonly spec?: object;
  readonly status?: object;
  readonly services?: readonly KubeObject[];
  readonly options?: Parameters<typeof kubermaticWorld>[1];
  /** Only these kinds are looked at. */
  readonly expected: Record<string, string>;
  readonly codes?: readonly string[];
}

const API = 'abc.eu.k8c.example |  → 10.0.0.1:6443';
const HOSTLESS = ' |  → 10.0.0.1:6443';
const CONNECT = 'apiserver-external.cluster-abc.svc.cluster.local';
const JOINED = `abc.eu.k8c.example | ${CONNECT} → 10.0.0.1:6443`;
const plain = sampleApiService('abc', { expose: 'NodePort' });
const whole = { 'abc api': API, 'apiserver-external api': JOINED };
const proxied = (name: string, given: SampleProxied) => [
  ...sampleApiService('abc'),
  ...sampleProxied('abc', name, given),
];
const ports = [
  { name: 'secure', port: 443 },
  { name: 'extra', port: 8132 },
];

const cases: readonly Case[] = [
  {
    given: 'exposeStrategy NodePort',
    spec: { exposeStrategy: 'NodePort' },
    services: plain,
    expected: { 'abc api': API },
    codes: ['abc info ServiceTypeUnusual'],
  },
  {
    given: 'exposeStrategy LoadBalancer, whose external name is an address',
    spec: { exposeStrategy: 'LoadBalancer' },
    status: { address: { externalName: '192.0.2.7' } },
    services: sampleApiService('abc', { expose: '' }),
    expected: { 'abc api': HOSTLESS },
    codes: ['abc info ServiceTypeUnusual'],
  },
  {
    given: 'no status yet',
    status: { address: undefined, namespaceName: undefined },
    services: plain,
    expected: { 'abc api': HOSTLESS },
    codes: ['abc warning HostMissing'],
  },
  {
    given: 'an external name that is no host',
    status: { address: { externalName: 'a b' } },
    services: plain,
    expected: { 'abc api': HOSTLESS },
    codes: ['abc error HostInvalid'],
  },
  {
    given: 'no Service',
    services: [],
    expected: { 'abc api': 'abc.eu.k8c.example |  → ' },
    codes: ['abc error ServiceMissing'],
  },
  {
    given: 'a Service of another name that has the external name',
    services: sampleProxied('abc', 'kas', {
      expose: 'SNI,Tunneling',
      mapping: { extra: 'abc.eu.k8c.example' },
      ports,
    }),
    expected: {
      'abc api': 'abc.eu.k8c.example |  → 10.0.0.1:14132',
      'kas api': 'abc.eu.k8c.example | kas.cluster-abc.svc.cluster.local → 10.0.0.1:14132',
    },
  },
  {
    given: 'only one Service, of another name and for tunnels only',
    services: sampleProxied('abc', 'kas', { expose: 'Tunneling' }),
    expected: { 'abc api': API, 'kas api': ' | kas.cluster-abc.svc.cluster.local → 10.0.0.1:6443' },
  },
  {
    given: 'the Service of konnectivity',
    services: proxied('konnectivity-server', { expose: ' SNI ', mapping: { secure: 'k.abc.example' } }),
    expected: { ...whole, 'konnectivity-server konnectivity': 'k.abc.example |  → 10.0.0.1:6443' },
  },
  {
    given: 'a Service with a host for each of two ports, and a tunnel',
    services: proxied('vpn', {
      expose: 'NodePort, SNI, Tunneling',
      mapping: { secure: 'A.abc.example.', extra: 'b.abc.example' },
      ports,
    }),
    expected: {
      ...whole,
      'vpn vpn': 'a.abc.example | vpn.cluster-abc.svc.cluster.local → 10.0.0.1:6443',
      'vpn vpn-extra': 'b.abc.example |  → 10.0.0.1:14132',
    },
  },
  {
    given: 'a Service with the name of a kind that every cluster has',
    services: proxied('apps-http', { expose: 'SNI', mapping: { secure: 'b.abc.example' } }),
    expected: { ...whole, 'apps-http service-apps-http': 'b.abc.example |  → 10.0.0.1:6443' },
  },
  {
    given: 'a Service that wants NodePorts only, in the old way too',
    services: [...proxied('vpn', { expose: 'true' }), ...sampleProxied('abc', 'b', { expose: 'NodePort' })],
    expected: whole,
  },
  {
    given: 'SNI without hosts',
    services: [
      ...proxied('vpn', { expose: 'SNI' }),
      ...sampleProxied('abc', 'b', { expose: 'SNI', mapping: {} }),
    ],
    expected: whole,
    codes: ['b error HostMissing', 'vpn error HostMissing'],
  },
  {
    given: 'hosts that are no JSON, no map and no hosts',
    services: [
      ...proxied('vpn', { expose: 'SNI', mapping: '{' }),
      ...sampleProxied('abc', 'b', { expose: 'SNI', mapping: '["x.example"]' }),
      ...sampleProxied('abc', 'c', {
        expose: 'SNI',
        mapping: { secure: '*', extra: 7, other: 'c.example', more: 'c.example' },
        ports: [...ports, { name: 'other', port: 1000 }],
      }),
    ],
    expected: { ...whole, 'c c': 'c.example |  → 10.0.0.1:7000' },
    codes: ['b error AnnotationInvalid', 'c error HostInvalid', 'vpn error AnnotationInvalid'],
  },
  {
    given: 'a type that nobody knows',
    services: proxied('vpn', { expose: 'SNI,Magic', mapping: { secure: 'b.abc.example' } }),
    expected: { ...whole, 'vpn vpn': 'b.abc.example |  → 10.0.0.1:6443' },
    codes: ['vpn warning AnnotationInvalid'],
  },
  {
    given: 'a host for a port that is not there',
    services: proxied('vpn', { expose: 'SNI', mapping: { none: 'b.abc.example' } }),
    expected: { ...whole, 'vpn vpn': 'b.abc.example |  → ' },
    codes: ['vpn error PortMissing'],
  },
  {
    given: 'hosts for ports that no Service can have',
    services: proxied('vpn', {
      expose: 'SNI',
      mapping: { secure: 'a.example', 'A b': 'b.example', [`${'x'.repeat(80)}`]: 'c.example' },
    }),
    expected: {
      ...whole,
      'vpn vpn': 'a.example |  → 10.0.0.1:6443',
      'vpn vpn-1': 'b.example |  → ',
      'vpn vpn-2': 'c.example |  → ',
    },
    codes: ['vpn error PortMissing', 'vpn error PortMissing'],
  },
  {
    given: 'a Service that leads elsewhere',
    services: proxied('vpn', {
      expose: 'SNI',
      mapping: { secure: 'b.abc.example' },
      spec: { type: 'ExternalName', externalName: 'x.example' },
    }),
    expected: { ...whole, 'vpn vpn': 'b.abc.example |  → ' },
    codes: ['vpn error BackendForbidden'],
  },
  {
    given: 'Services outside of any control plane',
    services: [
      ...sampleApiService('abc'),
      ...sampleProxied('other', 'vpn', { expose: 'SNI', mapping: { secure: 'x.example' } }),
    ],
    expected: whole,
  },
  {
    given: 'via: clusterIP',
    services: sampleApiService('abc'),
    options: { via: 'clusterIP' },
    expected: {
      'abc api': 'abc.eu.k8c.example |  → 10.96.0.1:443',
      'apiserver-external api': `abc.eu.k8c.example | ${CONNECT} → 10.96.0.1:443`,
    },
  },
  {
    given: 'namespaces that do not have its control plane',
    services: sampleApiService('abc'),
    options: { namespaces: ['cluster-x'] },
    expected: {},
  },
  {
    given: 'an allow list that is none',
    spec: { apiServerAllowedIPRanges: { cidrBlocks: 'all' } },
    services: sampleApiService('abc'),
    expected: whole,
    codes: ['abc error AllowInvalid'],
  },
  {
    given: 'a zone that makes no host of the id',
    services: sampleApiService('abc'),
    options: { zone: `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(62)}.eeeeee` },
    expected: whole,
    codes: ['abc error SecretMissing', 'abc error ZoneInvalid'],
  },
];

for (const { given, spec, status, services: objects = [], options, expected, codes = [] } of cases) {
  test(`Kubermatic: ${given}`, async () => {
    const cluster = sampleKubermatic('abc', { ...(spec && { spec }), ...(status && { status }) });
    const found = await observed([cluster, ...objects], options);
    assert.deepEqual(found.routes, expected);
    assert.deepEqual(found.codes, codes);
    for (const { text, fix } of found.findings) assert.ok(text !== '' && fix !== '');
  });
}

test('an allow list that cannot be read admits nobody to the control plane', async () => {
  for (const ranges of ['all', ['10.0.0.0/8'], { cidrBlocks: ['x'] }, { cidrBlocks: 7 }]) {
    const spec = { apiServerAllowedIPRanges: ranges };
    const { clusters } = await observed([sampleKubermatic('abc', { spec }), ...sampleApiService('abc')]);
    for (const { routes } of clusters)
      assert.equal(JSON.stringify(routes[0].allow), Array.isArray(ranges) ? '["10.0.0.0/8"]' : '[]');
  }
});

test('a Cluster cannot take the control plane of another by its status', async () => {
  const thief = sampleKubermatic('thief', { status: { namespaceName: 'cluster-abc' }, age: 1000 });
  const objects = [thief, sampleKubermatic('abc'), ...sampleApiService('abc')];
  const { clusters, codes } = await observed(objects);
  assert.deepEqual(
    clusters.map(({ name }) => name),
    ['abc', 'abc'],
  );
  assert.deepEqual(codes, ['thief error NameClaimed']);
});

test('Clusters of any content give findings at worst', async () => {
  const values = [null, 7, 'x', [], {}, '\0', '../x', 'x'.repeat(100_000)];
  const objects = values.flatMap((value, i) => [
    sampleKubermatic(`c${i}`, { spec: value as object, status: value as object }),
    sampleKubermatic(`d${i}`, {
      spec: { exposeStrategy: value, apiServerAllowedIPRanges: value },
      status: { namespaceName: value, address: { externalName: value } },
    }),
    ...sampleProxied(`d${i}`, 'apiserver-external', {
      expose: `SNI,${value}`,
      mapping: JSON.stringify({ secure: value, [String(value)]: 'x.example' }),
      spec: { ports: value, clusterIPs: value },
    }),
  ]);
  await using world = kubermaticWorld(objects, { zone: 'apps.example' });
  await world.clock.advance(0);
  assert.ok(world.source.observe().synced);
});

sourceContract('Kubermatic', () =>
  kubeWorld({
    open: openKubermatic,
    options: { via: 'endpoints' },
    resource: kubermaticClusters,
    definition: KUBERMATIC_DEFINITION,
    clusterName: key => key,
    object: key => sampleKubermatic(key),
    beside: key => {
      const [service, slice] = sampleApiService(key, { expose: '' });
      return [
        [services, service],
        [endpointSlices, slice],
      ];
    },
    change: { status: { address: { externalName: 'changed.example' } } },
    broken: [sampleKubermatic('broken', { status: { address: { externalName: 7 } } })],
  }),
);
