// The source of annotated Services against a real API server: Services of every type, as kubectl writes them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { openServices } from '../../src/sources/services.ts';
import type { Observation } from '../../src/sources/source.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiServer } from '../../testbed/start-api-server.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const PATIENCE_MS = 60_000;

function service(
  name: string,
  spec: object,
  annotations: object = { 'causeway.dev/hosts': `${name}.example.com` },
) {
  const ports = [{ name: 'https', port: 443, targetPort: 6443 }];
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'team-a', annotations, labels: { exposed: 'yes' } },
    spec: { ports, ...spec },
  };
}

function slice(service: string, addressType: string, addresses: readonly string[]) {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${service}-${addressType.toLowerCase()}`,
      namespace: 'team-a',
      labels: { 'kubernetes.io/service-name': service },
    },
    addressType,
    endpoints: addresses.map((address, i) => ({ addresses: [address], conditions: { ready: i === 0 } })),
    ports: [{ name: 'https', port: 6443 }],
  };
}

/** `name: backends`, and `name: code` for findings. */
function summary({ clusters, findings }: Observation): string[] {
  const backends = clusters.map(
    ({ name, routes }) => `${name}: ${routes[0].pool.backends.map(({ text }) => text).join(' ')}`,
  );
  const codes = findings.map(({ origin, code }) => `${origin?.object?.name}: ${code}`);
  return [...backends, ...codes].toSorted();
}

test('openServices() makes clusters of the Services of a real API server', {
  skip,
  timeout: 240_000,
}, async () => {
  await using server = await startApiServer();
  using api = openKubeClient({ access: await openKubeAccess({ kubeconfig: await server.kubeconfig() }) });
  const open = (via: 'endpoints' | 'clusterIP', selector?: string) =>
    openServices(
      { domains: ['example.com'], via, selector },
      { name: 'services', folder: '/', kubeApi: () => api },
      () => {},
    );
  await using endpoints = open('endpoints');
  await using clusterIps = open('clusterIP', 'exposed=yes,team!=b');
  await using wrong = open('endpoints', 'no selector');
  const within = async (condition: () => boolean) => {
    const end = performance.now() + PATIENCE_MS;
    while (!condition() && performance.now() < end) await setTimeout(50);
  };
  const until = async (source: typeof endpoints, expected: readonly string[]) => {
    await within(() => summary(source.observe()).join() === expected.join());
    assert.deepEqual(summary(source.observe()), expected);
  };

  const evil = { 'causeway.dev/hosts': 'a b,\u0000', 'causeway.dev/allow': 'all', 'causeway.dev/id': '?' };
  await server.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'team-a' } },
    service('normal', { selector: { app: 'x' }, clusterIP: '10.96.0.50' }),
    service('headless', { selector: { app: 'x' }, clusterIP: 'None' }),
    service('manual', { clusterIP: '10.96.0.51' }),
    service('external', { type: 'ExternalName', externalName: 'evil.example.com' }),
    service('evil', { clusterIP: '10.96.0.52' }, evil),
    service('silent', { clusterIP: '10.96.0.53' }, {}),
    slice('normal', 'IPv4', ['192.0.2.1', '192.0.2.2']),
    slice('normal', 'IPv6', ['2001:db8::1']),
    slice('headless', 'IPv4', ['192.0.2.3']),
    slice('manual', 'IPv4', ['192.0.2.4']),
    slice('external', 'IPv4', ['192.0.2.5']),
    slice('evil', 'FQDN', ['evil.example.com']),
  );
  const bad = [
    'evil: AnnotationInvalid',
    'evil: AnnotationInvalid',
    'evil: AnnotationInvalid',
    'evil: HostInvalid',
  ];
  await until(endpoints, [
    ...bad,
    'evil: NoEndpoints',
    'external: BackendForbidden',
    'team-a.evil: ',
    'team-a.external: ',
    'team-a.headless: 192.0.2.3:6443',
    'team-a.manual: 192.0.2.4:6443',
    'team-a.normal: 192.0.2.1:6443 [2001:db8::1]:6443',
  ]);
  await until(clusterIps, [
    ...bad,
    'external: BackendForbidden',
    'headless: BackendForbidden',
    'team-a.evil: 10.96.0.52:443',
    'team-a.external: ',
    'team-a.headless: ',
    'team-a.manual: 10.96.0.51:443',
    'team-a.normal: 10.96.0.50:443',
  ]);
  const { complete, error } = endpoints.observe();
  assert.deepEqual([complete, error], [true, undefined]);

  await server.kubectl('delete', 'service', '-n', 'team-a', 'evil', 'external', 'headless');
  await server.kubectl(
    'annotate',
    'service',
    '-n',
    'team-a',
    'silent',
    'causeway.dev/id=s',
    'causeway.dev/cluster=s',
  );
  await server.kubectl('label', 'service', '-n', 'team-a', 'manual', 'team=b');
  await server.kubectl('delete', 'endpointslice', '-n', 'team-a', 'normal-ipv4');
  await until(endpoints, [
    's: ',
    'silent: NoEndpoints',
    'team-a.manual: 192.0.2.4:6443',
    'team-a.normal: [2001:db8::1]:6443',
  ]);
  await until(clusterIps, ['s: 10.96.0.53:443', 'team-a.normal: 10.96.0.50:443']);
  assert.equal(endpoints.observe().clusters.find(({ name }) => name === 's')?.id, 's');

  await within(() => wrong.observe().error !== undefined);
  const refused = wrong.observe();
  assert.deepEqual([refused.clusters, refused.synced], [[], false]);
  assert.match(refused.error ?? '', /^400 BadRequest: .*selector/);
});
