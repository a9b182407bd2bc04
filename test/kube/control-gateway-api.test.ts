// A real Gateway serves kubectl to a tenant with nothing but what the running program wrote: TenantControlPlane →
// `causeway run` → TLSRoute → Traefik's provider of the Gateway API → the tenant's API server. What the Gateway says
// about the route is a finding.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { documentedTenant } from '../../src/sources/tenant.samples.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { gatewayApiFlags, installGatewayApi, passthroughGateway } from '../../testbed/install-gateway-api.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startTraefik, type Traefik } from '../../testbed/start-traefik.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { addAccount, grantAccess } from './grant-rights.ts';
import { tenantService } from './tenant-service.ts';

// The definitions of the Gateway API come from a Go module.
const skip =
  missingPrograms('openssl', 'curl', 'go') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'traefik') ||
  missingNetns();
const HOST = 'tenants-a.k8s.clastix.cloud';

interface ClusterAnswer {
  readonly findings: readonly { readonly code: string; readonly text: string }[];
}

describe('a Gateway with what the running program wrote', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let management: ApiServer;
  let tenant: ApiServer;
  let traefik: Traefik;
  let gateway: Causeway;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    const { machine } = stack.use(await netns({ name: 'gateway-api' }));
    [management, tenant] = await Promise.all([
      startApiServer(),
      startApiServer({ bindAddress: machine, sans: [HOST, machine] }),
    ]);
    stack.use(management);
    stack.use(tenant);
    await tenant.kubectl('create', 'namespace', 'only-in-tenant');
    await installDefinition(
      management,
      'kamaji-tenantcontrolplanes',
      'tenantcontrolplanes.kamaji.clastix.io',
    );
    await installGatewayApi(management);
    for (const namespace of ['tenants', 'infra']) await management.kubectl('create', 'namespace', namespace);
    await addAccount(management);
    await writeFile(dir.file('kubeconfig'), '');
    await grantAccess(management, config(), dir.file('kubeconfig'));
    await management.apply(...tenantService('tenants', 'a', machine, tenant.port));
    traefik = stack.use(await startTraefik({ routes: {}, flags: gatewayApiFlags(management) }));
    gateway = stack.use(await startCauseway({ config: config() }));
  });
  after(() => stack.disposeAsync());

  function config(
    outputs = '[{ tlsRoute: { gateway: { name: shared, namespace: infra, sectionName: tls } } }]',
  ) {
    return `listen: ["127.0.0.1:0"]
sources: [{ kamaji: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [tenants] } }]
outputs: ${outputs}
lease: { name: causeway, namespace: causeway-system }
`;
  }

  const applyGateway = (from: 'Same' | 'All') =>
    management.apply(passthroughGateway({ namespace: 'infra', name: 'shared', port: traefik.port, from }));

  /** Whether kubectl reaches the tenant through the Gateway. */
  async function reaches(): Promise<boolean> {
    const server = `https://127.0.0.1:${traefik.port}`;
    const file = await tenant.kubeconfig({ server, serverName: HOST });
    const args = ['get', 'namespace', 'only-in-tenant', '-o', 'name', '--request-timeout=5s'];
    const { code, stdout } = await kubectl(file, args);
    return code === 0 && stdout.toString().trim() === 'namespace/only-in-tenant';
  }

  async function findings(): Promise<ClusterAnswer['findings']> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    const clusters = (await answer.json()) as readonly ClusterAnswer[];
    return clusters.flatMap(cluster => cluster.findings).filter(({ code }) => code === 'OutputRejected');
  }

  const routes = async () =>
    (await management.kubectl('get', 'tlsroutes', '-A', '-o', 'name')).trim().split('\n').filter(Boolean);

  test('a route that the Gateway does not accept is a finding, and is not served', async () => {
    await applyGateway('Same');
    const { metadata, ...object } = documentedTenant('tenants', 'a');
    const { name, namespace, annotations } = metadata;
    await management.apply({ ...object, metadata: { name, namespace, annotations } });
    // The API server and konnectivity.
    await until('the routes', async () => (await routes()).length === 2);
    await until('the findings', async () => (await findings()).length === 2);
    for (const { text } of await findings()) {
      assert.match(
        text,
        /^TLSRoute 'tenants\/.*': Gateway 'infra\/shared' does not accept it: NotAllowedByListeners/,
      );
    }
    assert.equal(await reaches(), false);
  });

  test('the Gateway serves kubectl once it accepts, and the finding goes', async () => {
    await applyGateway('All');
    await until('kubectl through the Gateway', reaches);
    await until('no finding', async () => (await findings()).length === 0);
  });

  test('it serves nothing any more once the output is taken out of the file, and again when it is back', async () => {
    await gateway.write(config('[]'));
    await until('no TLSRoute', async () => (await routes()).length === 0);
    await until('no answer', async () => !(await reaches()));
    await gateway.write(config());
    await until('kubectl through the Gateway', reaches);
  });

  test('it serves nothing any more once the object is deleted', async () => {
    await management.kubectl('delete', 'tenantcontrolplane', 'a', '-n', 'tenants', '--wait=false');
    await until('no TLSRoute', async () => (await routes()).length === 0);
    await until('no answer', async () => !(await reaches()));
  });
});
