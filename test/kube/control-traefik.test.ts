// A real Traefik that follows the management cluster serves kubectl to a tenant with nothing but what the running
// program wrote there: TenantControlPlane → `causeway run` → IngressRouteTCP → Traefik → the tenant's API server.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { documentedTenant } from '../../src/sources/tenant.samples.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { installTraefik, traefikFlags } from '../../testbed/install-traefik.ts';
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

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'traefik') ||
  missingNetns();
const HOST = 'tenants-a.k8s.clastix.cloud';
const OTHER_HOST = 'tenants-a.k8s.other.example';

describe('Traefik with what the running program wrote', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let management: ApiServer;
  let tenant: ApiServer;
  let traefik: Traefik;
  let gateway: Causeway;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    const { machine } = stack.use(await netns({ name: 'traefik' }));
    [management, tenant] = await Promise.all([
      startApiServer(),
      startApiServer({ bindAddress: machine, sans: [HOST, OTHER_HOST, machine] }),
    ]);
    stack.use(management);
    stack.use(tenant);
    await installDefinition(
      management,
      'kamaji-tenantcontrolplanes',
      'tenantcontrolplanes.kamaji.clastix.io',
    );
    await installTraefik(management);
    await management.kubectl('create', 'namespace', 'tenants');
    await addAccount(management);
    await writeFile(dir.file('kubeconfig'), '');
    await grantAccess(management, config(), dir.file('kubeconfig'));
    await management.apply(...tenantService('tenants', 'a', machine, tenant.port));
    traefik = stack.use(await startTraefik({ routes: {}, flags: traefikFlags(management) }));
    gateway = stack.use(await startCauseway({ config: config() }));
  });
  after(() => stack.disposeAsync());

  function config(outputs = '[{ ingressRouteTCP: { entryPoints: [tls] } }]'): string {
    return `listen: ["127.0.0.1:0"]
sources: [{ kamaji: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [tenants] } }]
outputs: ${outputs}
lease: { name: causeway, namespace: causeway-system }
`;
  }

  /** Whether kubectl reaches the tenant by that host through Traefik. */
  async function reaches(serverName = HOST): Promise<boolean> {
    const file = await tenant.kubeconfig({ server: `https://127.0.0.1:${traefik.port}`, serverName });
    const { code, stdout } = await kubectl(file, [
      'get',
      'namespace',
      'only-in-tenant',
      '-o',
      'name',
      '--request-timeout=5s',
    ]);
    return code === 0 && stdout.toString().trim() === 'namespace/only-in-tenant';
  }

  const routes = async () =>
    (await management.kubectl('get', 'ingressroutetcps,ingresses', '-A', '-o', 'name'))
      .trim()
      .split('\n')
      .filter(Boolean);

  test('serves nothing while nothing is written', async () => {
    await tenant.kubectl('create', 'namespace', 'only-in-tenant');
    await until('readyz', async () => (await fetch(`${gateway.admin}/readyz`)).ok);
    assert.deepEqual(await routes(), []);
    assert.equal(await reaches(), false);
  });

  test('serves kubectl once there is a TenantControlPlane with the annotation', async () => {
    const { metadata, ...object } = documentedTenant('tenants', 'a');
    const { name, namespace, annotations } = metadata;
    await management.apply({ ...object, metadata: { name, namespace, annotations } });
    await until('kubectl through Traefik', () => reaches());
    assert.equal((await routes()).length, 1);
    // The same host through the gateway itself.
    const file = await tenant.kubeconfig({ server: `https://127.0.0.1:${gateway.port}`, serverName: HOST });
    assert.equal((await kubectl(file, ['get', 'namespaces'])).code, 0);
  });

  test('follows another domain', async () => {
    await management.kubectl(
      'annotate',
      'tenantcontrolplane',
      'a',
      '-n',
      'tenants',
      '--overwrite',
      'kamaji.clastix.io/ingress.domain=other.example',
    );
    await until('the new host', () => reaches(OTHER_HOST));
  });

  test('serves nothing any more once the output is taken out of the file, and again when it is back', async () => {
    await gateway.write(config('[]'));
    await until('no IngressRouteTCP', async () => (await routes()).length === 0);
    await until('no answer', async () => !(await reaches(OTHER_HOST)));
    await gateway.write(config());
    await until('kubectl through Traefik', () => reaches(OTHER_HOST));
  });

  test('serves nothing any more once the object is deleted', async () => {
    await management.kubectl('delete', 'tenantcontrolplane', 'a', '-n', 'tenants', '--wait=false');
    await until('no IngressRouteTCP', async () => (await routes()).length === 0);
    await until('no answer', async () => !(await reaches(OTHER_HOST)));
  });
});
