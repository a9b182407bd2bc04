// Feature tests of Steward: given a TenantControlPlane, then its cluster and findings. It is a fork of Kamaji: only what
// differs is here.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DOMAIN, madeOf, sampleTenant } from './tenant.samples.ts';
import { keepTenantControlPlane, steward } from './tenant-control-plane.ts';

/** Of Steward's own guide, as it stands there. */
const documented = {
  kubernetes: { version: 'v1.31.0' },
  networkProfile: {
    address: 'tenant-01.k8s.example.com',
    port: 443,
    certSANs: ['tenant-01.k8s.example.com', 'tenant-01.konnectivity.example.com'],
    podCidr: '10.244.0.0/16',
    serviceCidr: '10.96.0.0/16',
  },
  controlPlane: {
    deployment: { replicas: 2 },
    service: { serviceType: 'ClusterIP' },
    ingress: {
      hostname: 'tenant-01.k8s.example.com',
      ingressClassName: 'traefik',
      controllerType: 'traefik',
    },
  },
  addons: {
    tcpProxy: {},
    konnectivity: {
      agent: {
        extraArgs: ['--proxy-server-host=tenant-01.konnectivity.example.com', '--proxy-server-port=443'],
      },
    },
  },
};

const of = (spec: unknown, annotations: Record<string, string> = {}) =>
  madeOf(sampleTenant({ system: steward, namespace: 'tenants', name: 'tenant-01', spec, annotations }), {
    system: steward,
    source: 'steward',
    wantsReconcilerNone: true,
  });

test('the object of the guide gives its hosts, and no findings', () => {
  const { cluster, routes, findings } = of(documented);
  assert.deepEqual(findings, []);
  assert.deepEqual(routes, {
    api: 'tenant-01.k8s.example.com → 10.244.0.7:6443',
    konnectivity: 'tenant-01.konnectivity.example.com → 10.244.0.7:8132',
  });
  assert.equal(cluster?.name, 'tenants.tenant-01');
  assert.equal(cluster.origin.object?.apiVersion, 'steward.butlerlabs.dev/v1alpha1');
  assert.deepEqual(cluster.controlPlane, {
    isPaused: false,
    ingress: { controllerType: 'traefik', className: 'traefik', annotations: {} },
    kubeconfig: {
      namespace: 'tenants',
      secret: 'tenant-01-admin-kubeconfig',
      keys: ['admin.svc', 'admin.conf'],
    },
    servingCertificate: {
      namespace: 'tenants',
      secret: 'tenant-01-api-server-certificate',
      certKey: 'apiserver.crt',
      keyKey: 'apiserver.key',
    },
    certSANs: ['tenant-01.k8s.example.com', 'tenant-01.konnectivity.example.com'],
    agent: { hostAliases: [] },
  });
});

const full = {
  image: 'registry.example.com/tcp-proxy:1',
  resources: { requests: { cpu: '10m' }, limits: { memory: '64Mi' } },
  hostAliases: [
    { ip: '10.0.0.50', hostnames: ['tenant-01.k8s.example.com', 'tenant-01.konnectivity.example.com'] },
  ],
  internalEndpoint: '10.40.0.201',
};

const agents: readonly {
  readonly given: string;
  readonly tcpProxy: unknown;
  readonly expected: unknown;
  readonly codes?: readonly string[];
}[] = [
  { given: 'every field', tcpProxy: full, expected: full },
  { given: 'none', tcpProxy: {}, expected: { hostAliases: [] } },
  { given: 'null', tcpProxy: null, expected: undefined, codes: ['warning ReconcilerTypeMissing'] },
  {
    given: 'fields of other types',
    tcpProxy: {
      image: 7,
      resources: [],
      hostAliases: [
        null,
        { ip: 7 },
        { ip: '10.0.0.1', hostnames: 'x' },
        { ip: '10.0.0.2', hostnames: ['a', 7] },
      ],
    },
    expected: { hostAliases: [{ ip: '10.0.0.2', hostnames: ['a'] }] },
  },
  {
    given: 'an internalEndpoint that is no address',
    tcpProxy: { internalEndpoint: 'gw.example.com --evil' },
    expected: { hostAliases: [] },
    codes: ['warning HostInvalid'],
  },
];

for (const { given, tcpProxy, expected, codes = [] } of agents) {
  test(`tcpProxy: ${given}`, () => {
    const { cluster, codes: found } = of({ ...documented, addons: { ...documented.addons, tcpProxy } });
    assert.deepEqual(cluster?.controlPlane?.agent, expected);
    assert.deepEqual(found, codes);
  });
}

test('status: whether its tcp-proxy runs, and which Secret has the certificate', () => {
  const withStatus = (status: unknown) => {
    const tenant = sampleTenant({ system: steward, namespace: 'tenants', spec: documented, status });
    // As the reflector keeps it.
    return madeOf(keepTenantControlPlane(tenant), { system: steward }).cluster?.controlPlane;
  };
  const running = withStatus({
    addons: { tcpProxy: { enabled: true } },
    certificates: { apiServer: { secretName: 'own' } },
  });
  assert.equal(running?.agent?.isRunning, true);
  assert.equal(running.servingCertificate?.secret, 'own');
  const hostile = withStatus({
    addons: { tcpProxy: { enabled: 'yes' } },
    certificates: { apiServer: { secretName: '../x' } },
  });
  assert.equal(hostile?.agent?.isRunning, undefined);
  assert.equal(hostile?.servingCertificate?.secret, 'tenant-00-api-server-certificate');
});

for (const controllerType of ['haproxy', 'nginx', 'traefik', 'generic']) {
  test(`controllerType: ${controllerType}, with konnectivity`, () => {
    const ingress = {
      ...documented.controlPlane.ingress,
      controllerType,
      additionalMetadata: { annotations: { a: 'b' } },
    };
    const { cluster } = of({ ...documented, controlPlane: { ...documented.controlPlane, ingress } });
    assert.deepEqual(cluster?.controlPlane?.ingress, {
      controllerType,
      className: 'traefik',
      annotations: { a: 'b' },
    });
    assert.equal(cluster.routes.length, 2);
  });
}

for (const annotation of ['steward.butlerlabs.dev/ingress.domain', DOMAIN]) {
  test(`hosts: annotation ${annotation}`, () => {
    const { routes } = of({ addons: { konnectivity: {} } }, { [annotation]: 'example.com' });
    assert.deepEqual(routes, {
      api: 'tenants-tenant-01.k8s.example.com → 10.244.0.7:6443',
      konnectivity: 'tenants-tenant-01.konnectivity.example.com → 10.244.0.7:8132',
    });
    const [finding] = of({}, { [annotation]: 'a b' }).findings;
    assert.match(finding.text, new RegExp(`^annotation ${annotation} must be `));
  });
}

test("hosts: Steward's annotation before Kamaji's", () => {
  const { routes } = of({}, { [DOMAIN]: 'a.test', 'steward.butlerlabs.dev/ingress.domain': 'b.test' });
  assert.deepEqual(routes, { api: 'tenants-tenant-01.k8s.b.test → 10.244.0.7:6443' });
});

test('hosts: the plan refuses a name that every cluster has inside, so there is no advice about it', () => {
  const { codes, routes } = of({
    controlPlane: { ingress: { hostname: 'kubernetes.default.svc.cluster.local:443' } },
  });
  assert.deepEqual(codes, ['warning ReconcilerTypeMissing']);
  assert.deepEqual(routes, { api: 'kubernetes.default.svc.cluster.local → 10.244.0.7:6443' });
});
