// The objects of a tenant's agent, applied to a real API server with the kubeconfig from a Secret of another.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { UplinkKind } from '../../src/cluster/cluster.ts';
import type { TenantAgentOptions } from '../../src/config/config.ts';
import type { Answer } from '../../src/kube/kube-api.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { leases, resource } from '../../src/kube/resources.ts';
import { secrets } from '../../src/kube/tenant-credentials.ts';
import { openTenantAccess } from '../../src/outputs/tenant-access.ts';
import {
  sampleAgentContext,
  sampleAgentOptions,
  sampleTenant,
} from '../../src/outputs/tenant-agent.samples.ts';
import { tenantAgentObjects } from '../../src/outputs/tenant-agent-objects.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiServer } from '../../testbed/start-api-server.ts';
import { testClock } from '../../testbed/test-clock.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');

const context = {
  ...sampleAgentContext,
  keyOf: () => 'k'.repeat(43),
  certificateOf: () => ({ cert: 'CERT', key: 'KEY' }),
  tunnelHosts: ['tunnel.example.com'],
};

const addon = {
  image: 'registry.example.com/causeway:1',
  resources: { limits: { memory: '256Mi' }, requests: { cpu: '10m' } },
  hostAliases: [{ ip: '203.0.113.10', hostnames: ['gw.example.com'] }],
  internalEndpoint: '203.0.113.10',
};

test('the agent of a tenant can be applied with its admin kubeconfig, and has the rights it needs', {
  skip,
  timeout: 240_000,
}, async () => {
  await using server = await startApiServer();
  await server.kubectl('create', 'namespace', 'tenants');
  using management = openKubeClient({
    access: await openKubeAccess({ kubeconfig: await server.kubeconfig() }),
  });
  const clock = testClock();
  using access = openTenantAccess({ management: () => management, clock }, () => {});
  const tenant = sampleTenant(addon);
  access.update([tenant]);
  const api = access.apiOf(tenant.name);
  assert.ok(api);
  const codes = () => access.findings.map(({ code }) => code);

  assert.equal((await api.list(leases, {})).ok, false);
  assert.deepEqual(codes(), ['SecretMissing']);
  const kubeconfigText = await readFile(await server.kubeconfig({ as: 'token' }), 'utf8');
  const secret = (text: string) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'a-admin-kubeconfig', namespace: 'tenants' },
    data: { 'admin.conf': Buffer.from(text).toString('base64') },
  });
  ok(await management.create(secrets, secret(kubeconfigText.replace(server.token, 'wrong'))));
  await clock.advance(60_000);
  assert.equal((await api.list(leases, {})).ok, false);
  assert.deepEqual(codes(), ['KubeconfigInvalid']);
  ok(await management.replace(secrets, secret(kubeconfigText)));
  await clock.advance(60_000);
  ok(await api.list(leases, {}));
  assert.deepEqual(codes(), []);

  const apply = async (options: Partial<TenantAgentOptions>) => {
    const { objects = [] } = tenantAgentObjects(tenant, { ...sampleAgentOptions, ...options }, context);
    assert.ok(objects.length > 0);
    return Promise.all(
      objects.map(async each => ok(await api.apply(each.resource, each.object, { force: true }))),
    );
  };
  const kinds = ['Deployment', 'DaemonSet'] as const;
  const uplinks: readonly UplinkKind[] = ['proxy', 'connect', 'tunnel', 'terminate'];
  const extras = {
    imagePullSecrets: ['pull'],
    tolerations: [{ operator: 'Exists' }],
    gatewayAddresses: ['192.0.2.1'],
  };
  for (const kind of kinds) for (const uplink of uplinks) await apply({ kind, uplink, ...extras });
  const versions = (applied: Awaited<ReturnType<typeof apply>>) =>
    applied.map(({ metadata }) => metadata.resourceVersion);
  assert.deepEqual(versions(await apply({})), versions(await apply({})));
  // What `terminate` had is gone with it.
  const left = ok(await api.get(secrets, 'kube-system', 'causeway-agent'));
  assert.deepEqual(Object.keys(left.data ?? {}), ['key']);
  const deployments = resource('apps/v1', 'deployments', 'Deployment');
  const deployment = ok(await api.get(deployments, 'kube-system', 'causeway-agent'));
  const text = JSON.stringify(deployment);
  for (const part of ['"hostNetwork":true', '"ip":"203.0.113.10"', '"memory":"256Mi"', '"maxSurge":0'])
    assert.ok(text.includes(part), part);

  const can = async (...args: readonly string[]) => {
    const as = '--as=system:serviceaccount:kube-system:causeway-agent';
    const answer = await server.kubectl('auth', 'can-i', ...args, as).catch((error: Error) => error.message);
    return answer.trim().startsWith('yes');
  };
  for (const args of [
    'update endpointslices.discovery.k8s.io/kubernetes -n default',
    'create endpointslices.discovery.k8s.io -n default',
    'update endpoints/kubernetes -n default',
    'get services/kubernetes -n default',
    'create leases.coordination.k8s.io -n kube-system',
    'list servicecidrs.networking.k8s.io',
  ])
    assert.ok(await can(...args.split(' ')), args);
  for (const args of [
    'get secrets -n kube-system',
    'update endpointslices.discovery.k8s.io/other -n default',
    'delete endpoints/kubernetes -n default',
    'list pods -A',
    'create leases.coordination.k8s.io -n default',
  ])
    assert.equal(await can(...args.split(' ')), false, args);
});

function ok<T>(answer: Answer<T>): T {
  assert.ok(answer.ok, JSON.stringify(answer));
  return answer.value;
}
