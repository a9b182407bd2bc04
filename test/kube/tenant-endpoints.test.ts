// The endpoints of a tenant's default/kubernetes, written from outside, on a real API server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { sampleTenant } from '../../src/outputs/tenant-agent.samples.ts';
import { openTenantEndpoints } from '../../src/outputs/tenant-endpoints.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { testClock } from '../../testbed/test-clock.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');

test('tenantEndpoints leads default/kubernetes to the agents that run', {
  skip,
  timeout: 240_000,
}, async () => {
  await using server = await startApiServer();
  await server.kubectl('create', 'serviceaccount', 'default', '-n', 'kube-system');
  using api = openKubeClient({ access: await openKubeAccess({ kubeconfig: await server.kubeconfig() }) });
  const clock = testClock();
  const log: string[] = [];
  await using output = openTenantEndpoints(
    {
      address: 'agents',
      apiOf: () => api,
      isLeader: () => true,
      log: (_, sentence) => log.push(sentence),
      clock,
    },
    () => {},
  );
  const field = (kind: string, path: string) =>
    server
      .kubectl('get', kind, 'kubernetes', '-n', 'default', '--ignore-not-found', '-o', `jsonpath=${path}`)
      .then(text => text.trim());
  const until = async (condition: () => Promise<boolean>) => {
    while (!(await condition())) await clock.advance(1000);
  };
  await startPod(server, 'a', '192.0.2.1');
  await startPod(server, 'b', '192.0.2.2');
  output.update([sampleTenant()]);
  await until(async () => log.length >= 2);
  assert.equal(await field('endpointslice', '{.endpoints[*].addresses[*]}'), '192.0.2.1 192.0.2.2');
  assert.equal(await field('endpoints', '{.subsets[*].addresses[*].ip}'), '192.0.2.1 192.0.2.2');
  assert.equal(await field('endpointslice', '{.ports[0].port}'), '6443');
  await server.kubectl('delete', 'pod', 'a', '-n', 'kube-system', '--force', '--grace-period=0');
  await until(async () => log.length >= 4);
  assert.equal(await field('endpointslice', '{.endpoints[*].addresses[*]}'), '192.0.2.2');
  assert.deepEqual(output.findings, []);
});

/** As scheduler and kubelet would. */
async function startPod(server: ApiServer, name: string, ip: string): Promise<void> {
  const metadata = { name, namespace: 'kube-system', labels: { 'app.kubernetes.io/name': 'causeway-agent' } };
  const spec = { containers: [{ name: 'agent', image: 'causeway' }], automountServiceAccountToken: false };
  await server.apply({ apiVersion: 'v1', kind: 'Pod', metadata, spec });
  const status = JSON.stringify({ status: { phase: 'Running', podIP: ip, podIPs: [{ ip }] } });
  const patch = ['--subresource=status', '--type=merge', '-p', status];
  await server.kubectl('patch', 'pod', name, '-n', 'kube-system', ...patch);
}
