// What `causeway render rbac` prints is enough for what the controller does, and not for more: a real API server decides.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Answer, KubeApi } from '../../src/kube/kube-api.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import { kubeEvent } from '../../src/kube/kube-event.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import {
  customResourceDefinitions,
  endpointSlices,
  events,
  leases,
  resource,
  services,
} from '../../src/kube/resources.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { kubeconfig, kubectl } from '../../testbed/kubectl.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { tempDir } from '../../testbed/temp-dir.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const controlPlanes = resource('kamaji.clastix.io/v1alpha1', 'tenantcontrolplanes', 'TenantControlPlane');
const ingresses = resource('networking.k8s.io/v1', 'ingresses', 'Ingress');
const secrets = resource('v1', 'secrets', 'Secret');

const FILE = `listen: [":6443"]
sources:
  - kamaji: { namespaces: [tenants] }
outputs:
  - ingress: {}
  - tenantAgent: { gateway: "gw.example.com:443" }
`;

const controlPlane = {
  apiVersion: 'kamaji.clastix.io/v1alpha1',
  kind: 'TenantControlPlane',
  metadata: { name: 'a', namespace: 'tenants' },
  spec: {
    controlPlane: { deployment: { replicas: 1 }, service: { serviceType: 'ClusterIP' } },
    kubernetes: { version: 'v1.33.0', kubelet: { cgroupfs: 'systemd' } },
    networkProfile: { port: 6443 },
  },
};

const ingress = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  metadata: { name: 'a', namespace: 'tenants' },
  spec: { defaultBackend: { service: { name: 'a', port: { number: 6443 } } } },
};

test('render rbac lets its ServiceAccount do what is needed, and nothing else', {
  skip,
  timeout: 240_000,
}, async () => {
  await using server = await startApiServer();
  await using dir = await tempDir();
  await prepare(server);
  await writeFile(dir.file('causeway.yaml'), FILE);
  const rendered = await run(`${ROOT}/bin/causeway`, ['render', 'rbac', '-c', dir.file('causeway.yaml')]);
  assert.deepEqual([rendered.code, rendered.stderr], [0, '']);
  await writeFile(dir.file('rbac.yaml'), rendered.stdout);
  await server.kubectl('apply', '-f', dir.file('rbac.yaml'));
  const token = (await server.kubectl('create', 'token', 'causeway', '-n', 'causeway-system')).trim();
  const user = { token };
  await writeFile(
    dir.file('kubeconfig'),
    await kubeconfig({ server: server.url, caFile: server.caFile, user }),
  );
  using api = openKubeClient({ access: await openKubeAccess({ kubeconfig: dir.file('kubeconfig') }) });

  await works(api);
  const mayNot = async (...args: readonly string[]) => {
    const { stdout } = await kubectl(dir.file('kubeconfig'), ['auth', 'can-i', ...args]);
    assert.equal(stdout.toString().trim(), 'no', `it may ${args.join(' ')}`);
  };
  for (const args of forbidden) await mayNot(...args.split(' '));
});

const forbidden: readonly string[] = [
  'list secrets -n tenants',
  'get secrets -n default',
  'get secrets -n causeway-system',
  'patch secrets -n tenants',
  'list tenantcontrolplanes.kamaji.clastix.io -n default',
  'delete tenantcontrolplanes.kamaji.clastix.io -n tenants',
  'create tenantcontrolplanes.kamaji.clastix.io -n tenants',
  'patch services -n tenants',
  'list services -n default',
  'list endpointslices.discovery.k8s.io -A',
  'create pods -n tenants',
  'get nodes',
  'list namespaces',
  'update leases.coordination.k8s.io/other -n causeway-system',
  'list leases.coordination.k8s.io -n causeway-system',
  'get leases.coordination.k8s.io -n tenants',
  'create events.events.k8s.io -n default',
  'get customresourcedefinitions.apiextensions.k8s.io/others.example.com',
  'list customresourcedefinitions.apiextensions.k8s.io',
  'create ingresses.networking.k8s.io -n default',
  'create roles.rbac.authorization.k8s.io -n tenants',
  'impersonate users',
];

async function prepare(server: ApiServer): Promise<void> {
  await installDefinition(server, 'kamaji-tenantcontrolplanes', 'tenantcontrolplanes.kamaji.clastix.io');
  for (const name of ['tenants', 'causeway-system']) await server.kubectl('create', 'namespace', name);
  await server.kubectl('create', 'serviceaccount', 'causeway', '-n', 'causeway-system');
  await server.kubectl('create', 'secret', 'generic', 'a-admin-kubeconfig', '-n', 'tenants');
  await server.apply(controlPlane);
}

/** Every kind of call that the controller makes. */
async function works(api: KubeApi): Promise<void> {
  const namespace = 'tenants';
  for (const each of [controlPlanes, services, endpointSlices, ingresses])
    ok(await api.list(each, { namespace }), `list ${each.plural}`);
  for (const each of [controlPlanes, services, endpointSlices, ingresses])
    await watches(api, each as typeof services);
  ok(await api.get(customResourceDefinitions, undefined, 'tenantcontrolplanes.kamaji.clastix.io'), 'get crd');
  const found = ok(await api.get(controlPlanes, namespace, 'a'), 'get');
  const annotations = { 'causeway.dev/status': '{}' };
  ok(await api.merge(controlPlanes, namespace, 'a', { metadata: { annotations } }), 'annotate');
  const words = { reason: 'HostClaimed', note: 'x', action: 'Plan', instance: 'a', now: new Date() };
  ok(await api.create(events, kubeEvent({ regarding: found, type: 'Warning', ...words })), 'event');
  ok(await api.get(secrets, namespace, 'a-admin-kubeconfig'), 'secret');
  const applied = ok(await api.apply(ingresses, ingress, { force: true }), 'apply');
  ok(await api.remove(ingresses, applied), 'remove');
  ok(await api.discover('kamaji.clastix.io'), 'discover');
  const lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'causeway', namespace: 'causeway-system' },
  };
  const created = ok(await api.create(leases, lease), 'create lease');
  ok(await api.replace(leases, created), 'renew lease');
  ok(await api.get(leases, 'causeway-system', 'causeway'), 'get lease');
}

async function watches<T extends KubeObject>(api: KubeApi, watched: Parameters<typeof api.watch<T>>[0]) {
  const end = new AbortController();
  let isOpen = false;
  const onOpen = () => {
    isOpen = true;
    end.abort();
  };
  const options = { namespace: 'tenants', resourceVersion: '0', signal: end.signal, onOpen };
  const ended = await api.watch(watched, options, () => {});
  assert.ok(isOpen, `watch ${watched.plural}: ${JSON.stringify(ended)}`);
}

function ok<T>(answer: Answer<T>, what: string): T {
  assert.ok(answer.ok, `${what}: ${JSON.stringify(answer)}`);
  return answer.value;
}
