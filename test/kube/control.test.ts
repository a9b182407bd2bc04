// The control side from end to end: a management cluster with Kamaji's real CustomResourceDefinition, a tenant's real API
// server behind a Service, and `causeway run` with the rights that `render rbac` prints. kubectl goes through the gateway.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { documentedTenant } from '../../src/sources/tenant.samples.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startEtcd } from '../../testbed/start-etcd.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { addAccount, grantAccess } from './grant-rights.ts';
import { tenantService } from './tenant-service.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') ||
  missingNetns();
const HOST = 'tenants-a.k8s.clastix.cloud';
const LEASE = '{ name: causeway, namespace: causeway-system }';

interface ClusterAnswer {
  readonly name: string;
  readonly id: string;
  readonly source: string;
  readonly object: { readonly kind: string; readonly namespace: string; readonly name: string } | null;
  readonly findings: readonly { readonly code: string; readonly text: string }[];
}

describe('Kamaji, from the annotation to kubectl', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let store: Awaited<ReturnType<typeof startEtcd>>;
  let management: ApiServer;
  let tenant: ApiServer;
  let gateway: Causeway;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    const { machine } = stack.use(await netns({ name: 'control' }));
    store = stack.use(await startEtcd());
    [management, tenant] = await Promise.all([
      startApiServer({ store }),
      startApiServer({ bindAddress: machine, sans: [HOST, machine] }),
    ]);
    stack.use(management);
    stack.use(tenant);
    await installDefinition(
      management,
      'kamaji-tenantcontrolplanes',
      'tenantcontrolplanes.kamaji.clastix.io',
    );
    await management.kubectl('create', 'namespace', 'tenants');
    await addAccount(management);
    await management.apply(...controlPlaneObjects(machine, tenant.port));
    await writeFile(dir.file('kubeconfig'), '');
    await grant(config());
    gateway = stack.use(await startCauseway({ config: config() }));
  });
  after(() => stack.disposeAsync());

  function config(outputs = '[{ ingress: {} }]', sources = ''): string {
    return `listen: ["127.0.0.1:0"]
sources: [{ kamaji: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [tenants] } }${sources}]
outputs: ${outputs}
lease: ${LEASE}
`;
  }

  const grant = (file: string) => grantAccess(management, file, dir.file('kubeconfig'));

  /** `kubectl get namespaces` through the gateway, by the tenant's host. */
  async function works(at = gateway): Promise<boolean> {
    const file = await tenant.kubeconfig({ server: `https://127.0.0.1:${at.port}`, serverName: HOST });
    const { code } = await kubectl(file, ['get', 'namespaces', '--request-timeout=5s']);
    return code === 0;
  }

  async function cluster(at = gateway): Promise<ClusterAnswer | undefined> {
    const answer = await fetch(`${at.admin}/api/v1/clusters`);
    return ((await answer.json()) as readonly ClusterAnswer[]).find(({ name }) => name === 'tenants.a');
  }

  async function ingress(): Promise<Ingress | undefined> {
    const text = await management.kubectl('get', 'ingress', '-n', 'tenants', '-o', 'json');
    return (JSON.parse(text) as { items: readonly Ingress[] }).items[0];
  }

  const annotate = (...annotations: readonly string[]) =>
    management.kubectl('annotate', 'tenantcontrolplane', 'a', '-n', 'tenants', '--overwrite', ...annotations);

  test('is ready when the source has listed, with nothing to serve yet', async () => {
    await until('readyz', async () => (await fetch(`${gateway.admin}/readyz`)).ok);
    assert.equal(await cluster(), undefined);
    const { sources } = await gateway.status();
    assert.deepEqual(sources, [
      { name: 'file', up: true, synced: true, error: null },
      { name: 'kamaji', up: true, synced: true, error: null },
    ]);
  });

  test('serves kubectl soon after the annotation, and says which object it came from', async t => {
    await annotate('kamaji.clastix.io/ingress.domain=clastix.cloud');
    const start = performance.now();
    await until('kubectl through the gateway', () => works());
    // For people: no assertion on time.
    t.diagnostic(`served ${Math.round(performance.now() - start)} ms after the annotation`);
    const found = await cluster();
    assert.deepEqual(
      [found?.source, found?.object?.kind, found?.object?.name],
      ['kamaji', 'TenantControlPlane', 'a'],
    );
    assert.equal(
      found?.id,
      await management.kubectl(
        'get',
        'tenantcontrolplane',
        'a',
        '-n',
        'tenants',
        '-o',
        'jsonpath={.metadata.uid}',
      ),
    );
  });

  test('writes the Ingress of the addon, with our labels and an owner', async () => {
    const found = await until('the Ingress', ingress);
    assert.deepEqual(found.spec, {
      ingressClassName: 'haproxy',
      rules: [rule(HOST, 6443), rule('tenants-a.konnectivity.clastix.cloud', 8132)],
    });
    assert.equal(found.metadata.annotations['haproxy.org/ssl-passthrough'], 'true');
    assert.equal(found.metadata.labels['app.kubernetes.io/managed-by'], 'causeway');
    assert.equal(found.metadata.labels['causeway.dev/instance'], 'causeway-system.causeway');
    assert.equal(found.metadata.labels['causeway.dev/cluster'], 'tenants.a');
    assert.equal(found.metadata.ownerReferences[0].name, 'a');
    assert.equal((await gateway.status()).leader, true);
    assert.equal(await gateway.metric('causeway_leader'), 1);
  });

  /** What we wrote to the TenantControlPlane of a; empty where there is none. */
  const status = () =>
    management.kubectl(
      'get',
      'tenantcontrolplane',
      'a',
      '-n',
      'tenants',
      '-o',
      'jsonpath={.metadata.annotations.causeway\\.dev/status}',
    );

  test('writes its status to the object', async () => {
    const text = await until('a status that is ready', async () => {
      const found = await status();
      return found.includes('"ready":true') ? found : undefined;
    });
    assert.deepEqual(JSON.parse(text).hosts, [HOST, 'tenants-a.konnectivity.clastix.cloud']);
  });

  test('looks at the certificate that the API server presents', async () => {
    // The object lists the name, but nobody has issued the certificate again.
    const finding = await until('the finding', async () =>
      (await cluster())?.findings.find(({ code }) => code === 'CertificateSanMissing'),
    );
    assert.match(finding.text, /does not have 'tenants-a\.konnectivity\.clastix\.cloud', although/);
    await until('the status', async () => (await status()).includes(finding.text));
    const notes = async () =>
      management.kubectl('get', 'events', '-n', 'tenants', '-o', 'jsonpath={.items[*].message}');
    await until('the Event', async () => (await notes()).includes(finding.text));
  });

  test('a second replica serves too, and one of them writes', async () => {
    await using second = await startCauseway({ config: config() });
    await until('kubectl through the second', () => works(second));
    const leaders = [(await gateway.status()).leader, (await second.status()).leader];
    assert.deepEqual(leaders, [true, false]);
  });

  test('serves while the API server is away, and follows it again afterwards', async () => {
    const { port } = management;
    await management.stop();
    await until(
      'the source to be down',
      async () => (await gateway.metric('causeway_source_up', { source: 'kamaji' })) === 0,
    );
    assert.ok(await works());
    assert.ok((await fetch(`${gateway.admin}/readyz`)).ok);
    management = stack.use(await startApiServer({ store, port, authority: management.authority }));
    await until(
      'the source to be up',
      async () => (await gateway.metric('causeway_source_up', { source: 'kamaji' })) === 1,
    );
    assert.ok(await works());
  });

  test('installs the agent in the tenant with its admin kubeconfig, and removes it completely', async () => {
    const admin = await readFile(await tenant.kubeconfig(), 'utf8');
    await management.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'a-admin-kubeconfig', namespace: 'tenants' },
      stringData: { 'admin.svc': admin },
    });
    const outputs =
      '[{ ingress: {} }, { tenantAgent: { image: "registry.lab/causeway:1", gateway: "gw.lab:443" } }]';
    await grant(config(outputs));
    await gateway.write(config(outputs));
    const ours = ['-n', 'kube-system', '-l', 'app.kubernetes.io/managed-by=causeway', '-o', 'name'];
    const kinds = 'deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings';
    const names = async () =>
      (await tenant.kubectl('get', kinds, ...ours)).trim().split('\n').filter(Boolean);
    await until('the agent', async () => (await names()).includes('deployment.apps/causeway-agent'));
    const image = '{.spec.template.spec.containers[0].image}';
    const path = ['get', 'deployment', 'causeway-agent', '-n', 'kube-system', '-o', `jsonpath=${image}`];
    assert.equal(await tenant.kubectl(...path), 'registry.lab/causeway:1');
    await gateway.write(config());
    await until('no agent', async () => (await names()).length === 0);
    assert.ok(await works());
  });

  test('leaves the endpoints that it wrote in the tenant, with a last Event on the object', async () => {
    const outputs = '[{ ingress: {} }, { tenantEndpoints: { address: 192.0.2.7 } }]';
    await grant(config(outputs));
    await gateway.write(config(outputs));
    const addresses = () =>
      tenant.kubectl(
        'get',
        'endpointslices',
        '-n',
        'default',
        '-o',
        'jsonpath={.items[*].endpoints[*].addresses}',
      );
    await until('the endpoints', async () => (await addresses()).includes('192.0.2.7'));
    await gateway.write(config());
    const reasons = async () =>
      management.kubectl('get', 'events', '-n', 'tenants', '-o', 'jsonpath={.items[*].reason}');
    await until('the Event', async () => (await reasons()).includes('EndpointsLeft'));
    assert.equal(await addresses(), '["192.0.2.7"]');
  });

  test('says on the object what is missing, and adds it with fix: true', async () => {
    const events = async () =>
      management.kubectl('get', 'events', '-n', 'tenants', '-o', 'jsonpath={.items[*].message}');
    const sans = async () =>
      management.kubectl(
        'get',
        'tenantcontrolplane',
        'a',
        '-n',
        'tenants',
        '-o',
        'jsonpath={.spec.networkProfile.certSANs}',
      );
    await management.kubectl(
      'patch',
      'tenantcontrolplane',
      'a',
      '-n',
      'tenants',
      '--type=merge',
      '-p',
      '{"spec":{"networkProfile":{"certSANs":["theirs.lab"]}}}',
    );
    await until('an Event', async () => (await events()).includes('certSANs does not list'));
    const fixing = config().replace('namespaces: [tenants]', 'namespaces: [tenants], fix: true');
    await grant(fixing);
    await gateway.write(fixing);
    await until('the SANs', async () => (await sans()).includes(HOST));
    assert.deepEqual(JSON.parse(await sans()), ['theirs.lab', HOST, 'tenants-a.konnectivity.clastix.cloud']);
    assert.ok(await works());
  });

  test('an output taken out of the file has its objects removed', async () => {
    await gateway.write(config('[]'));
    await until('no Ingress', async () => (await ingress()) === undefined);
    await gateway.write(config());
    await until('the Ingress', ingress);
    assert.ok(await works());
  });

  test('a source taken out of the file has everything removed that was written for it', async () => {
    const without = config().replace(/^sources: .*$/m, 'sources: []');
    assert.notEqual(without, config());
    await gateway.write(without);
    await until('nothing served', async () => (await cluster()) === undefined);
    await until('no Ingress', async () => (await ingress()) === undefined);
    await until('no status', async () => (await status()) === '');
    await gateway.write(config());
    await until('the Ingress', ingress);
    await until('kubectl through the gateway', () => works());
  });

  test('removes everything once the object is deleted', async () => {
    await management.kubectl('delete', 'tenantcontrolplane', 'a', '-n', 'tenants', '--wait=false');
    await until('nothing served', async () => (await cluster()) === undefined);
    await until('no Ingress', async () => (await ingress()) === undefined);
    assert.equal(await works(), false);
  });
});

interface Ingress {
  readonly metadata: {
    readonly annotations: Readonly<Record<string, string>>;
    readonly labels: Readonly<Record<string, string>>;
    readonly ownerReferences: readonly { readonly name: string }[];
  };
  readonly spec: unknown;
}

function rule(host: string, number: number) {
  const backend = { service: { name: 'a', port: { number } } };
  return { host, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } };
}

/** What Kamaji would create, without the annotation. */
function controlPlaneObjects(address: string, port: number): readonly object[] {
  const { metadata: _, status: __, ...object } = documentedTenant('tenants', 'a');
  const metadata = { name: 'a', namespace: 'tenants' };
  const { spec } = object as { spec: { controlPlane: object } };
  return [
    { ...object, spec: { ...spec, controlPlane: { ...spec.controlPlane, ingress: undefined } }, metadata },
    ...tenantService('tenants', 'a', address, port),
  ];
}
