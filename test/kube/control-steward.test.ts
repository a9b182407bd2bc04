// Steward from end to end: a management cluster with its real CustomResourceDefinition, a tenant's real API server, and
// `causeway run` with the rights that `render rbac` prints. The Ingress follows the tenant's controllerType, and the agent
// in the tenant its addons.tcpProxy.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { KubeObject } from '../../src/kube/kube-object.ts';
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
import { tenantService } from './tenant-service.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') ||
  missingNetns();
const API_HOST = 'tenant-01.k8s.example.com';
const KONNECTIVITY_HOST = 'tenant-01.konnectivity.example.com';
/** By which we know our objects; outputs add it to every one. */
const SOURCE = { 'causeway.dev/source': 'steward' };
const OUTPUTS = `
  - ingress: { flavor: fromCluster }
  - tenantAgent: { image: "registry.lab/causeway:1", gatewayAddresses: [203.0.113.10] }`;

describe('Steward, from the object to kubectl', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let management: ApiServer;
  let tenant: ApiServer;
  let gateway: Causeway;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    const { machine } = stack.use(await netns({ name: 'steward' }));
    [management, tenant] = await Promise.all([
      startApiServer(),
      startApiServer({ bindAddress: machine, sans: [API_HOST, KONNECTIVITY_HOST, machine] }),
    ]);
    stack.use(management);
    stack.use(tenant);
    await Promise.all([
      installDefinition(
        management,
        'steward-tenantcontrolplanes',
        'tenantcontrolplanes.steward.butlerlabs.dev',
      ),
      installDefinition(management, 'traefik-ingressroutetcps', 'ingressroutetcps.traefik.io'),
    ]);
    await management.kubectl('create', 'namespace', 'tenants');
    await addAccount(management);
    await writeFile(dir.file('kubeconfig'), '');
    await grantAccess(management, config(), dir.file('kubeconfig'));
    await management.apply(
      ...tenantService('tenants', 'tenant-01', machine, tenant.port),
      {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'tenant-01-admin-kubeconfig', namespace: 'tenants' },
        stringData: { 'admin.conf': await readFile(await tenant.kubeconfig(), 'utf8') },
      },
      controlPlane(),
    );
    gateway = stack.use(await startCauseway({ config: config() }));
  });
  after(() => stack.disposeAsync());

  function config(): string {
    return `listen: ["127.0.0.1:0"]
sources: [{ steward: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [tenants] } }]
outputs: ${OUTPUTS}
lease: { name: causeway, namespace: causeway-system }
# Each write of a status would make another plan: findings have to come without.
statusAnnotation: false
`;
  }

  const patch = (spec: object) =>
    management.kubectl(
      'patch',
      'tenantcontrolplane',
      'tenant-01',
      '-n',
      'tenants',
      '--type=merge',
      '-p',
      JSON.stringify({ spec }),
    );
  const patchIngress = (ingress: object) => patch({ controlPlane: { ingress } });

  async function list<T>(server: ApiServer, plural: string, namespace: string): Promise<readonly T[]> {
    const text = await server.kubectl('get', plural, '-n', namespace, '-o', 'json');
    return (JSON.parse(text) as { items: readonly T[] }).items;
  }

  /** The one object of that kind, once it fits, with nothing of the other kind beside it. */
  async function only(plural: Plural, fits: (object: Routing) => boolean): Promise<Routing> {
    const [other] = (['ingresses', 'ingressroutetcps'] as const).filter(each => each !== plural);
    return until(`the ${plural}`, async () => {
      const found = await list<Routing>(management, plural, 'tenants');
      const others = await list<Routing>(management, other, 'tenants');
      return found.length === 1 && others.length === 0 && fits(found[0]) ? found[0] : undefined;
    });
  }

  async function works(): Promise<boolean> {
    const server = `https://127.0.0.1:${gateway.port}`;
    const file = await tenant.kubeconfig({ server, serverName: API_HOST });
    return (await kubectl(file, ['get', 'namespaces', '--request-timeout=5s'])).code === 0;
  }

  async function codes(): Promise<readonly string[]> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    const all = (await answer.json()) as { name: string; findings: { code: string }[] }[];
    return all.find(({ name }) => name === 'tenants.tenant-01')?.findings.map(({ code }) => code) ?? [];
  }

  /** The agent's Deployment in the tenant, once it fits. */
  async function agent(fits: (deployment: Deployment) => boolean): Promise<Deployment> {
    return until('the agent', async () => {
      const [found] = await list<Deployment>(tenant, 'deployments', 'kube-system');
      return found !== undefined && fits(found) ? found : undefined;
    });
  }

  test('controllerType haproxy: an Ingress with its annotation and both hosts, and kubectl by the gateway', async () => {
    await until('kubectl through the gateway', works);
    const { metadata, spec } = await only('ingresses', () => true);
    assert.deepEqual(spec, {
      ingressClassName: 'edge',
      rules: [rule(API_HOST, 6443), rule(KONNECTIVITY_HOST, 8132)],
    });
    assert.deepEqual(metadata.annotations, { 'haproxy.org/ssl-passthrough': 'true', ...SOURCE });
    const { apiVersion, kind, name } = metadata.ownerReferences?.[0] ?? {};
    assert.deepEqual(
      [apiVersion, kind, name],
      ['steward.butlerlabs.dev/v1alpha1', 'TenantControlPlane', 'tenant-01'],
    );
  });

  test('controllerType traefik: an IngressRouteTCP instead of the Ingress', async () => {
    await patchIngress({ controllerType: 'traefik', additionalMetadata: { annotations: { team: 'a' } } });
    const { metadata, spec } = await only('ingressroutetcps', () => true);
    assert.deepEqual(spec, {
      entryPoints: ['websecure'],
      routes: [route(API_HOST, 6443), route(KONNECTIVITY_HOST, 8132)],
      tls: { passthrough: true },
    });
    assert.deepEqual(metadata.annotations, {
      'kubernetes.io/ingress.class': 'edge',
      team: 'a',
      ...SOURCE,
    });
    assert.ok(await works());
  });

  for (const controllerType of [null, 'generic']) {
    test(`controllerType ${controllerType ?? 'absent'}: an Ingress with the tenant's own annotations only`, async () => {
      const own = { 'example.com/passthrough': controllerType ?? 'yes' };
      await patchIngress({ controllerType, additionalMetadata: { annotations: { ...own, team: null } } });
      const { metadata, spec } = await only(
        'ingresses',
        ({ metadata: { annotations } }) =>
          annotations?.['example.com/passthrough'] === own['example.com/passthrough'],
      );
      assert.equal((spec as { ingressClassName?: string }).ingressClassName, 'edge');
      assert.deepEqual(metadata.annotations, { ...own, ...SOURCE });
      assert.ok(await works());
    });
  }

  test('tcpProxy with every field: the agent has image, hostAliases, resources and addresses', async () => {
    const tcpProxy = {
      image: 'registry.lab/theirs/causeway:2',
      hostAliases: [{ ip: '203.0.113.11', hostnames: [API_HOST, KONNECTIVITY_HOST] }],
      resources: { requests: { cpu: '10m' }, limits: { memory: '64Mi' } },
      internalEndpoint: '10.40.0.201',
    };
    await patch({ addons: { tcpProxy } });
    const { spec } = await agent(each => imageOf(each) === tcpProxy.image);
    const pod = spec.template.spec;
    assert.deepEqual(pod.hostAliases, tcpProxy.hostAliases);
    assert.deepEqual(pod.containers[0].resources, tcpProxy.resources);
    const args = pod.containers[0].args;
    assert.deepEqual(
      args.filter(each => each.startsWith('--gateway')),
      [`--gateway=${API_HOST}:443`, '--gateway-address=203.0.113.10', '--gateway-address=10.40.0.201'],
    );
    const [{ metadata }] = await list<KubeObject>(management, 'tenantcontrolplanes', 'tenants');
    assert.ok(args.includes(`--cluster-id=${metadata.uid}`));
    assert.equal(pod.hostNetwork, true);
    assert.deepEqual(
      (await codes()).filter(code => /Image|TcpProxy/.test(code)),
      [],
    );
  });

  test("Steward's own image is replaced by ours with a finding, and the agent is upgraded in place", async () => {
    const before = await agent(() => true);
    await patch({ addons: { tcpProxy: { image: 'ghcr.io/butlerdotdev/steward-tcp-proxy:v1' } } });
    const upgraded = await agent(each => imageOf(each) === 'registry.lab/causeway:1');
    assert.equal(upgraded.metadata.uid, before.metadata.uid);
    assert.ok(upgraded.spec.template.spec.hostAliases);
    await until('the finding', async () => (await codes()).includes('ImageReplaced'));
  });

  test("Steward's tcp-proxy that runs beside the agent is a finding, until it has gone", async () => {
    const setStatus = (enabled: boolean) =>
      management.kubectl(
        'patch',
        'tenantcontrolplane',
        'tenant-01',
        '-n',
        'tenants',
        '--subresource=status',
        '--type=merge',
        '-p',
        JSON.stringify({ status: { addons: { tcpProxy: { enabled } } } }),
      );
    await setStatus(true);
    await until('the finding', async () => (await codes()).includes('TcpProxyBeside'));
    const reasons = () =>
      management.kubectl('get', 'events', '-n', 'tenants', '-o', 'jsonpath={.items[*].reason}');
    await until('an Event', async () => (await reasons()).includes('TcpProxyBeside'));
    await setStatus(false);
    await until('no finding', async () => !(await codes()).includes('TcpProxyBeside'));
  });

  test('without tcpProxy the agent is that of the output alone', async () => {
    await patch({ addons: { tcpProxy: null } });
    const { spec } = await agent(each => each.spec.template.spec.hostAliases === undefined);
    const [{ image, args, resources }] = spec.template.spec.containers;
    assert.equal(image, 'registry.lab/causeway:1');
    assert.deepEqual(resources, { requests: { cpu: '50m', memory: '128Mi' } });
    assert.ok(!args.includes('--gateway-address=10.40.0.201'));
    await until('no finding', async () => !(await codes()).includes('ImageReplaced'));
    assert.ok(await works());
  });
});

type Plural = 'ingresses' | 'ingressroutetcps';

interface Routing extends KubeObject {
  readonly spec: unknown;
}

interface Deployment extends KubeObject {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly hostNetwork?: boolean;
        readonly hostAliases?: unknown;
        readonly containers: readonly {
          readonly image: string;
          readonly args: readonly string[];
          readonly resources: unknown;
        }[];
      };
    };
  };
}

function imageOf({ spec }: Deployment): string {
  return spec.template.spec.containers[0].image;
}

function rule(host: string, number: number) {
  const backend = { service: { name: 'tenant-01', port: { number } } };
  return { host, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } };
}

function route(host: string, port: number) {
  return { match: `HostSNI(\`${host}\`)`, services: [{ name: 'tenant-01', port }] };
}

/** Much as in Steward's guide. */
function controlPlane(): object {
  return {
    apiVersion: 'steward.butlerlabs.dev/v1alpha1',
    kind: 'TenantControlPlane',
    metadata: { name: 'tenant-01', namespace: 'tenants' },
    spec: {
      kubernetes: { version: 'v1.31.0', kubelet: { cgroupfs: 'systemd' } },
      networkProfile: { port: 6443, certSANs: [API_HOST, KONNECTIVITY_HOST] },
      controlPlane: {
        deployment: { replicas: 2 },
        service: { serviceType: 'ClusterIP' },
        ingress: { hostname: `${API_HOST}:443`, ingressClassName: 'edge', controllerType: 'haproxy' },
      },
      addons: {
        konnectivity: {
          agent: {
            extraArgs: [`--proxy-server-host=${KONNECTIVITY_HOST}`, '--proxy-server-port=443'],
          },
        },
      },
    },
  };
}
