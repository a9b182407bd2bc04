// The agents of a tenant as Pods that come and go: kube-controller-manager, kube-scheduler and kwok bring them up in the
// tenant, and `causeway run` writes their workload (tenantAgent) and leads default/kubernetes to them (tenantEndpoints).

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { addressesOf } from '../../src/kube/desired-endpoints.ts';
import type { KubeApi, Selection } from '../../src/kube/kube-api.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { endpointSlices, type Resource } from '../../src/kube/resources.ts';
import { AGENTS_SELECTOR, type Pod, pods } from '../../src/outputs/agent-endpoints.ts';
import { documentedTenant } from '../../src/sources/tenant.samples.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startControllers } from '../../testbed/start-controllers.ts';
import { startKwok } from '../../testbed/start-kwok.ts';
import { startScheduler } from '../../testbed/start-scheduler.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { addAccount, grantAccess } from './grant-rights.ts';
import { tenantService } from './tenant-service.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'kube-controller-manager', 'kube-scheduler', 'kwok');
const NODES = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4'];
const ENDPOINTS = '{ tenantEndpoints: { address: agents } }';
const NAMESPACED =
  'deployments,daemonsets,replicasets,pods,services,endpointslices,serviceaccounts,secrets,roles,rolebindings';

interface Agent {
  readonly name: string;
  readonly node: string;
  readonly ip: string;
  readonly image: string;
  readonly isReady: boolean;
}

describe('the agents of a tenant, as Pods that come and go', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let management: ApiServer;
  let tenant: ApiServer;
  let client: KubeApi & Disposable;
  let gateway: Causeway;

  before(async () => {
    dir = stack.use(await tempDir());
    [management, tenant] = await Promise.all([startApiServer(), startApiServer()]);
    stack.use(management);
    stack.use(tenant);
    const admin = await tenant.kubeconfig();
    client = stack.use(openKubeClient({ access: await openKubeAccess({ kubeconfig: admin }) }));
    const starters = [startControllers, startScheduler, startKwok];
    for (const program of await Promise.all(starters.map(start => start({ kubeconfig: admin }))))
      stack.use(program);
    await installDefinition(
      management,
      'kamaji-tenantcontrolplanes',
      'tenantcontrolplanes.kamaji.clastix.io',
    );
    await management.kubectl('create', 'namespace', 'tenants');
    await addAccount(management);
    await management.apply(...controlPlaneObjects(await readFile(admin, 'utf8')));
    await writeFile(dir.file('identity.secret'), 's'.repeat(32));
    await writeFile(dir.file('kubeconfig'), '');
    await grant(config());
    gateway = stack.use(await startCauseway({ config: config() }));
  });
  after(() => stack.disposeAsync());

  function config(agent = 'replicas: 2', others = ENDPOINTS): string {
    const image = agent.includes('image') ? '' : 'image: "registry.lab/causeway:1", ';
    return `listen: ["127.0.0.1:0"]
identity: { secretFile: ${dir.file('identity.secret')} }
sources: [{ kamaji: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [tenants] } }]
outputs: [${agent === '' ? '' : `{ tenantAgent: { ${image}gateway: "gw.lab:443", ${agent} } }, `}${others}]
lease: { name: causeway, namespace: causeway-system }
`;
  }

  const grant = (file: string) => grantAccess(management, file, dir.file('kubeconfig'));

  /** The agents that run, and none that is being deleted. */
  async function agents(): Promise<readonly Agent[]> {
    const listed = await client.list(agentPods, {
      namespace: 'kube-system',
      labelSelector: AGENTS_SELECTOR,
    });
    assert.ok(listed.ok);
    return listed.value.items.filter(isRunning).map(({ metadata: { name }, spec, status }) => ({
      name,
      node: spec.nodeName ?? '',
      ip: status?.podIP ?? '',
      image: spec.containers[0].image,
      isReady: status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true,
    }));
  }

  async function endpoints(): Promise<readonly string[]> {
    const slice = await client.get(endpointSlices, 'default', 'kubernetes');
    if (slice.ok) return addressesOf(slice.value).toSorted();
    assert.equal(slice.fault.status, 404);
    return [];
  }

  /** Waits until so many agents are ready and the endpoints are exactly theirs. */
  async function settled(count: number, fits: (all: readonly Agent[]) => boolean = () => true) {
    let last: unknown;
    return until(`${count} agents behind default/kubernetes`, async () => {
      const [all, addresses] = [await agents(), await endpoints()];
      last = { all, addresses };
      const isSame =
        all
          .map(({ ip }) => ip)
          .toSorted()
          .join() === addresses.join();
      return all.length === count && isSame && fits(all) ? all : undefined;
    }).catch((error: Error) => assert.fail(`${error.message}: ${JSON.stringify(last)}`));
  }

  async function codes(): Promise<readonly string[]> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    const all = (await answer.json()) as readonly { readonly findings: readonly { code: string }[] }[];
    return all.flatMap(({ findings }) => findings.map(({ code }) => code));
  }

  test('without a Node there is nothing to lead to: a finding, and no endpoints', async () => {
    await until('a finding', async () => (await codes()).includes('NoEndpoints'));
    await until('Pods that wait for a Node', async () => {
      const args = ['get', 'pods', '-n', 'kube-system', '-l', AGENTS_SELECTOR, '-o', 'name'];
      return (await tenant.kubectl(...args)).trim().split('\n').length === 2;
    });
    assert.deepEqual([await agents(), await endpoints()], [[], []]);
    const path = ['-o', 'jsonpath={.metadata.annotations.causeway\\.dev/status}'];
    await until('the status', async () =>
      (await management.kubectl('get', 'tenantcontrolplane', 'a', '-n', 'tenants', ...path)).includes(
        '"NoEndpoints"',
      ),
    );
  });

  test('Nodes come: the agents run, and are the endpoints', async () => {
    await Promise.all(NODES.map((address, i) => tenant.addNode(`n${i + 1}`, address)));
    const all = await settled(2, agents => agents.every(({ isReady }) => isReady));
    // The host network: the address is the Node's.
    for (const { node, ip } of all) assert.equal(ip, NODES[Number(node.slice(1)) - 1]);
    const port = ['-n', 'default', '-o', 'jsonpath={.ports[*].name} {.ports[*].port}'];
    assert.equal(await tenant.kubectl('get', 'endpointslice', 'kubernetes', ...port), 'https 6443');
    await until('no finding', async () => !(await codes()).includes('NoEndpoints'));
  });

  test('a Pod that was deleted is replaced, and the endpoints follow', async () => {
    const [{ name, node }] = await agents();
    // Another Node, so that the endpoints must change.
    await tenant.kubectl('cordon', node);
    await tenant.kubectl('delete', 'pod', name, '-n', 'kube-system');
    await settled(2, agents => agents.every(agent => agent.node !== node));
    await tenant.kubectl('uncordon', node);
  });

  test('a new image is rolled out one by one, and one agent behind the endpoints runs at any time', async () => {
    const before = await agents();
    await using seen = await watchEndpoints(client);
    await gateway.write(config('replicas: 2, image: "registry.lab/causeway:2"'));
    const after = await settled(2, all => all.every(({ image }) => image === 'registry.lab/causeway:2'));
    assert.ok(after.every(({ name }) => before.every(old => old.name !== name)));
    assert.ok(seen.states.length >= 2, JSON.stringify(seen.states));
    for (const { addresses, running } of seen.states) {
      assert.ok(addresses.length > 0, JSON.stringify(seen.states));
      assert.ok(
        addresses.some(address => running.includes(address)),
        JSON.stringify(seen.states),
      );
    }
    const sets = ['get', 'replicasets', '-n', 'kube-system', '-o', 'jsonpath={.items[*].status.replicas}'];
    assert.deepEqual((await tenant.kubectl(...sets)).split(' ').toSorted(), ['0', '2']);
  });

  test('agents stay on a Node that is NotReady and on one that is deleted, beside a further one', async () => {
    const [unready, orphan] = await agents();
    const status = { conditions: [{ type: 'Ready', status: 'False' }] };
    const patch = ['--subresource=status', '-p', JSON.stringify({ status })];
    await tenant.kubectl('patch', 'node', unready.node, ...patch);
    const effects = ['-o', 'jsonpath={.spec.taints[*].effect}'];
    await until('a taint', async () =>
      (await tenant.kubectl('get', 'node', unready.node, ...effects)).includes('NoExecute'),
    );
    await tenant.kubectl('delete', 'node', orphan.node);
    await gateway.write(config('replicas: 3, image: "registry.lab/causeway:2"'));
    const names = (await settled(3)).map(({ name }) => name);
    assert.ok(names.includes(unready.name));
    // Pods without a Node are collected after 40 s or more.
    const orphanPod = ['pod', orphan.name, '-n', 'kube-system', '--ignore-not-found'];
    assert.ok(names.includes(orphan.name) || (await tenant.kubectl('get', ...orphanPod)) === '');
    await tenant.kubectl('delete', ...orphanPod, '--force', '--grace-period=0');
    await settled(3, all => all.every(({ node }) => node !== orphan.node));
  });

  test('a DaemonSet replaces the Deployment, with a Pod on every Node', async () => {
    await gateway.write(config('kind: DaemonSet'));
    await settled(3, all => all.every(({ image }) => image === 'registry.lab/causeway:1'));
    const workloads = ['get', 'deployments,daemonsets', '-n', 'kube-system', '-o', 'name'];
    await until(
      'no Deployment',
      async () => (await tenant.kubectl(...workloads)).trim() === 'daemonset.apps/causeway-agent',
    );
    await tenant.addNode('n5', '10.0.0.5');
    await settled(4, all => all.some(({ ip }) => ip === '10.0.0.5'));
  });

  test('without tenantEndpoints the objects stay, and the agents get the rights to write them', async () => {
    const before = await endpoints();
    await gateway.write(config('kind: DaemonSet', ''));
    const path = ['-o', 'jsonpath={.spec.template.spec.containers[0].args}'];
    await until('agents that write the endpoints', async () =>
      (await tenant.kubectl('get', 'daemonset', 'causeway-agent', '-n', 'kube-system', ...path)).includes(
        '"--endpoints"',
      ),
    );
    const kinds = ['get', 'roles,rolebindings,clusterroles,clusterrolebindings', '-A', '-o', 'name'];
    await until(
      'the rights',
      async () => (await tenant.kubectl(...kinds)).match(/\/causeway-agent$/gm)?.length === 6,
    );
    assert.deepEqual(await endpoints(), before);
  });

  test('without tenantAgent everything that is called causeway-agent is gone, and the endpoints stay', async () => {
    const before = await endpoints();
    const left = async () => {
      const all = await Promise.all([
        tenant.kubectl('get', NAMESPACED, '-A', '-o', 'name'),
        tenant.kubectl('get', 'clusterroles,clusterrolebindings', '-o', 'name'),
      ]);
      return all
        .join('')
        .split('\n')
        .filter(name => name.includes('causeway-agent'));
    };
    assert.ok((await left()).some(name => name === 'secret/causeway-agent'));
    await gateway.write(config('', ''));
    await until('nothing left', async () => (await left()).length === 0).catch(async (error: Error) =>
      assert.fail(`${error.message}: ${(await left()).join()}`),
    );
    assert.deepEqual(await endpoints(), before);
    // The controllers have made no further one from the Endpoints.
    const slices = await tenant.kubectl('get', 'endpointslices', '-n', 'default', '-o', 'name');
    assert.equal(slices.trim(), 'endpointslice.discovery.k8s.io/kubernetes');
  });
});

interface AgentPod extends Pod {
  readonly spec: { readonly nodeName?: string; readonly containers: readonly { readonly image: string }[] };
  readonly status?: Pod['status'] & {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

const agentPods = pods as Resource<AgentPod>;

function isRunning({ metadata, status }: Pod): boolean {
  return status?.phase === 'Running' && metadata.deletionTimestamp === undefined;
}

interface SeenEndpoints extends AsyncDisposable {
  /** After every change of the EndpointSlice or of an agent: what it lists, and the addresses of agents that run. */
  readonly states: readonly { readonly addresses: readonly string[]; readonly running: readonly string[] }[];
}

async function watchEndpoints(client: KubeApi): Promise<SeenEndpoints> {
  const end = new AbortController();
  const watches: Promise<unknown>[] = [];
  const states: SeenEndpoints['states'][number][] = [];
  const agents = new Map<string, Pod>();
  let addresses: readonly string[] = [];
  async function follow<T extends KubeObject>(
    resource: Resource<T>,
    selection: Selection,
    see: (object: T, isDeleted: boolean) => void,
  ): Promise<void> {
    const listed = await client.list(resource, selection);
    assert.ok(listed.ok);
    for (const object of listed.value.items) see(object, false);
    const { resourceVersion } = listed.value;
    const { signal } = end;
    const watch = client.watch(resource, { ...selection, resourceVersion, signal }, event => {
      if (event.type === 'BOOKMARK') return;
      see(event.object, event.type === 'DELETED');
      const running = [...agents.values()].filter(isRunning).map(({ status }) => status?.podIP ?? '');
      states.push({ addresses, running });
    });
    watches.push(watch);
  }
  await follow(pods, { namespace: 'kube-system', labelSelector: AGENTS_SELECTOR }, (pod, isDeleted) =>
    isDeleted ? agents.delete(pod.metadata.name) : agents.set(pod.metadata.name, pod),
  );
  await follow(
    endpointSlices,
    { namespace: 'default', fieldSelector: 'metadata.name=kubernetes' },
    (slice, isDeleted) => {
      addresses = isDeleted ? [] : addressesOf(slice);
    },
  );
  return {
    states,
    async [Symbol.asyncDispose]() {
      end.abort();
      await Promise.all(watches);
    },
  };
}

/** What Kamaji would create. The gateway carries nothing here, so its backend may be anywhere. */
function controlPlaneObjects(adminKubeconfig: string): readonly object[] {
  const { status: _, ...object } = documentedTenant('tenants', 'a');
  const metadata = { name: 'a', namespace: 'tenants' };
  const { annotations } = object.metadata;
  return [
    { ...object, metadata: { ...metadata, annotations } },
    ...tenantService('tenants', 'a', '192.0.2.1', 6443),
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { ...metadata, name: 'a-admin-kubeconfig' },
      stringData: { 'admin.svc': adminKubeconfig },
    },
  ];
}
