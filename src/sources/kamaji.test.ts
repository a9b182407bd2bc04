// Feature tests of Kamaji: given a TenantControlPlane, then its cluster and findings.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import {
  CREATED,
  DOMAIN,
  documentedTenant,
  fixedLookup,
  madeOf,
  type SampleTenant,
  sampleTenant,
  UID,
} from './tenant.samples.ts';
import type { TenantOptions } from './tenant-cluster.ts';

const API = 'apezzuto-tenant-00.k8s.clastix.cloud';
const KONNECTIVITY = 'apezzuto-tenant-00.konnectivity.clastix.cloud';
const annotated = { [DOMAIN]: 'clastix.cloud' };
const NO_HOSTNAME = 'info HostnamePortMissing';
const NO_SAN = 'warning CertificateSanMissing';
const NO_ARGS = 'warning KonnectivityArgsMissing';

test('the object of the guide gives exactly its hosts, and no findings', () => {
  const { cluster, routes, findings } = madeOf(documentedTenant(), { wantsReconcilerNone: true });
  assert.deepEqual(findings, []);
  assert.deepEqual(routes, {
    api: `${API} → 10.244.0.7:6443`,
    konnectivity: `${KONNECTIVITY} → 10.244.0.7:8132`,
  });
  assert.equal(cluster?.name, 'apezzuto.tenant-00');
  assert.equal(cluster.id, UID);
  assert.deepEqual(cluster.origin, {
    source: 'kamaji',
    object: {
      apiVersion: 'kamaji.clastix.io/v1alpha1',
      kind: 'TenantControlPlane',
      namespace: 'apezzuto',
      name: 'tenant-00',
      uid: UID,
      createdAt: CREATED,
    },
  });
  assert.deepEqual(
    cluster.routes.map(({ service, pool }) => [service?.port, pool.balance, pool.health.check]),
    [
      [6443, 'source', 'tls'],
      [8132, 'round-robin', 'tcp'],
    ],
  );
  assert.equal(cluster.allow, undefined);
  assert.deepEqual(cluster.controlPlane, {
    isPaused: false,
    ingress: { className: 'unhandled', annotations: {} },
    kubeconfig: {
      namespace: 'apezzuto',
      secret: 'tenant-00-admin-kubeconfig',
      keys: ['admin.svc', 'admin.conf'],
    },
    servingCertificate: {
      namespace: 'apezzuto',
      secret: 'tenant-00-api-server-certificate',
      certKey: 'apiserver.crt',
      keyKey: 'apiserver.key',
    },
    certSANs: [API, KONNECTIVITY],
  });
});

interface Case {
  readonly given: string;
  readonly tenant: SampleTenant;
  readonly options?: Partial<TenantOptions>;
  /** Undefined: it is not exposed. */
  readonly expected: Record<string, string> | undefined;
  readonly codes?: readonly string[];
}

const ingress = (hostname: unknown, rest: object = {}) => ({
  controlPlane: { ingress: { hostname } },
  ...rest,
});
const konnectivity = (...extraArgs: readonly unknown[]) => ({ konnectivity: { agent: { extraArgs } } });

const exposure: readonly Case[] = [
  { given: 'neither annotation nor hostname', tenant: { spec: {} }, expected: undefined },
  { given: 'no spec at all', tenant: {}, expected: undefined },
  {
    given: 'the annotation, konnectivity off',
    tenant: { annotations: annotated, spec: {} },
    expected: { api: `${API} → 10.244.0.7:6443` },
    codes: [NO_SAN, NO_HOSTNAME],
  },
  {
    given: 'the annotation, konnectivity on',
    tenant: { annotations: annotated, spec: { addons: { konnectivity: {} } } },
    expected: { api: `${API} → 10.244.0.7:6443`, konnectivity: `${KONNECTIVITY} → 10.244.0.7:8132` },
    codes: [NO_SAN, NO_HOSTNAME, NO_ARGS],
  },
  {
    given: 'the annotation in capitals, with a final dot',
    tenant: { annotations: { [DOMAIN]: 'Clastix.Cloud.' }, spec: {} },
    expected: { api: `${API} → 10.244.0.7:6443` },
    codes: [NO_SAN, NO_HOSTNAME],
  },
  {
    given: 'an annotation without value, and a domain of the source',
    tenant: { annotations: { [DOMAIN]: '' }, spec: {} },
    options: { domain: 'clastix.cloud' },
    expected: { api: `${API} → 10.244.0.7:6443` },
    codes: [NO_SAN, NO_HOSTNAME],
  },
  {
    given: 'an annotation without value, and no domain',
    tenant: { annotations: { [DOMAIN]: '' }, spec: {} },
    expected: { api: ' → 10.244.0.7:6443' },
    codes: ['warning HostMissing'],
  },
  {
    given: 'expose: all with a domain',
    tenant: { spec: { addons: { konnectivity: {} } } },
    options: { expose: 'all', domain: 'clastix.cloud' },
    expected: { api: `${API} → 10.244.0.7:6443`, konnectivity: `${KONNECTIVITY} → 10.244.0.7:8132` },
    codes: [NO_SAN, NO_HOSTNAME, NO_ARGS],
  },
  {
    given: 'expose: all without a domain',
    tenant: { spec: {} },
    options: { expose: 'all' },
    expected: { api: ' → 10.244.0.7:6443' },
    codes: ['warning HostMissing'],
  },
  {
    given: 'a hostname, which the domain of the source does not replace',
    tenant: { spec: ingress('api.example.com:443') },
    options: { expose: 'all', domain: 'clastix.cloud' },
    expected: { api: 'api.example.com → 10.244.0.7:6443' },
    codes: [NO_SAN],
  },
  {
    given: 'a hostname with a port',
    tenant: { spec: ingress('api.example.com:8443') },
    expected: { api: 'api.example.com → 10.244.0.7:6443' },
    codes: [NO_SAN],
  },
  {
    given: 'a hostname without a port',
    tenant: { spec: ingress('API.example.com.') },
    expected: { api: 'api.example.com → 10.244.0.7:6443' },
    codes: [NO_SAN, 'warning HostnamePortMissing'],
  },
  {
    given: 'a hostname without a port, where the API server has 443',
    tenant: {
      spec: ingress('api.example.com', { networkProfile: { port: 443, certSANs: ['api.example.com'] } }),
    },
    expected: { api: 'api.example.com → 10.244.0.7:6443' },
  },
  {
    given: "the gateway's hostname",
    tenant: { spec: { controlPlane: { gateway: { hostname: 'gw.example.com' } } } },
    expected: { api: 'gw.example.com → 10.244.0.7:6443' },
    codes: [NO_SAN],
  },
  {
    given: 'annotation and hostname: both, each once',
    tenant: { annotations: annotated, spec: ingress('api.example.com:443') },
    expected: { api: `${API} api.example.com → 10.244.0.7:6443` },
    codes: [NO_SAN],
  },
  {
    given: 'via: clusterIP',
    tenant: { annotations: annotated, spec: {} },
    options: { via: 'clusterIP' },
    expected: { api: `${API} → 10.96.0.9:6443` },
    codes: [NO_SAN, NO_HOSTNAME],
  },
];

const konnectivityHosts: readonly Case[] = [
  {
    given: '--proxy-server-host=… without a domain',
    tenant: {
      spec: ingress('api.example.com:443', {
        addons: konnectivity('--v=2', '--proxy-server-host=K.example.com', '--proxy-server-port=443'),
        networkProfile: { certSANs: ['*.example.com'] },
      }),
    },
    expected: { api: 'api.example.com → 10.244.0.7:6443', konnectivity: 'k.example.com → 10.244.0.7:8132' },
  },
  {
    given: 'the same as two items, and without a port',
    tenant: {
      spec: ingress('api.example.com:443', {
        addons: konnectivity('--proxy-server-host', 'k.example.com'),
        networkProfile: { certSANs: ['*.example.com'] },
      }),
    },
    expected: { api: 'api.example.com → 10.244.0.7:6443', konnectivity: 'k.example.com → 10.244.0.7:8132' },
    codes: [NO_ARGS],
  },
  {
    given: 'the annotation and another --proxy-server-host',
    tenant: {
      annotations: annotated,
      spec: ingress(`${API}:443`, {
        addons: konnectivity('--proxy-server-host=k.example.com', '--proxy-server-port=443'),
        networkProfile: { certSANs: [API, KONNECTIVITY] },
      }),
    },
    expected: { api: `${API} → 10.244.0.7:6443`, konnectivity: `${KONNECTIVITY} → 10.244.0.7:8132` },
    codes: [NO_ARGS],
  },
  ...[[], ['--proxy-server-host'], ['--proxy-server-host=192.0.2.7'], [7, null, '--proxy-server-host=']].map(
    args => ({
      given: `no host for konnectivity: ${JSON.stringify(args)}`,
      tenant: {
        spec: ingress('t.k8s.example.com:443', {
          addons: konnectivity(...args),
          networkProfile: { certSANs: ['t.k8s.example.com'] },
        }),
      },
      expected: { api: 't.k8s.example.com → 10.244.0.7:6443' },
      codes: ['error KonnectivityHostMissing'],
    }),
  ),
  {
    given: 'the host of the API server for konnectivity too',
    tenant: {
      spec: ingress('api.example.com:443', {
        addons: konnectivity('--proxy-server-host=api.example.com', '--proxy-server-port=443'),
        networkProfile: { certSANs: ['api.example.com'] },
      }),
    },
    expected: { api: 'api.example.com → 10.244.0.7:6443' },
    codes: ['error HostInvalid'],
  },
];

const long = 'x'.repeat(60);
const badHosts: readonly Case[] = [
  ...[
    '*.clastix.cloud',
    'a b',
    '10.0.0.1',
    'x\0y',
    '*',
    'https://clastix.cloud',
    'ä.example',
    `${long}${long}`,
  ].map(domain => ({
    given: `a domain that is none: ${JSON.stringify(domain)}`,
    tenant: { annotations: { [DOMAIN]: domain }, spec: {} },
    expected: { api: ' → 10.244.0.7:6443' },
    codes: ['error HostInvalid'],
  })),
  ...[
    '*.example.com:443',
    'api.example.com:0',
    'api.example.com:70000',
    'api.example.com:https',
    '[2001:db8::1]:443',
    7,
    { a: 1 },
    ['api.example.com'],
  ].map(hostname => ({
    given: `a hostname that is none: ${JSON.stringify(hostname)}`,
    tenant: { spec: ingress(hostname) },
    expected: { api: ' → 10.244.0.7:6443' },
    codes: ['error HostInvalid'],
  })),
  {
    given: 'a wildcard as hostname of the gateway, beside a good domain',
    tenant: { annotations: annotated, spec: { controlPlane: { gateway: { hostname: '*.example.com' } } } },
    expected: { api: `${API} → 10.244.0.7:6443` },
    codes: ['error HostInvalid', NO_SAN],
  },
  {
    given: 'a namespace and a name that are too long for one label',
    tenant: { namespace: long, annotations: annotated, spec: {} },
    expected: { api: ' → 10.244.0.7:6443' },
    codes: ['error HostInvalid'],
  },
];

for (const { given, tenant, options, expected, codes = [] } of [
  ...exposure,
  ...konnectivityHosts,
  ...badHosts,
]) {
  test(`hosts: ${given}`, () => {
    const made = madeOf(sampleTenant(tenant), options);
    assert.deepEqual(made.routes, expected);
    assert.deepEqual(made.codes, codes.toSorted());
  });
}

const services = [
  {
    given: 'no Service',
    found: { kind: 'no-service' },
    code: 'ServiceMissing',
    text: /'apezzuto\/tenant-00' does not exist/,
    ports: [6443, 8132],
  },
  {
    given: 'no port',
    found: { kind: 'no-port', ports: ['web (80)'] },
    code: 'PortMissing',
    text: /web \(80\)/,
    ports: [6443, 8132],
  },
  {
    given: 'ExternalName',
    found: { kind: 'unusable', why: 'its type is ExternalName' },
    code: 'BackendForbidden',
    text: /its type is ExternalName/,
    ports: [undefined, undefined],
  },
  {
    given: 'no endpoints',
    found: { kind: 'found', service: { namespace: 'apezzuto', name: 'tenant-00', port: 1 }, backends: [] },
    code: 'NoEndpoints',
    text: /port 1\b/,
    ports: [1, 1],
  },
] as const;

for (const { given, found, code, text, ports } of services) {
  test(`backends: ${given}: the hosts stay claimed`, () => {
    const { cluster, routes, findings } = madeOf(documentedTenant(), {}, fixedLookup(found));
    assert.deepEqual(routes, { api: `${API} → `, konnectivity: `${KONNECTIVITY} → ` });
    assert.deepEqual(
      new Set(findings.map(({ severity, code }) => `${severity} ${code}`)),
      new Set([`error ${code}`]),
    );
    assert.match(findings[0].text, text);
    assert.deepEqual(
      cluster?.routes.map(({ service }) => service?.port),
      ports,
    );
  });
}

test('backends: ports by number, where none has the usual name', () => {
  const spec = {
    networkProfile: { port: 7443 },
    addons: { konnectivity: { server: { port: 9132 } } },
  };
  const object = sampleTenant({ annotations: annotated, spec });
  const { routes } = madeOf(object, {}, fixedLookup(undefined, [7443, 9132]));
  assert.deepEqual(routes, {
    api: `${API} → 10.244.0.7:7443`,
    konnectivity: `${KONNECTIVITY} → 10.244.0.7:9132`,
  });
});

for (const name of ['a.b', 'x'.repeat(64), 'a.kube-system']) {
  test(`backends: no Service can be called '${name}', so there is no cluster`, () => {
    const { cluster, findings } = madeOf(sampleTenant({ name, annotations: annotated }));
    assert.equal(cluster, undefined);
    assert.deepEqual(
      findings.map(({ code, origin }) => [code, origin?.object?.name]),
      [['ServiceMissing', name]],
    );
  });
}

const ALLOW = 'causeway.dev/allow';
const allowed: readonly {
  readonly given: string;
  readonly ranges?: unknown;
  readonly annotation?: string;
  readonly expected: readonly string[] | undefined;
  readonly codes?: readonly string[];
}[] = [
  { given: 'neither', expected: undefined },
  { given: 'no ranges', ranges: [], expected: undefined },
  { given: 'null', ranges: null, expected: undefined },
  { given: 'ranges', ranges: ['192.168.1.0/24', '10.0.0.0/8'], expected: ['192.168.1.0/24', '10.0.0.0/8'] },
  {
    given: 'an annotation',
    annotation: '10.0.0.0/8, 2001:db8::/32,',
    expected: ['10.0.0.0/8', '2001:db8::/32'],
  },
  {
    given: 'both: what both admit',
    ranges: ['10.0.0.0/8', '192.0.2.0/24', '2001:db8::/32'],
    annotation: '10.1.0.0/16,192.0.0.0/16,198.51.100.0/24,::/0',
    expected: ['192.0.2.0/24', '2001:db8::/32', '10.1.0.0/16'],
  },
  { given: 'both, with nothing in common', ranges: ['10.0.0.0/8'], annotation: '::/0', expected: [] },
  {
    given: 'an annotation without value',
    annotation: ' , ',
    expected: [],
    codes: ['error AnnotationInvalid'],
  },
  {
    given: 'one bad entry',
    annotation: '10.0.0.0/8,10.0.0.0/33',
    expected: ['10.0.0.0/8'],
    codes: ['error AnnotationInvalid'],
  },
  { given: 'only bad entries', annotation: 'everyone', expected: [], codes: ['error AnnotationInvalid'] },
  {
    given: 'bad ranges',
    ranges: ['10.0.0.0/8', 'x', 7, null],
    expected: ['10.0.0.0/8'],
    codes: ['error AllowInvalid'],
  },
  { given: 'ranges that are no list', ranges: '0.0.0.0/0', expected: [], codes: ['error AllowInvalid'] },
  {
    given: 'more ranges than anyone needs',
    annotation: Array.from({ length: 10_000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`).join(),
    expected: Array.from({ length: 500 }, (_, i) => `10.0.${i >> 8}.${i & 255}`),
    codes: ['error AnnotationInvalid'],
  },
];

for (const { given, ranges, annotation, expected, codes = [] } of allowed) {
  test(`allow: ${given}`, () => {
    const annotations = { ...(annotation !== undefined && { [ALLOW]: annotation }) };
    const networkProfile = { certSANs: ['a.test'], loadBalancerSourceRanges: ranges };
    const made = madeOf(sampleTenant({ annotations, spec: ingress('a.test:443', { networkProfile }) }));
    assert.deepEqual(made.cluster?.allow, expected);
    assert.deepEqual(made.codes, codes);
  });
}

test("paused: ours freezes the objects, Kamaji's does not concern us", () => {
  const isPaused = (annotations: Record<string, string>) =>
    madeOf(sampleTenant({ annotations: { ...annotated, ...annotations } })).cluster?.controlPlane?.isPaused;
  assert.equal(isPaused({ 'causeway.dev/paused': 'true' }), true);
  assert.equal(isPaused({ 'causeway.dev/paused': 'yes' }), false);
  assert.equal(isPaused({ 'kamaji.clastix.io/paused': 'true' }), false);
});

test('kubeconfig: the Secret that the status names, unless that cannot be a name', () => {
  const secret = (secretName: unknown) =>
    madeOf(sampleTenant({ annotations: annotated, status: { kubeconfig: { admin: { secretName } } } }))
      .cluster?.controlPlane?.kubeconfig?.secret;
  assert.equal(secret('mine'), 'mine');
  for (const bad of ['../x', '', 'A', 7, null]) assert.equal(secret(bad), 'tenant-00-admin-kubeconfig');
});

test("ingress: its class and annotations; Kamaji has neither Steward's controllerType nor tcpProxy", () => {
  const additionalMetadata = { annotations: { a: 'b', c: 7 } };
  const own = {
    hostname: 'a.test:443',
    ingressClassName: 'own',
    controllerType: 'nginx',
    additionalMetadata,
  };
  const spec = { controlPlane: { ingress: own }, addons: { tcpProxy: {} } };
  const { cluster } = madeOf(sampleTenant({ spec }));
  assert.deepEqual(cluster?.controlPlane?.ingress, { className: 'own', annotations: { a: 'b' } });
  assert.equal(cluster.controlPlane.agent, undefined);
});

/** The objects in the YAML of a fix, in flow style. */
function yamlIn(fix: string): unknown {
  const [, yaml] = /((?:spec|metadata): \{.*\})/.exec(fix) ?? [];
  return parse(`{ ${yaml} }`);
}

const advice: readonly {
  readonly code: string;
  readonly severity: string;
  readonly spec: object;
  readonly options?: Partial<TenantOptions>;
  readonly yaml: object;
}[] = [
  {
    code: 'CertificateSanMissing',
    severity: 'warning',
    spec: { networkProfile: { certSANs: ['other.test', API] }, addons: { konnectivity: {} } },
    yaml: { spec: { networkProfile: { certSANs: [KONNECTIVITY] } } },
  },
  {
    code: 'HostnamePortMissing',
    severity: 'info',
    spec: {},
    yaml: { spec: { controlPlane: { ingress: { hostname: `${API}:443`, ingressClassName: 'unhandled' } } } },
  },
  {
    code: 'HostnamePortMissing',
    severity: 'warning',
    spec: ingress(API),
    yaml: { spec: { controlPlane: { ingress: { hostname: `${API}:443` } } } },
  },
  {
    code: 'KonnectivityArgsMissing',
    severity: 'warning',
    spec: ingress(`${API}:8443`, { addons: { konnectivity: {} } }),
    yaml: {
      spec: {
        addons: {
          konnectivity: {
            agent: { extraArgs: [`--proxy-server-host=${KONNECTIVITY}`, '--proxy-server-port=8443'] },
          },
        },
      },
    },
  },
  {
    code: 'ReconcilerTypeMissing',
    severity: 'warning',
    spec: {},
    options: { wantsReconcilerNone: true },
    yaml: {
      spec: {
        controlPlane: { deployment: { extraArgs: { apiServer: ['--endpoint-reconciler-type=none'] } } },
      },
    },
  },
  {
    code: 'ReconcilerTypeMissing',
    severity: 'warning',
    spec: {
      controlPlane: { deployment: { extraArgs: { apiServer: ['--endpoint-reconciler-type', 'lease'] } } },
    },
    options: { wantsReconcilerNone: true },
    yaml: {
      spec: {
        controlPlane: { deployment: { extraArgs: { apiServer: ['--endpoint-reconciler-type=none'] } } },
      },
    },
  },
  ...['LoadBalancer', 'NodePort'].map(serviceType => ({
    code: 'ServiceTypeUnusual',
    severity: 'info',
    spec: { controlPlane: { service: { serviceType } } },
    yaml: { spec: { controlPlane: { service: { serviceType: 'ClusterIP' } } } },
  })),
];

for (const { code, severity, spec, options, yaml } of advice) {
  test(`advice: ${code} has the YAML for ${JSON.stringify(spec)}`, () => {
    const { findings } = madeOf(sampleTenant({ annotations: annotated, spec }), options);
    const finding = findings.find(each => each.code === code);
    assert.ok(finding, JSON.stringify(findings));
    assert.equal(finding.severity, severity);
    assert.equal(finding.cluster, 'apezzuto.tenant-00');
    assert.equal(finding.origin?.object?.uid, UID);
    assert.deepEqual(yamlIn(finding.fix), yaml);
    assert.doesNotMatch(`${finding.text}${finding.fix}`, /\n/);
  });
}

test('advice: HostMissing and KonnectivityHostMissing have YAML too', () => {
  const missing = madeOf(sampleTenant(), { expose: 'all' }).findings;
  assert.deepEqual(yamlIn(missing[0].fix), { metadata: { annotations: { [DOMAIN]: 'example.com' } } });
  const spec = ingress('t.k8s.example.com:443', { addons: { konnectivity: {} } });
  const [first] = madeOf(sampleTenant({ spec })).findings;
  const extraArgs = ['--proxy-server-host=t.konnectivity.example.com', '--proxy-server-port=443'];
  assert.deepEqual(yamlIn(first.fix), { spec: { addons: { konnectivity: { agent: { extraArgs } } } } });
});

test('advice: the reconciler flag is asked for only where we write endpoints', () => {
  const { codes } = madeOf(sampleTenant({ annotations: annotated }));
  assert.ok(!codes.includes('warning ReconcilerTypeMissing'));
});
