// Clusters of Cluster API and k0smotron in a real API server with the real CustomResourceDefinitions, and the running
// program with the rights that `render rbac` prints: object → gateway → kubectl, and the agent in the tenant. The API
// server is also that of the tenants.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { addAccount, grantAccess } from './grant-rights.ts';

const skip =
  missingPrograms('openssl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') || missingNetns();
const CAPI_HOST = 'capi.example.com';
const K0S_HOST = 'k0s.example.com';
const LOOP_HOST = 'loop.example.com';

interface ClusterAnswer {
  readonly name: string;
  readonly id: string | null;
  readonly routes: readonly { readonly kind: string; readonly hosts: readonly string[] }[];
  readonly findings: readonly { readonly code: string }[];
}

describe('Clusters of Cluster API and k0smotron', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let server: ApiServer;
  let gateway: Causeway;
  let machine: string;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    ({ machine } = stack.use(await netns({ name: 'clusters' })));
    const sans = [CAPI_HOST, K0S_HOST, LOOP_HOST, machine];
    server = stack.use(await startApiServer({ bindAddress: machine, sans }));
    await installDefinition(server, 'cluster-api-clusters', 'clusters.cluster.x-k8s.io');
    await server.kubectl('create', 'namespace', 'tenants');
    await addAccount(server);
    await writeFile(dir.file('kubeconfig'), '');
    const config = `listen: ["${machine}:0"]
sources:
  - clusterApi: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [tenants] }
  - k0smotron: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [tenants] }
outputs: [{ tenantAgent: { image: "causeway:test" } }]
lease: { name: causeway, namespace: causeway-system }
`;
    await grantAccess(server, config, dir.file('kubeconfig'));
    gateway = stack.use(await startCauseway({ config }));
  });
  after(() => stack.disposeAsync());

  async function clusters(): Promise<readonly ClusterAnswer[]> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    return (await answer.json()) as readonly ClusterAnswer[];
  }
  const cluster = async (name: string) => (await clusters()).find(each => each.name === name);

  async function reaches(serverName: string): Promise<boolean> {
    const file = await server.kubeconfig({ server: `https://${machine}:${gateway.port}`, serverName });
    const { code } = await kubectl(file, ['get', 'namespace', 'tenants', '--request-timeout=5s']);
    return code === 0;
  }

  /** As the provider of a control plane creates it. */
  async function createService(name: string, ports: Readonly<Record<string, number>>): Promise<void> {
    const metadata = { name, namespace: 'tenants' };
    const entries = Object.entries(ports);
    await server.apply(
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata,
        spec: {
          ports: entries.map(([port, number]) => ({ name: port, port: number, targetPort: server.port })),
        },
      },
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
        addressType: 'IPv4',
        endpoints: [{ addresses: [machine], conditions: { ready: true } }],
        ports: entries.map(([port]) => ({ name: port, port: server.port, protocol: 'TCP' })),
      },
    );
  }

  /** With the admin kubeconfig of the tenant, which is this API server. */
  async function createSecret(name: string): Promise<void> {
    const value = await readFile(await server.kubeconfig(), 'utf8');
    const metadata = { name: `${name}-kubeconfig`, namespace: 'tenants' };
    await server.apply({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { value } });
  }

  const object = (apiVersion: string, name: string, spec: object) => ({
    apiVersion,
    kind: 'Cluster',
    metadata: { name, namespace: 'tenants' },
    spec,
  });

  test('a Cluster of Cluster API is served by its Service, though its endpoint is this gateway', async () => {
    const controlPlaneEndpoint = { host: CAPI_HOST, port: gateway.port };
    await server.apply(object('cluster.x-k8s.io/v1beta2', 'capi', { controlPlaneEndpoint }));
    await until('the cluster', async () => (await cluster('tenants.capi')) !== undefined);
    assert.equal(await reaches(CAPI_HOST), false);
    await createService('capi-control-plane', { https: 6443 });
    await until('kubectl', () => reaches(CAPI_HOST));
    const uid = [
      'get',
      'clusters.cluster.x-k8s.io',
      'capi',
      '-n',
      'tenants',
      '-o',
      'jsonpath={.metadata.uid}',
    ];
    assert.equal((await cluster('tenants.capi'))?.id, await server.kubectl(...uid));
    const status = 'jsonpath={.metadata.annotations.causeway\\.dev/status}';
    await until('the status', async () =>
      (
        await server.kubectl('get', 'clusters.cluster.x-k8s.io', 'capi', '-n', 'tenants', '-o', status)
      ).startsWith('{"ready":true'),
    );
  });

  test('a Service that leads back to this gateway is refused', async () => {
    const metadata = { name: 'loop-control-plane', namespace: 'tenants' };
    const port = { name: 'https', port: gateway.port, protocol: 'TCP' };
    await server.apply(
      { apiVersion: 'v1', kind: 'Service', metadata, spec: { ports: [port] } },
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': metadata.name } },
        addressType: 'IPv4',
        endpoints: [{ addresses: [machine], conditions: { ready: true } }],
        ports: [port],
      },
      object('cluster.x-k8s.io/v1beta1', 'loop', {
        controlPlaneEndpoint: { host: LOOP_HOST, port: gateway.port },
      }),
    );
    await until('the finding', async () =>
      (await cluster('tenants.loop'))?.findings.some(({ code }) => code === 'BackendForbidden'),
    );
    const about = 'involvedObject.name=loop,reason=BackendForbidden,type=Warning';
    await until('the Event', async () => {
      const found = ['get', 'events', '-n', 'tenants', '--field-selector', about, '-o', 'name'];
      return (await server.kubectl(...found)) !== '';
    });
  });

  test("the agent is installed with the tenant's own kubeconfig", async () => {
    await until('SecretMissing', async () =>
      (await cluster('tenants.capi'))?.findings.some(({ code }) => code === 'SecretMissing'),
    );
    await createSecret('capi');
    const gatewayOf = 'jsonpath={.items[*].metadata.labels.causeway\\.dev/cluster}';
    await until('the agent', async () => {
      const found = ['get', 'deployments', '-n', 'kube-system', '-o', gatewayOf];
      return (await server.kubectl(...found)).includes('tenants.capi');
    });
  });

  test('Clusters of k0smotron are served once their definition is there', async () => {
    await until('readyz', async () => (await fetch(`${gateway.admin}/readyz`)).ok);
    await installDefinition(server, 'k0smotron-clusters', 'clusters.k0smotron.io');
    await createService('kmc-k0s', { api: 30_443, konnectivity: 30_132 });
    const ingress = { deploy: false, apiHost: K0S_HOST, konnectivityHost: 'konnectivity.example.com' };
    await server.apply(object('k0smotron.io/v1beta1', 'k0s', { ingress }));
    await until('kubectl', () => reaches(K0S_HOST));
    assert.deepEqual(
      (await cluster('tenants.k0s'))?.routes.map(({ kind, hosts }) => [kind, hosts]),
      [
        ['api', [K0S_HOST]],
        ['konnectivity', ['konnectivity.example.com']],
      ],
    );
  });

  test('a Cluster that is deleted is no longer served', async () => {
    await server.kubectl('delete', 'clusters.cluster.x-k8s.io', 'capi', '-n', 'tenants');
    await until('no cluster', async () => (await cluster('tenants.capi')) === undefined);
    assert.equal(await reaches(CAPI_HOST), false);
    assert.equal(await reaches(K0S_HOST), true);
  });
});
