// Feature tests of HyperShift: given HostedClusters, Routes and Services, then clusters and findings.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { WatchOptions } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, services } from '../kube/resources.ts';
import { kubeWorld } from './contract/kube-world.ts';
import { hostedClusters, openShiftRoutes } from './hosted-cluster.ts';
import {
  CLUSTER_ID,
  CREATED,
  definitions,
  publishedSpec,
  type SampleHostedCluster,
  sampleHostedCluster,
  sampleRoute,
  sampleRoutes,
  sampleService,
  sampleServices,
} from './hypershift.samples.ts';
import { openHypershift } from './hypershift.ts';
import { sourceContract } from './source.contract.ts';
import { routesOf } from './tenant.samples.ts';

const IP = '172.31.0.9';
const NS = 'clusters-a';
const DOMAIN = 'a.example.com';
const ROUTES = {
  api: `api.${DOMAIN} → ${IP}:6443`,
  konnectivity: `konnectivity.${DOMAIN} → ${IP}:8091`,
  oauth: `oauth.${DOMAIN} → ${IP}:6443`,
  ignition: `ignition.${DOMAIN} → ${IP}:443`,
  metrics: `metrics.${DOMAIN} → ${IP}:443`,
};

sourceContract('HyperShift', () =>
  kubeWorld({
    open: openHypershift,
    options: { via: 'clusterIP' },
    resource: hostedClusters,
    definition: definitions.hostedClusters,
    otherDefinitions: [definitions.routes],
    clusterName: key => `clusters.${key}`,
    object: key => sampleHostedCluster({ name: key, spec: publishedSpec(`${key}.example.com`) }),
    beside: key => [
      ...sampleServices(`clusters-${key}`).map(each => [services, each] as const),
      ...sampleRoutes(`clusters-${key}`, `${key}.example.com`).map(each => [openShiftRoutes, each] as const),
    ],
    change: { spec: { networking: { apiServer: { allowedCIDRBlocks: ['10.0.0.0/8'] } } } },
    broken: [
      sampleHostedCluster({ name: 'no-spec' }),
      sampleHostedCluster({ name: 'bad-types', spec: { clusterID: [7], services: 'x', networking: [] } }),
      sampleHostedCluster({ name: 'bad-services', spec: { services: [null, 7, [], { service: {} }] } }),
      sampleHostedCluster({ name: 'bad-host', spec: publishedSpec('a b\0*') }),
      sampleHostedCluster({ name: 'x'.repeat(80), spec: publishedSpec('long.example.com') }),
    ],
  }),
);

async function given(options: Partial<WatchOptions>, ...objects: readonly KubeObject[]) {
  const store = memoryStore(definitions.hostedClusters, definitions.routes, ...objects);
  const clock = testClock();
  const context = { name: 'hypershift', folder: '/', kubeApi: () => store.client(), clock };
  const source = openHypershift({ via: 'clusterIP', ...options }, context, () => {});
  await clock.advance(0);
  const put = async (of: Resource<KubeObject>, object: KubeObject) => {
    assert.ok((await store.client('test').create(of, object)).ok);
    await clock.advance(1000);
  };
  const remove = async (of: Resource<KubeObject>, object: KubeObject) => {
    const { resourceVersion: _, ...metadata } = object.metadata;
    assert.ok((await store.client('test').remove(of, { ...object, metadata })).ok);
    await clock.advance(1000);
  };
  return { source, put, remove, store, clock };
}

/** What one HostedCluster gives, with these Routes and Services beside it. */
async function madeOf(
  cluster: SampleHostedCluster,
  beside: readonly KubeObject[] = [...sampleServices(NS), ...sampleRoutes(NS, DOMAIN)],
  options: Partial<WatchOptions> = {},
) {
  const { source } = await given(options, sampleHostedCluster(cluster), ...beside);
  await using _ = source;
  const { clusters, findings } = source.observe();
  const [made] = clusters as readonly (Cluster | undefined)[];
  return {
    cluster: made,
    routes: made && routesOf(made),
    findings,
    codes: findings.map(({ severity, code }) => `${severity} ${code}`),
  };
}

test('every service by SNI from its Route, and the API server by id', async () => {
  const { cluster, routes, findings } = await madeOf({
    spec: publishedSpec(DOMAIN),
    status: { kubeconfig: { name: 'a-admin' } },
  });
  assert.deepEqual(findings, []);
  assert.deepEqual(routes, ROUTES);
  assert.equal(cluster?.name, 'clusters.a');
  assert.equal(cluster.id, CLUSTER_ID);
  assert.equal(cluster.allow, undefined);
  assert.deepEqual(cluster.origin, {
    source: 'hypershift',
    object: {
      apiVersion: 'hypershift.openshift.io/v1beta1',
      kind: 'HostedCluster',
      namespace: 'clusters',
      name: 'a',
      uid: 'uid-a',
      createdAt: CREATED,
    },
  });
  assert.deepEqual(
    cluster.routes.map(({ service, pool }) => [service?.namespace, service?.name, pool.health.check]),
    [
      [NS, 'kube-apiserver', 'tls'],
      [NS, 'konnectivity-server', 'tcp'],
      [NS, 'oauth-openshift', 'tcp'],
      [NS, 'ignition-server-proxy', 'tcp'],
      [NS, 'metrics-proxy', 'tcp'],
    ],
  );
  assert.deepEqual(cluster.controlPlane, {
    isPaused: false,
    kubeconfig: { namespace: 'clusters', secret: 'a-admin', keys: ['kubeconfig'] },
    servingCertificate: {
      namespace: NS,
      secret: 'kas-server-crt',
      certKey: 'tls.crt',
      keyKey: 'tls.key',
    },
  });
});

interface Case {
  readonly given: string;
  readonly spec?: unknown;
  readonly beside?: readonly KubeObject[];
  readonly options?: Partial<WatchOptions>;
  /** Undefined: it is not served. */
  readonly expected: Readonly<Record<string, string>> | undefined;
  readonly codes?: readonly string[];
}

const allServices = sampleServices(NS);
const byRoute = (service: string, hostname?: unknown) => ({
  service,
  servicePublishingStrategy: { type: 'Route', ...(hostname !== undefined && { route: { hostname } }) },
});
const spec = (...entries: readonly unknown[]) => ({ clusterID: CLUSTER_ID, services: entries });
const API_ONLY = { api: ` → ${IP}:6443` };
const { metrics: _metrics, ...published } = ROUTES;

const cases: readonly Case[] = [
  {
    given: 'the hostnames of spec.services alone, before there are Routes',
    spec: publishedSpec(DOMAIN),
    beside: allServices,
    expected: published,
  },
  {
    given: 'Routes alone, as where hostnames are left to the management cluster',
    spec: spec(byRoute('APIServer'), byRoute('OAuthServer'), byRoute('Konnectivity'), byRoute('Ignition')),
    beside: [...allServices, ...sampleRoutes(NS, DOMAIN)],
    expected: ROUTES,
  },
  {
    given: 'another host in the Route than in spec.services: both',
    spec: spec(byRoute('APIServer', 'api.example.com')),
    beside: [...allServices, sampleRoute(NS, 'kube-apiserver', `API.${DOMAIN}.`)],
    expected: { api: `api.${DOMAIN} api.example.com → ${IP}:6443` },
  },
  {
    given: 'kubeAPIServerDNSName',
    spec: { ...spec(byRoute('APIServer', `api.${DOMAIN}`)), kubeAPIServerDNSName: 'Custom.example.com' },
    beside: allServices,
    expected: { api: `api.${DOMAIN} custom.example.com → ${IP}:6443` },
  },
  {
    given: 'a load balancer with a hostname, which may as well lead here',
    spec: spec({
      service: 'APIServer',
      servicePublishingStrategy: { type: 'LoadBalancer', loadBalancer: { hostname: 'lb.example.com' } },
    }),
    beside: allServices,
    expected: { api: `lb.example.com → ${IP}:6443` },
  },
  {
    given: 'a NodePort: its address is that of a node, and only the id leads here',
    spec: spec({
      service: 'APIServer',
      servicePublishingStrategy: { type: 'NodePort', nodePort: { address: 'node.example.com', port: 30443 } },
    }),
    beside: allServices,
    expected: API_ONLY,
  },
  {
    given: 'services that are not published, and those that HyperShift no longer has',
    spec: spec(
      { service: 'OAuthServer', servicePublishingStrategy: { type: 'None' } },
      byRoute('OVNSbDb', 'ovn.example.com'),
      { service: 'OIDC', servicePublishingStrategy: { type: 'S3' } },
    ),
    beside: allServices,
    expected: API_ONLY,
  },
  {
    given: 'Routes of private networks and of others: they are not exposed',
    spec: spec(),
    beside: [
      ...allServices,
      ...['kube-apiserver-private', 'oauth-private', 'oauth-internal', 'kube-apiserver-internal', 'mine'].map(
        name => sampleRoute(NS, name, `${name}.example.com`, 'kube-apiserver'),
      ),
      sampleRoute('elsewhere', 'oauth', 'elsewhere.example.com'),
    ],
    expected: API_ONLY,
  },
  {
    given: 'a Route without the label: it is for the management cluster itself',
    spec: spec(),
    beside: [
      ...allServices,
      { ...sampleRoute(NS, 'oauth', 'oauth.example.com'), metadata: { name: 'oauth', namespace: NS } },
    ],
    expected: API_ONLY,
  },
  {
    given: 'a Route without a host',
    spec: spec(byRoute('APIServer'), byRoute('OAuthServer')),
    beside: [
      ...allServices,
      sampleRoute(NS, 'kube-apiserver', undefined),
      sampleRoute(NS, 'oauth', ''),
      sampleRoute(NS, 'metrics-proxy', undefined),
    ],
    expected: API_ONLY,
    codes: ['warning HostMissing', 'error HostMissing', 'error HostMissing'],
  },
  {
    given: 'a Route that does not exist yet, and no hostname',
    spec: spec(byRoute('APIServer'), byRoute('Konnectivity')),
    beside: allServices,
    expected: API_ONLY,
    codes: ['warning HostMissing', 'error HostMissing'],
  },
  {
    given: 'hosts that are none',
    spec: {
      ...spec(byRoute('APIServer', '*.example.com'), byRoute('Konnectivity', 7)),
      kubeAPIServerDNSName: '10.0.0.1',
    },
    beside: [...allServices, sampleRoute(NS, 'oauth', 'a b\0'), sampleRoute(NS, 'ignition-server', '*')],
    expected: API_ONLY,
    codes: Array(5).fill('error HostInvalid'),
  },
  {
    given: 'one host for two services: the first gets it',
    spec: spec(byRoute('OAuthServer', 'same.example.com'), byRoute('Konnectivity', 'same.example.com')),
    beside: allServices,
    expected: { ...API_ONLY, konnectivity: `same.example.com → ${IP}:8091` },
    codes: ['error HostInvalid'],
  },
  {
    given: 'no Services',
    spec: spec(byRoute('Ignition', 'ignition.example.com')),
    beside: [],
    expected: { api: ' → ', ignition: 'ignition.example.com → ' },
    codes: ['error ServiceMissing', 'error ServiceMissing'],
  },
  {
    given: 'a Route to a Service that does not exist',
    spec: spec(),
    beside: [...allServices, sampleRoute(NS, 'oauth', 'oauth.example.com', 'nobody')],
    expected: { ...API_ONLY, oauth: 'oauth.example.com → ' },
    codes: ['error ServiceMissing'],
  },
  {
    given: 'a Route to a Service with another name',
    spec: spec(),
    beside: [
      ...allServices,
      sampleService(NS, 'other', 6443, '172.31.0.10'),
      sampleRoute(NS, 'oauth', 'oauth.example.com', 'other'),
    ],
    expected: { ...API_ONLY, oauth: 'oauth.example.com → 172.31.0.10:6443' },
  },
  {
    given: 'a Route for the API server to another Service: the host leads where the id does',
    spec: spec(),
    beside: [
      ...allServices,
      sampleService(NS, 'other', 6443, '172.31.0.10'),
      sampleRoute(NS, 'kube-apiserver', 'api.example.com', 'other'),
    ],
    expected: { api: `api.example.com → ${IP}:6443` },
    codes: ['warning BackendForbidden'],
  },
  {
    given: 'another port, as on IBM Cloud',
    spec: spec(byRoute('APIServer', 'api.example.com')),
    beside: [sampleService(NS, 'kube-apiserver', 2040)],
    expected: { api: `api.example.com → ${IP}:2040` },
  },
  {
    given: 'the Service of ignition without a proxy',
    spec: spec(byRoute('Ignition', 'ignition.example.com')),
    beside: [sampleService(NS, 'kube-apiserver', 6443), sampleService(NS, 'ignition-server', 443)],
    expected: { ...API_ONLY, ignition: `ignition.example.com → ${IP}:443` },
  },
  {
    given: 'Services that are none: ExternalName, and headless',
    spec: spec(byRoute('APIServer', 'api.example.com'), byRoute('OAuthServer', 'oauth.example.com')),
    beside: [
      sampleService(NS, 'oauth-openshift', 6443, 'None'),
      {
        ...sampleService(NS, 'kube-apiserver', 6443),
        spec: { type: 'ExternalName', externalName: '127.0.0.1', ports: [{ port: 6443 }] },
      } as KubeObject,
    ],
    expected: { api: 'api.example.com → ', oauth: 'oauth.example.com → ' },
    codes: ['error BackendForbidden', 'error BackendForbidden'],
  },
  {
    given: 'no clusterID yet',
    spec: { services: [byRoute('APIServer', 'api.example.com')] },
    beside: allServices,
    expected: { api: `api.example.com → ${IP}:6443` },
    codes: ['warning IdMissing'],
  },
  ...['x y', 'x'.repeat(129), 7, ['a']].map(clusterID => ({
    given: `the clusterID ${JSON.stringify(clusterID).slice(0, 20)}`,
    spec: { clusterID, services: [] },
    beside: allServices,
    expected: API_ONLY,
    codes: ['warning IdMissing'],
  })),
  ...[
    { aws: { endpointAccess: 'Private' } },
    { azure: { topology: 'Private' } },
    { gcp: { endpointAccess: 'Private' } },
  ].map(platform => ({
    given: `private endpoints: ${JSON.stringify(platform)}`,
    spec: publishedSpec(DOMAIN, { platform }),
    expected: undefined,
    codes: ['info EndpointsPrivate'],
  })),
  ...[
    { type: 'None' },
    { aws: { endpointAccess: 'PublicAndPrivate' } },
    { azure: { topology: 'Public' } },
  ].map(platform => ({
    given: `public endpoints: ${JSON.stringify(platform)}`,
    spec: publishedSpec(DOMAIN, { platform }),
    expected: ROUTES,
  })),
];

for (const { given: what, spec: given, beside, options, expected, codes = [] } of cases) {
  test(`given ${what}`, async () => {
    const made = await madeOf({ spec: given }, beside, options);
    assert.deepEqual(made.routes, expected);
    assert.deepEqual(made.codes, codes);
    for (const { origin, cluster } of made.findings) {
      assert.deepEqual(
        [origin?.object?.kind, origin?.object?.name, cluster],
        ['HostedCluster', 'a', 'clusters.a'],
      );
    }
  });
}

const allowCases: readonly (readonly [string, unknown, string | undefined, readonly string[] | undefined])[] =
  [
    ['none', undefined, undefined, undefined],
    ['an empty list', [], undefined, undefined],
    ['two', ['1.1.1.1/32', '2001:db8::/32'], undefined, ['1.1.1.1/32', '2001:db8::/32']],
    ['an annotation that narrows them', ['10.0.0.0/8', '1.1.1.1/32'], '10.1.0.0/16', ['10.1.0.0/16']],
    ['an annotation alone', undefined, '10.1.0.0/16', ['10.1.0.0/16']],
    ['entries that are none', ['1.1.1.1/32', '', 'x', 7], undefined, ['1.1.1.1/32']],
    ['no list at all', '1.1.1.1/32', undefined, []],
  ];
for (const [what, allowedCIDRBlocks, annotation, expected] of allowCases) {
  test(`allowedCIDRBlocks: ${what}`, async () => {
    const { cluster } = await madeOf({
      spec: publishedSpec(DOMAIN, { networking: { apiServer: { allowedCIDRBlocks } } }),
      ...(annotation !== undefined && { annotations: { 'causeway.dev/allow': annotation } }),
    });
    // Of the cluster: for every route, and for connections by id.
    assert.deepEqual(cluster?.allow, expected);
    assert.ok(cluster?.routes.every(({ allow }) => allow === undefined));
  });
}

test('via: endpoints takes the endpoints of the Services', async () => {
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'kube-apiserver-x',
      namespace: NS,
      labels: { 'kubernetes.io/service-name': 'kube-apiserver' },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.128.0.7'] }, { addresses: ['10.128.0.8'] }],
    ports: [{ name: '', port: 6443, protocol: 'TCP' }],
  } as KubeObject;
  const beside = [sampleService(NS, 'kube-apiserver', 6443), slice];
  const { routes, codes } = await madeOf({ spec: spec() }, beside, { via: 'endpoints' });
  assert.deepEqual(routes, { api: ' → 10.128.0.7:6443 10.128.0.8:6443' });
  assert.deepEqual(codes, []);
});

test('the admin kubeconfig is where HyperShift puts it, whatever the status says', async () => {
  for (const name of [undefined, '', '../x', 7]) {
    const { cluster } = await madeOf({ spec: spec(), status: { kubeconfig: { name } } });
    assert.equal(cluster?.controlPlane?.kubeconfig?.secret, 'a-admin-kubeconfig');
  }
});

test('causeway.dev/paused is read', async () => {
  const { cluster } = await madeOf({ spec: spec(), annotations: { 'causeway.dev/paused': 'true' } });
  assert.equal(cluster?.controlPlane?.isPaused, true);
});

test('a name with dots has the control plane namespace that HyperShift gives it', async () => {
  const services = sampleServices('clusters-a-b');
  const { cluster, routes, codes } = await madeOf({ name: 'a.b', spec: spec() }, services);
  assert.equal(cluster?.name, 'clusters.a-b');
  assert.deepEqual([routes, codes], [API_ONLY, []]);
});

test('a control plane namespace belongs to the oldest HostedCluster', async () => {
  const victim = sampleHostedCluster({
    namespace: 'team-a',
    name: 'b',
    uid: 'uid-victim',
    spec: publishedSpec(DOMAIN, { networking: { apiServer: { allowedCIDRBlocks: ['10.0.0.0/8'] } } }),
  });
  const thief = sampleHostedCluster({
    namespace: 'team',
    name: 'a-b',
    uid: 'uid-thief',
    createdAt: '2026-01-02T00:00:00Z',
    spec: spec(byRoute('APIServer', 'thief.example.com')),
  });
  const { source, remove } = await given({}, thief, victim, ...sampleServices('team-a-b'));
  await using _ = source;
  const { clusters, findings } = source.observe();
  assert.deepEqual(
    clusters.map(({ name }) => name),
    ['team-a.b'],
  );
  assert.deepEqual(
    findings.map(({ code, origin }) => [code, origin?.object?.namespace]),
    [['NameClaimed', 'team']],
  );
  await remove(hostedClusters, victim);
  assert.deepEqual(
    source.observe().clusters.map(({ name }) => name),
    ['team.a-b'],
  );
});

test('namespaces and selector choose HostedClusters; control plane namespaces follow', async () => {
  const one = (namespace: string, name: string, team: string) =>
    sampleHostedCluster({ namespace, name, uid: `${namespace}-${name}`, labels: { team }, spec: spec() });
  const objects = [one('a', 'x', 'one'), one('a', 'y', 'two'), one('b', 'x', 'one')];
  const { source } = await given(
    { namespaces: ['a'], selector: 'team=one' },
    ...objects,
    ...sampleServices('a-x'),
  );
  await using _ = source;
  const { clusters, findings } = source.observe();
  assert.deepEqual(clusters.map(routesOf), [API_ONLY]);
  assert.deepEqual([clusters[0].name, findings], ['a.x', []]);
});

test('Routes and Services that come and go are followed, and other clusters stay the same objects', async () => {
  const b = sampleHostedCluster({ name: 'b', spec: spec() });
  const objects = [sampleHostedCluster({ spec: spec() }), b, ...allServices, ...sampleServices('clusters-b')];
  const { source, put, remove } = await given({}, ...objects);
  await using _ = source;
  const route = sampleRoute(NS, 'oauth', 'oauth.example.com');
  const at = () => new Map(source.observe().clusters.map(cluster => [cluster.name, cluster]));
  const before = at();
  await put(openShiftRoutes, route);
  assert.deepEqual(routesOf(at().get('clusters.a') as Cluster), {
    ...API_ONLY,
    oauth: `oauth.example.com → ${IP}:6443`,
  });
  assert.equal(at().get('clusters.b'), before.get('clusters.b'));
  await remove(services, sampleService(NS, 'oauth-openshift', 6443));
  assert.equal(routesOf(at().get('clusters.a') as Cluster).oauth, 'oauth.example.com → ');
  await remove(openShiftRoutes, route);
  assert.deepEqual(at().get('clusters.a'), before.get('clusters.a'));
});

test('without the definition of Routes there is a finding, and spec.services is enough', async () => {
  const store = memoryStore(
    definitions.hostedClusters,
    sampleHostedCluster({ spec: publishedSpec(DOMAIN) }),
    ...allServices,
  );
  const clock = testClock();
  const context = { name: 'hypershift', folder: '/', kubeApi: () => store.client(), clock };
  await using source = openHypershift({ via: 'clusterIP' }, context, () => {});
  await clock.advance(0);
  const { clusters, findings, synced, complete } = source.observe();
  assert.deepEqual([synced, complete], [true, false]);
  assert.deepEqual(clusters.map(routesOf), [published]);
  assert.deepEqual(
    findings.map(({ code }) => code),
    ['SourceCrdMissing'],
  );
});

test('hostile objects throw nothing and claim nothing', async () => {
  const deep = { a: { a: { a: ['x'.repeat(100_000)] } } };
  const values: readonly unknown[] = [null, 0, '', 'x', [], [null], {}, deep, 'x\0y', '*', 'a b', true];
  const objects = values.flatMap((value, i) => [
    sampleHostedCluster({ name: `v${i}`, spec: value }),
    sampleHostedCluster({
      name: `w${i}`,
      spec: {
        clusterID: value,
        kubeAPIServerDNSName: value,
        services: [value, { service: value, servicePublishingStrategy: value }, byRoute('APIServer', value)],
        networking: value,
        platform: value,
      },
      status: value,
    }),
    sampleRoute(`clusters-v${i}`, 'oauth', value, value),
  ]);
  const { source } = await given({}, ...objects);
  await using _ = source;
  const { clusters } = source.observe();
  assert.equal(clusters.length, 2 * values.length);
  assert.deepEqual(
    clusters.flatMap(({ routes }) => routes).flatMap(({ pool }) => pool.backends),
    [],
  );
  const hosts = new Set(clusters.flatMap(({ routes }) => routes.flatMap(each => each.hosts)));
  assert.deepEqual([...hosts], ['x']);
});
