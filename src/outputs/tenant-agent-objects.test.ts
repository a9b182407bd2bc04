import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AgentAddon, UplinkKind } from '../cluster/cluster.ts';
import { sampleRoute } from '../cluster/clusters.samples.ts';
import type { TenantAgentOptions } from '../config/config.ts';
import { sampleAgentContext, sampleAgentOptions, sampleTenant } from './tenant-agent.samples.ts';
import { rememberTenantAgents, tenantAgentObjects, tenantAgentResources } from './tenant-agent-objects.ts';
import type { TenantAgentContext } from './tenant-agent-options.ts';

interface Pod {
  readonly spec: {
    readonly containers: readonly {
      readonly args: readonly string[];
      readonly image: string;
      readonly resources: object;
      readonly env: readonly { readonly name: string }[];
    }[];
    readonly hostAliases?: readonly object[];
    readonly tolerations: readonly { readonly key?: string }[];
    readonly [key: string]: unknown;
  };
}

interface Spec {
  readonly template: Pod;
  readonly [key: string]: unknown;
}

const KEY = 'k'.repeat(43);
const keyOf = () => KEY;
const certificateOf = () => ({ cert: 'CERT', key: 'PRIVATE' });

function given(
  options: Partial<TenantAgentOptions> = {},
  context: Partial<TenantAgentContext> = {},
  cluster = sampleTenant(),
) {
  const { objects = [], findings } = tenantAgentObjects(
    cluster,
    { ...sampleAgentOptions, ...options },
    { ...sampleAgentContext, ...context },
  );
  const named = (kind: string) =>
    objects.find(({ object }) => object.kind === kind)?.object as unknown as
      | { readonly data?: object; readonly spec: Spec }
      | undefined;
  const spec = (named('Deployment') ?? named('DaemonSet'))?.spec;
  assert.ok(spec);
  return { objects, findings, named, spec, pod: spec.template };
}

test('tenantAgentObjects() has everything in order of need, called causeway-agent', () => {
  const { objects, findings } = given({}, { keyOf });
  assert.deepEqual(findings, []);
  assert.deepEqual(
    objects.map(({ object: { kind, metadata } }) => `${kind} ${metadata.namespace ?? '*'}/${metadata.name}`),
    [
      'ServiceAccount kube-system/causeway-agent',
      'Secret kube-system/causeway-agent',
      'Role default/causeway-agent',
      'RoleBinding default/causeway-agent',
      'Role kube-system/causeway-agent',
      'RoleBinding kube-system/causeway-agent',
      'ClusterRole */causeway-agent',
      'ClusterRoleBinding */causeway-agent',
      'Service kube-system/causeway-agent',
      'Deployment kube-system/causeway-agent',
    ],
  );
  for (const { resource } of objects) assert.ok(tenantAgentResources.includes(resource));
});

const uplinks: readonly [UplinkKind, Partial<TenantAgentContext>, readonly string[]][] = [
  ['proxy', {}, []],
  ['proxy', { keyOf }, ['--key-file=/etc/causeway-agent/key']],
  ['connect', { keyOf }, ['--key-file=/etc/causeway-agent/key']],
  [
    'tunnel',
    { keyOf, tunnelHosts: ['*.t.example.com', 'tunnel.example.com'] },
    ['--server-name=tunnel.example.com', '--key-file=/etc/causeway-agent/key'],
  ],
  ['tunnel', { keyOf, tunnelHosts: ['gw.example.com'] }, ['--key-file=/etc/causeway-agent/key']],
  [
    'terminate',
    { keyOf, certificateOf },
    [
      '--server-name=api.a.example.com',
      '--cert-file=/etc/causeway-agent/tls.crt',
      '--cert-key-file=/etc/causeway-agent/tls.key',
      '--ca-file=/etc/causeway-agent-ca/ca.crt',
    ],
  ],
];

for (const [uplink, context, expected] of uplinks) {
  test(`tenantAgentObjects() starts the uplink ${uplink} with ${expected.join(' ') || 'no further flags'}`, () => {
    const { pod } = given({ uplink, gatewayAddresses: ['203.0.113.10', '2001:db8::1'] }, context);
    const { args, env } = pod.spec.containers[0];
    assert.deepEqual(args, [
      'agent',
      '--cluster-id=0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11',
      '--gateway=gw.example.com:443',
      '--gateway-address=203.0.113.10',
      '--gateway-address=2001:db8::1',
      `--uplink=${uplink}`,
      ...expected,
      '--on=:6443',
      '--endpoints',
      '--metrics-on=:9441',
    ]);
    assert.ok(env.some(({ name }) => name === 'CAUSEWAY_AGENT_ADVERTISE'));
  });
}

test('tenantAgentObjects() has the key, or the certificate, in its Secret and nothing else', () => {
  const dataOf = (...args: Parameters<typeof given>) => given(...args).named('Secret')?.data;
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  assert.equal(dataOf(), undefined);
  assert.deepEqual(dataOf({}, { keyOf, certificateOf }), { key: base64(KEY) });
  assert.deepEqual(dataOf({ uplink: 'terminate' }, { keyOf, certificateOf }), {
    'tls.crt': base64('CERT'),
    'tls.key': base64('PRIVATE'),
  });
});

test('tenantAgentObjects() needs no rights and no token where agents write no endpoints', () => {
  const { objects, pod } = given({}, { writesEndpoints: false });
  assert.equal(pod.spec.automountServiceAccountToken, false);
  assert.equal(pod.spec.containers[0].args.includes('--endpoints'), false);
  assert.deepEqual(
    objects.map(({ object }) => object.kind),
    ['ServiceAccount', 'Service', 'Deployment'],
  );
});

test('tenantAgentObjects() runs on the network and DNS of nodes that are not ready', () => {
  const toleration = { key: 'own', operator: 'Exists' };
  const { pod, spec } = given({ replicas: 3, tolerations: [toleration], imagePullSecrets: ['pull'] });
  assert.equal(spec.replicas, 3);
  assert.deepEqual(spec.strategy, {
    type: 'RollingUpdate',
    rollingUpdate: { maxSurge: 0, maxUnavailable: 1 },
  });
  assert.equal(spec.minReadySeconds, 10);
  const { hostNetwork, dnsPolicy, priorityClassName, tolerations, imagePullSecrets } = pod.spec;
  assert.deepEqual([hostNetwork, dnsPolicy, priorityClassName], [true, 'Default', 'system-cluster-critical']);
  assert.deepEqual(imagePullSecrets, [{ name: 'pull' }]);
  const keys = tolerations.map(({ key }) => key);
  for (const key of ['node.kubernetes.io/not-ready', 'node.cilium.io/agent-not-ready', 'own'])
    assert.ok(keys.includes(key), key);
  // A drained node must not get it back.
  assert.equal(keys.includes('node.kubernetes.io/unschedulable'), false);
  assert.equal(keys.includes(undefined), false);
});

test('tenantAgentObjects() has a DaemonSet on every node where that is wanted', () => {
  const { named, pod, spec } = given({ kind: 'DaemonSet' });
  assert.equal(named('Deployment'), undefined);
  assert.equal('replicas' in spec, false);
  assert.deepEqual(pod.spec.tolerations, [{ operator: 'Exists' }]);
  assert.equal('affinity' in pod.spec, false);
});

test('tenantAgentObjects() takes image, resources, aliases and address from addons.tcpProxy', () => {
  const addon: AgentAddon = {
    image: 'registry.example.com/causeway:1',
    resources: { limits: { memory: '1Gi' }, claims: [{ name: 'x' }] },
    hostAliases: [{ ip: '203.0.113.10', hostnames: ['gw.example.com'] }],
    internalEndpoint: '10.40.0.201',
  };
  const options = { image: 'other', resources: { limits: { cpu: 1 } }, gatewayAddresses: ['203.0.113.10'] };
  const { pod, findings } = given(options, {}, sampleTenant(addon));
  assert.deepEqual(findings, []);
  const { image, resources, args } = pod.spec.containers[0];
  assert.deepEqual([image, resources], ['registry.example.com/causeway:1', { limits: { memory: '1Gi' } }]);
  assert.deepEqual(pod.spec.hostAliases, [{ ip: '203.0.113.10', hostnames: ['gw.example.com'] }]);
  assert.deepEqual(
    args.filter(arg => arg.startsWith('--gateway-address')),
    ['--gateway-address=203.0.113.10', '--gateway-address=10.40.0.201'],
  );
});

test('tenantAgentObjects() falls back to its own image and modest requests', () => {
  const { image, resources } = given().pod.spec.containers[0];
  assert.deepEqual([image, resources], ['causeway:0.1.0', { requests: { cpu: '50m', memory: '128Mi' } }]);
});

for (const image of [
  'ghcr.io/butlerdotdev/steward-tcp-proxy:v0.2.0',
  'mirror.lab:5000/x/steward-tcp-proxy@sha256:00',
  'steward-tcp-proxy',
]) {
  test(`tenantAgentObjects() does not run ${image}, and says so`, () => {
    const { pod, findings } = given({ image: 'ours' }, {}, sampleTenant({ image }));
    assert.equal(pod.spec.containers[0].image, 'ours');
    assert.deepEqual(
      findings.map(({ code, severity, cluster }) => [code, severity, cluster]),
      [['ImageReplaced', 'info', 'tenants.a']],
    );
    assert.ok(findings[0].text.includes(image));
  });
}

test('tenantAgentObjects() reports that Steward’s tcp-proxy runs beside it', () => {
  assert.deepEqual(given({}, {}, sampleTenant({ isRunning: false })).findings, []);
  const { findings } = given({}, {}, sampleTenant({ isRunning: true }));
  assert.deepEqual(
    findings.map(({ code, severity, origin }) => [code, severity, origin?.object?.name]),
    [['TcpProxyBeside', 'warning', 'a']],
  );
});

test('tenantAgentObjects() leaves out what the API server would refuse, and says so', () => {
  const hostAliases = [
    { ip: '203.0.113.10', hostnames: ['GW.example.com', 'bad host', '*.x'] },
    { ip: 'nonsense', hostnames: ['x.lab'] },
    { ip: '203.0.113.11', hostnames: [] },
  ];
  const { pod, findings } = given({}, {}, sampleTenant({ hostAliases, internalEndpoint: 'node.lab:443' }));
  assert.deepEqual(pod.spec.hostAliases, [{ ip: '203.0.113.10', hostnames: ['gw.example.com'] }]);
  assert.deepEqual(
    findings.map(({ code, severity }) => `${code} ${severity}`),
    ['HostInvalid warning', 'HostInvalid warning', 'HostInvalid warning'],
  );
});

for (const [endpoint, address] of [
  ['10.0.0.1:30443', '10.0.0.1'],
  ['[2001:db8::1]:443', '2001:db8::1'],
  ['2001:db8::1', '2001:db8::1'],
  [' 10.0.0.1 ', '10.0.0.1'],
]) {
  test(`tenantAgentObjects() understands internalEndpoint '${endpoint}'`, () => {
    const { pod, findings } = given({}, {}, sampleTenant({ internalEndpoint: endpoint }));
    assert.deepEqual(findings, []);
    assert.ok(pod.spec.containers[0].args.includes(`--gateway-address=${address}`));
  });
}

test('tenantAgentObjects() uses the API host where no gateway is given', () => {
  const { gateway: _, ...options } = sampleAgentOptions;
  const { objects = [] } = tenantAgentObjects(sampleTenant(), options, sampleAgentContext);
  assert.ok(JSON.stringify(objects).includes('--gateway=api.a.example.com:443'));
  const wild = sampleTenant(undefined, { routes: [sampleRoute({ hosts: ['*.a.lab'] })] });
  const without = tenantAgentObjects(wild, options, sampleAgentContext);
  assert.equal(without.objects, undefined);
  assert.deepEqual(
    without.findings.map(({ code }) => code),
    ['HostMissing'],
  );
});

test('tenantAgentObjects() says nothing about objects that it cannot tell now', () => {
  const codesOf = (options: Partial<TenantAgentOptions>, context: Partial<TenantAgentContext>) => {
    const result = tenantAgentObjects(
      sampleTenant(),
      { ...sampleAgentOptions, ...options },
      { ...sampleAgentContext, ...context },
    );
    assert.equal(result.objects, undefined);
    return result.findings.map(({ code }) => code);
  };
  assert.deepEqual(codesOf({ uplink: 'terminate' }, { certificateOf: () => undefined }), []);
  assert.deepEqual(codesOf({ uplink: 'tunnel' }, {}), ['OutputRejected']);
});

test('rememberTenantAgents() gives the same objects until cluster or certificate changes', () => {
  let certificate = { cert: 'A', key: 'B' };
  const options = { ...sampleAgentOptions, uplink: 'terminate' as const };
  const agentOf = rememberTenantAgents(options, { ...sampleAgentContext, certificateOf: () => certificate });
  const tenant = sampleTenant();
  const first = agentOf(tenant);
  assert.equal(agentOf(tenant), first);
  certificate = { cert: 'C', key: 'D' };
  const second = agentOf(tenant);
  assert.notEqual(second, first);
  assert.equal(agentOf(tenant), second);
  assert.notEqual(agentOf({ ...tenant }), second);
});
