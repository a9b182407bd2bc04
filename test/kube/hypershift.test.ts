// HyperShift from end to end: a management cluster with the real definitions of HostedClusters and Routes, `causeway run`
// in the place of `hypershift-sharedingress` with the rights that `render rbac` prints, and two hosted control planes
// whose API servers have the ClusterIPs of their Services. Users come by SNI, nodes by the id in a PROXY header.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { publishedSpec, sampleRoutes } from '../../src/sources/hypershift.samples.ts';
import { goBuild, missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startAgent } from '../../testbed/start-agent.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { bytes, hello, lineOf, proxyV2, until, visit } from '../features/given.ts';
import { addAccount, grantAccess, grantRights } from './grant-rights.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') ||
  missingNetns();

/** HyperShift's address on the loopback of every node. */
const NODE_ADDRESS = '172.20.0.1';
const TENANT_UPLINK = '198.51.100.1:6443';
/** A missing definition is looked for every 10 s, then less often. */
const DEFINITION_MS = 120_000;

type Name = 'a' | 'b';
const names: readonly Name[] = ['a', 'b'];
const idOf = (name: Name) => `4954e6da-fc87-4e74-9861-05895fe9549${name}`;
const hostOf = (name: Name) => `api.${name}.example.com`;
const namespaceOf = (name: Name) => `clusters-${name}`;
/** Of Service `kube-apiserver`. No kube-proxy here: a host has this address. */
const clusterIps: Readonly<Record<Name, string>> = { a: '10.96.77.10', b: '10.96.77.11' };
/** Nodes and users of each cluster, and the CIDRs that admit them. */
const addresses: Readonly<Record<Name, string>> = { a: '203.0.113.7', b: '203.0.113.200' };
const cidrs: Readonly<Record<Name, readonly string[]>> = {
  a: ['203.0.113.0/25', '2001:db8::/32'],
  b: ['192.0.2.0/24', '203.0.113.128/25'],
};

interface ClusterAnswer {
  readonly name: string;
  readonly id: string | null;
  readonly routes: readonly {
    readonly kind: string;
    readonly hosts: readonly string[];
    readonly backends: readonly { readonly address: string }[];
  }[];
  readonly findings: readonly { readonly code: string }[];
}

describe('HyperShift, from the HostedCluster to kubectl', { skip, timeout: 900_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let management: ApiServer;
  let apis: Record<Name, ApiServer>;
  let nodes: Record<Name, Netns>;
  let gateway: Causeway;

  before(async () => {
    dir = stack.use(await tempDir());
    const hosts = async (all: Readonly<Record<Name, string>>, lo: readonly string[]) => ({
      a: stack.use(await netns({ name: 'a', address: all.a, lo })),
      b: stack.use(await netns({ name: 'b', address: all.b, lo })),
    });
    nodes = await hosts(addresses, [NODE_ADDRESS]);
    const controlPlanes = await hosts(clusterIps, []);
    const startApi = async (name: Name) =>
      stack.use(
        await startApiServer({
          netns: controlPlanes[name],
          bindAddress: '0.0.0.0',
          port: 6443,
          sans: [hostOf(name), NODE_ADDRESS, clusterIps[name]],
        }),
      );
    management = stack.use(await startApiServer());
    const [a, b] = await Promise.all(names.map(startApi));
    apis = { a, b };
    for (const name of ['clusters', ...names.map(namespaceOf)])
      await management.kubectl('create', 'namespace', name);
    await addAccount(management);
    await writeFile(dir.file('kubeconfig'), '');
    await grantAccess(management, config(), dir.file('kubeconfig'));
    gateway = stack.use(await startCauseway({ config: config() }));
  });
  after(() => stack.disposeAsync());

  /** As the shared ingress listens: nodes on one port, users on the other. */
  function config(outputs = '[]'): string {
    return `listen:
  - { on: "0.0.0.0:0", agents: [0.0.0.0/0, "::/0"], only: [api] }
  - { on: ":0" }
sources: [{ hypershift: { kubeconfig: ${dir.file('kubeconfig')}, namespaces: [clusters] } }]
outputs: ${outputs}
lease: { name: causeway, namespace: causeway-system }
`;
  }

  const hostedCluster = (name: Name, allowedCIDRBlocks: readonly string[]) => ({
    apiVersion: 'hypershift.openshift.io/v1beta1',
    kind: 'HostedCluster',
    metadata: { name, namespace: 'clusters' },
    spec: {
      ...publishedSpec(`${name}.example.com`),
      clusterID: idOf(name),
      platform: { type: 'None' },
      release: { image: 'release.example.com/ocp:4.20' },
      pullSecret: { name: 'pull' },
      etcd: { managementType: 'Managed', managed: { storage: { type: 'PersistentVolume' } } },
      networking: { apiServer: { allowedCIDRBlocks } },
    },
  });

  const service = (name: Name, service: string, port: number, clusterIP?: string) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: service, namespace: namespaceOf(name) },
    spec: { ports: [{ port, protocol: 'TCP' }], ...(clusterIP !== undefined && { clusterIP }) },
  });

  async function cluster(name: Name): Promise<ClusterAnswer | undefined> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    const all = (await answer.json()) as readonly ClusterAnswer[];
    return all.find(each => each.name === `clusters.${name}`);
  }

  const getNamespaces = async (file: string, from: Netns) =>
    (await kubectl(file, ['get', 'namespaces', '--request-timeout=5s'], { netns: from })).code === 0;

  /** A user of that cluster's network, by SNI. */
  async function bySni(name: Name, from: Netns): Promise<boolean> {
    const server = `https://${from.machine}:${gateway.ports[1]}`;
    return getNamespaces(await apis[name].kubeconfig({ server, serverName: hostOf(name) }), from);
  }

  /** A process on a node of that network: its agent adds the id. */
  async function byId(name: Name, from: Netns): Promise<boolean> {
    await using agent = await startAgent({
      uplink: 'proxy',
      gateway: `${from.machine}:${gateway.ports[0]}`,
      id: idOf(name),
      on: `${NODE_ADDRESS}:6443`,
      netns: from,
    });
    assert.equal(agent.port, 6443);
    const file = await apis[name].kubeconfig({ server: `https://${NODE_ADDRESS}:6443` });
    // Awaited here: the agent ends with this function.
    return await getNamespaces(file, from);
  }

  test('is ready without the definitions, and says that they are missing', async () => {
    await until('readyz', async () => (await fetch(`${gateway.admin}/readyz`)).ok);
    await gateway.line(line => JSON.stringify(line).includes('SourceCrdMissing'));
  });

  test('serves HostedClusters once their definitions are there', async () => {
    await installDefinition(
      management,
      'hypershift-hostedclusters',
      'hostedclusters.hypershift.openshift.io',
    );
    await installDefinition(management, 'openshift-routes', 'routes.route.openshift.io');
    for (const name of names) {
      await management.apply(
        hostedCluster(name, cidrs[name]),
        service(name, 'kube-apiserver', 6443, clusterIps[name]),
        service(name, 'oauth-openshift', 6443),
        service(name, 'konnectivity-server', 8091),
        service(name, 'ignition-server-proxy', 443),
        service(name, 'metrics-proxy', 443),
        ...sampleRoutes(namespaceOf(name), `${name}.example.com`),
      );
    }
    const ports = { api: 6443, konnectivity: 8091, oauth: 6443, ignition: 443, metrics: 443 };
    for (const name of names) {
      const found = await until(
        `cluster ${name}`,
        async () => {
          const now = await cluster(name);
          return now?.routes.length === 5 ? now : undefined;
        },
        DEFINITION_MS,
      );
      assert.equal(found.id, idOf(name));
      assert.deepEqual(
        found.routes.map(({ kind, hosts, backends }) => [
          kind,
          hosts,
          backends.map(({ address }) => address.split(':')[1]),
        ]),
        Object.entries(ports).map(([kind, port]) => [kind, [`${kind}.${name}.example.com`], [String(port)]]),
      );
      assert.equal(found.routes[0].backends[0].address, `${clusterIps[name]}:6443`);
    }
  });

  test('admits users by SNI according to the list of each cluster', async () => {
    for (const name of names) await until(`kubectl to ${name}`, () => bySni(name, nodes[name]));
    assert.equal(await bySni('a', nodes.b), false);
    assert.equal(await bySni('b', nodes.a), false);
    for (const [name, from] of [
      ['a', addresses.b],
      ['b', addresses.a],
    ]) {
      await gateway.line(
        ({ reason, cluster, client }) =>
          reason === 'not-allowed' && cluster === `clusters.${name}` && String(client).startsWith(`${from}:`),
      );
    }
  });

  test('admits nodes by id according to the same lists', async () => {
    for (const name of names) assert.ok(await byId(name, nodes[name]), name);
    assert.equal(await byId('a', nodes.b), false);
    assert.equal(await byId('b', nodes.a), false);
  });

  test('does not believe the source that a node claims', async () => {
    const header = proxyV2({ source: addresses.a, id: idOf('a') });
    const { address, since } = await visit(gateway.ports[0], bytes(header, hello('')));
    const { reason, client, origin } = await lineOf(gateway, { address, since });
    assert.deepEqual([reason, client], ['not-allowed', address]);
    assert.match(String(origin), new RegExp(addresses.a));
  });

  test('does not take an id from users', async () => {
    const header = proxyV2({ source: addresses.a, id: idOf('a') });
    const { address, since } = await visit(gateway.ports[1], bytes(header, hello(hostOf('a'))));
    assert.equal((await lineOf(gateway, { address, since })).reason, 'untrusted-agent');
  });

  test('cuts connections that a tighter list no longer admits, and admits who is added', async () => {
    const server = `https://${nodes.a.machine}:${gateway.ports[1]}`;
    const file = await apis.a.kubeconfig({ server, serverName: hostOf('a') });
    await using _ = await nodes.a.start({
      command: await goBuild('kubectl'),
      args: [`--kubeconfig=${file}`, 'get', 'namespaces', '--watch'],
      env: { HOME: dir.path, KUBECONFIG: '', NO_PROXY: '*', no_proxy: '*' },
      ready: { log: /kube-system/ },
    });
    await management.apply(hostedCluster('a', [`${addresses.b}/32`]));
    await gateway.line(({ reason, cluster }) => reason === 'revoked' && cluster === 'clusters.a');
    assert.ok(await bySni('a', nodes.b));
    assert.equal(await bySni('a', nodes.a), false);
    assert.equal(await byId('a', nodes.a), false);
    await management.apply(hostedCluster('a', cidrs.a));
    await until('the old list', () => bySni('a', nodes.a));
  });

  test('writes the state back to the HostedCluster', async () => {
    const status = () =>
      management.kubectl(
        'get',
        'hostedcluster',
        'a',
        '-n',
        'clusters',
        '-o',
        String.raw`jsonpath={.metadata.annotations.causeway\.dev/status}`,
      );
    const text = await until('the annotation', async () => {
      const now = await status();
      return now.includes(hostOf('a')) ? now : undefined;
    });
    assert.deepEqual((JSON.parse(text) as { findings: unknown[] }).findings, []);
    await management.kubectl('delete', 'service', 'oauth-openshift', '-n', namespaceOf('a'));
    await until('the Event', async () => {
      const about = 'involvedObject.name=a,reason=ServiceMissing,type=Warning';
      return (
        (await management.kubectl(
          'get',
          'events',
          '-n',
          'clusters',
          '--field-selector',
          about,
          '-o',
          'name',
        )) !== ''
      );
    });
    assert.ok((await cluster('a'))?.findings.some(({ code }) => code === 'ServiceMissing'));
    assert.ok(await bySni('a', nodes.a));
  });

  test('installs the agent with the admin kubeconfig of the HostedCluster', async () => {
    const text = await readFile(await apis.b.kubeconfig(), 'utf8');
    await management.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'b-admin-kubeconfig', namespace: 'clusters' },
      data: { kubeconfig: Buffer.from(text).toString('base64') },
    });
    const file = config(`[{ tenantAgent: { gateway: "${TENANT_UPLINK}" } }]`);
    await grantRights(management, file);
    await gateway.write(file);
    const args = ['get', 'deployment', 'causeway-agent', '-n', 'kube-system', '-o', 'json'] as const;
    const found = await until('the agent', () => apis.b.kubectl(...args).catch(() => undefined));
    for (const part of [idOf('b'), TENANT_UPLINK]) assert.ok(found.includes(part), part);
    const isTold = async () => (await cluster('a'))?.findings.some(({ code }) => code === 'SecretMissing');
    await until('a finding where there is no Secret', isTold);
  });

  test('forgets a HostedCluster that is deleted, and leaves the other', async () => {
    await management.kubectl('delete', 'hostedcluster', 'a', '-n', 'clusters');
    await until('no cluster', async () => (await cluster('a')) === undefined);
    assert.equal(await bySni('a', nodes.a), false);
    assert.ok(await bySni('b', nodes.b));
    assert.ok(await byId('b', nodes.b));
  });
});
