// Two tenants with the same Service network behind one port of one gateway. In each, `kubernetes.default.svc` works as
// in any cluster:
//
//   pod ── 10.96.0.1:443 ── kube-proxy ── EndpointSlice ── causeway agent ══ gateway ══ kube-apiserver of that tenant
//
// The traffic names no server: the agent's signed id selects it.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { authorityOf } from '../../testbed/certificates.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { startEtcd } from '../../testbed/start-etcd.ts';
import { startKubeProxy } from '../../testbed/start-kube-proxy.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { type Pod, startPod } from './start-pod.ts';

const skip =
  missingPrograms('openssl', 'curl', 'nft', 'iptables') ||
  missingNetns() ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'kube-proxy');
const TIMEOUT_MS = 900_000;
/** A lease expires after 40 s, and up to two rounds of 10 s pass before that is noticed. */
const WAIT_MS = 180_000;

/** The first of 10.96.0.0/16, in both. */
const CLUSTER_IP = '10.96.0.1';
/** The port of all agents. */
const PORT = 6443;
/** HyperShift's address, on the loopback of every node. */
const SHARED = '172.20.0.1';
/** kube-proxy's delay for a change, as in a cluster with many Services. */
const LAG = '2s';
/** A stale address, from an API server that wrote its endpoints itself and is gone. */
const STALE = '192.0.2.10';

type Name = 'a' | 'b';
type NodeName = 'a1' | 'a2' | 'a3' | 'b1';
const idOf = (name: Name) => `00000000-0000-4000-8000-00000000000${name}`;

describe('tenants with one Service network', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let apis: Record<Name, ApiServer>;
  let nodes: Record<NodeName, Netns>;
  let pods: Record<Name, Pod>;
  let gateway: Causeway;
  const agents = {} as Record<NodeName, RunningAgent>;

  before(async () => {
    dir = stack.use(await tempDir());
    const [a, b] = await Promise.all([startFormerLeaseApi(), startApi('b')]);
    apis = { a, b };
    const host = async (name: Name) => stack.use(await netns({ name, names: [`api.${name}.test`] }));
    nodes = { a1: await host('a'), a2: await host('a'), a3: await host('a'), b1: await host('b') };
    gateway = stack.use(await startGateway());
  });
  after(() => stack.disposeAsync());

  async function startApi(name: Name): Promise<ApiServer> {
    return stack.use(await startApiServer({ sans: [`api.${name}.test`] }));
  }

  /** Tenant a was an independent cluster before: its first API server wrote the endpoints. */
  async function startFormerLeaseApi(): Promise<ApiServer> {
    const store = stack.use(await startEtcd());
    const authority = await authorityOf('tenant a');
    const cluster = { store, authority, sans: ['api.a.test'] };
    {
      const flags = [`--advertise-address=${STALE}`];
      await using first = await startApiServer({ ...cluster, endpointReconciler: 'lease', flags });
      await endpointsBecome(first, STALE);
    }
    return stack.use(await startApiServer(cluster));
  }

  async function startGateway(): Promise<Causeway> {
    await writeFile(dir.file('secret'), 'a secret for tests, of at least 32 bytes\n');
    return startCauseway({
      config: `
listen: [{ on: "${nodes.a1.machine}:0", agents: [198.18.0.0/15] }]
identity: { secretFile: ${dir.file('secret')}, required: true }
clusters:
  - { name: a, id: ${idOf('a')}, api: { hosts: [api.a.test], backends: ["127.0.0.1:${apis.a.port}"] } }
  - { name: b, id: ${idOf('b')}, api: { hosts: [api.b.test], backends: ["127.0.0.1:${apis.b.port}"] } }
`,
    });
  }

  async function keyOf(name: Name): Promise<string> {
    const flags = ['--secret-file', dir.file('secret'), '--cluster-id', idOf(name)];
    const { code, stdout, stderr } = await run(causewayBin, ['identity', 'key', ...flags]);
    assert.equal(code, 0, stderr);
    await writeFile(dir.file(`${name}.key`), stdout, { mode: 0o600 });
    return dir.file(`${name}.key`);
  }

  /** With `--endpoints`: it adds itself to the EndpointSlice. */
  async function startMember(node: Netns, name: Name, ...flags: readonly string[]): Promise<RunningAgent> {
    const kubeconfig = await apis[name].kubeconfig({ serverName: 'kubernetes.default.svc' });
    const key = ['--key-file', await keyOf(name)];
    return startAgent({
      netns: node,
      uplink: 'proxy',
      id: idOf(name),
      gateway: `${node.machine}:${gateway.port}`,
      on: `${node.address}:${PORT}`,
      args: [...key, '--endpoints', '--kubeconfig', kubeconfig, ...flags],
    });
  }

  async function startHypershiftAgent(node: Netns, name: Name): Promise<RunningAgent> {
    return startMember(node, name, '--local-address', SHARED, '--on', `${SHARED}:${PORT}`);
  }

  function endpointsBecome(api: ApiServer, ...addresses: readonly string[]): Promise<boolean> {
    const wanted = addresses.toSorted().join(' ');
    const read = async () => {
      const found = (await slice(api, '{.endpoints[*].addresses[0]}')).split(' ').toSorted().join(' ');
      return found === wanted;
    };
    return until(`the slice to have ${wanted}`, read, WAIT_MS);
  }

  /** A node's kube-proxy, which reaches its API server by name, and a pod on the node. */
  async function startPodOn(node: Netns, name: Name): Promise<Pod> {
    const api = apis[name];
    await api.addNode('node-1', node.address);
    const metadata = { name: 'pod', namespace: 'default' };
    await api.apply(
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'Role',
        metadata,
        rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }],
      },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata,
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'pod' },
        subjects: [{ kind: 'ServiceAccount', name: 'pod', namespace: 'default' }],
      },
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...metadata, name: 'tenant' }, data: { name } },
    );
    const kubeconfig = await api.kubeconfig({ server: `https://api.${name}.test:${gateway.port}` });
    // Pods and nodes are on one link here: without source NAT, replies would bypass
    // kube-proxy.
    const flags = ['--masquerade-all', `--iptables-min-sync-period=${LAG}`];
    const mode = name === 'a' ? 'iptables' : 'nftables';
    stack.use(await startKubeProxy({ netns: node, kubeconfig, node: 'node-1', mode, flags }));
    return stack.use(await startPod({ node, api, account: 'pod', clusterIp: CLUSTER_IP }));
  }

  const slice = (api: ApiServer, path: string) =>
    api.kubectl('get', 'endpointslice', 'kubernetes', '--ignore-not-found', '-o', `jsonpath=${path}`);
  const service = (api: ApiServer, path: string) =>
    api.kubectl('get', 'service', 'kubernetes', '--ignore-not-found', '-o', `jsonpath=${path}`);

  test('--endpoint-reconciler-type=none keeps the Service and does not touch the slice, even a stale one', async () => {
    assert.equal(await slice(apis.a, '{.endpoints[*].addresses}'), `["${STALE}"]`);
    assert.equal(await apis.b.kubectl('get', 'endpointslices,endpoints', '-o', 'name'), '');
    const version = await slice(apis.a, '{.metadata.resourceVersion}');
    const uids = [await service(apis.a, '{.metadata.uid}')];
    // It reconciles every ten seconds, first the Service, then the endpoints. A new Service shows that a round has
    // begun, and the next one that it has ended.
    for (let looks = 0; looks < 2; looks++) {
      await apis.a.kubectl('delete', 'service', 'kubernetes');
      uids.push(await until('a new Service', () => service(apis.a, '{.metadata.uid}'), WAIT_MS));
    }
    assert.equal(new Set(uids).size, 3);
    assert.equal(await service(apis.a, '{.spec.clusterIP}'), CLUSTER_IP);
    assert.equal(await slice(apis.a, '{.metadata.resourceVersion}'), version);
  });

  test('a pod reaches the API server of its own tenant, with the in-cluster configuration only', async () => {
    agents.a1 = stack.use(await startMember(nodes.a1, 'a'));
    agents.a2 = stack.use(await startMember(nodes.a2, 'a'));
    agents.b1 = stack.use(await startHypershiftAgent(nodes.b1, 'b'));
    await endpointsBecome(apis.a, nodes.a1.address, nodes.a2.address);
    await endpointsBecome(apis.b, SHARED);
    const [a, b] = await Promise.all([startPodOn(nodes.a1, 'a'), startPodOn(nodes.b1, 'b')]);
    pods = { a, b };
    for (const name of ['a', 'b'] as const) {
      const { stdout, stderr } = await pods[name].kubectl(
        'get',
        'configmap',
        'tenant',
        '-o',
        'jsonpath={.data.name}',
      );
      assert.equal(stdout.toString(), name, stderr);
      const line = await gateway.line(
        ({ clusterId, reason, host }) => clusterId === idOf(name) && reason === 'done' && host === null,
      );
      assert.deepEqual([line.cluster, line.route], [name, 'api']);
    }
    const byAgents = gateway.connections().filter(({ clusterId }) => clusterId !== null);
    const ways = byAgents.map(({ clusterId, backend }) => `${clusterId} ${backend}`);
    const backendOf = (name: Name) => `${idOf(name)} 127.0.0.1:${apis[name].port}`;
    assert.deepEqual(new Set(ways), new Set([backendOf('a'), backendOf('b')]));
  });

  test('the name of the Service works like its address', async () => {
    for (const name of ['a', 'b'] as const) {
      const resolve = ['--resolve', `kubernetes.default.svc:443:${CLUSTER_IP}`];
      const url = 'https://kubernetes.default.svc/api/v1/namespaces/default/configmaps/tenant';
      const { stdout, stderr } = await pods[name].curl(url, ...resolve);
      assert.equal(JSON.parse(stdout.toString()).data.name, name, stderr);
    }
  });

  test('a tenant cannot claim another’s id, with its own key or without one', async () => {
    for (const [why, key] of [
      ['wrong', ['--key-file', await keyOf('a')]],
      ['missing', []],
    ] as const) {
      await using liar = await startAgent({
        netns: nodes.a1,
        uplink: 'proxy',
        id: idOf('b'),
        gateway: `${nodes.a1.machine}:${gateway.port}`,
        args: key,
      });
      const { code, stdout, stderr } = await nodes.a1.run('curl', [
        '-sSk',
        `https://127.0.0.1:${liar.port}/version`,
      ]);
      assert.equal(code, 35, stderr); // the handshake failed
      assert.equal(stdout.length, 0);
      const reported = await gateway.line(line => line.msg === 'bad signature' && line.why === why);
      const line = await gateway.line(
        ({ msg, client }) => msg === 'connection' && client === reported.client,
      );
      assert.deepEqual(
        [line.reason, line.clusterId, line.cluster, line.backend],
        ['bad-signature', idOf('b'), null, null],
      );
      await liar.line(({ msg, why }) => msg === 'gateway closed at once' && /signed/.test(String(why)));
    }
  });

  test('a rolling update of an agent is not noticed by pods', async () => {
    const failures: string[] = [];
    const done = new AbortController();
    const asking = (async () => {
      while (!done.signal.aborted) {
        const { code, stderr } = await pods.a.curl(`https://${CLUSTER_IP}/version`);
        if (code !== 0) failures.push(stderr);
      }
    })();
    try {
      agents.a3 = stack.use(await startMember(nodes.a3, 'a'));
      await endpointsBecome(apis.a, nodes.a1.address, nodes.a2.address, nodes.a3.address);
      agents.a2.program.signal('SIGTERM');
      await endpointsBecome(apis.a, nodes.a1.address, nodes.a3.address);
      assert.equal((await agents.a2.program.ended).code, 0);
    } finally {
      done.abort();
      await asking;
    }
    assert.deepEqual(failures, []);
  });

  test('one of two agents is killed: the other serves, and removes it from the endpoints', async () => {
    const ask = async () => (await pods.a.curl(`https://${CLUSTER_IP}/version`)).code === 0;
    const carried = ({ lines }: RunningAgent) => lines().filter(({ msg }) => msg === 'connection').length;
    await until(
      'both to have carried something',
      async () => {
        assert.equal(await ask(), true);
        return carried(agents.a1) > 0 && carried(agents.a3) > 0;
      },
      WAIT_MS,
    );
    agents.a1.program.signal('SIGKILL');
    await agents.a1.program.ended;
    // Until its lease expires, half of the attempts reach the dead one.
    await until('an answer by the other', ask, WAIT_MS);
    await endpointsBecome(apis.a, nodes.a3.address);
    const tenAnswers = async () => {
      for (let i = 0; i < 10; i++) if (!(await ask())) return false;
      return true;
    };
    await until('only the living one to be asked', tenAnswers, WAIT_MS);
    // A foreign writer would be a finding; there was none.
    for (const { lines } of Object.values(agents))
      assert.deepEqual(
        lines().filter(({ msg }) => msg === 'finding'),
        [],
      );
  });
});
