// Kubermatic from end to end: a seed cluster with the real CustomResourceDefinition, the real API server of a user cluster
// behind a Service as nodeport-proxy would expose it, and `causeway run` with the rights that `render rbac` prints.
// kubectl goes through the gateway; apps follow the nodes of the user cluster.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { dig } from '../dns/start-dns.ts';
import { until } from '../features/given.ts';
import { addAccount, grantAccess } from './grant-rights.ts';
import { addUserCluster } from './user-cluster.ts';

const skip =
  missingPrograms('openssl', 'dig') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') ||
  missingNetns();
const HOST = 'abc.eu.k8c.lab';
/** creationTimestamp has seconds; within one the UID decides. */
const OLDER_MS = 1100;

interface ClusterAnswer {
  readonly name: string;
  readonly id: string | null;
  readonly object: { readonly kind: string; readonly name: string } | null;
  readonly routes: readonly {
    readonly kind: string;
    readonly hosts: readonly string[];
    readonly backends: readonly { readonly address: string }[];
  }[];
  readonly findings: readonly { readonly code: string }[];
}

interface Endpoint {
  readonly dnsName: string;
  readonly targets: readonly string[];
}

describe('Kubermatic, from a Cluster to kubectl and apps', { skip, timeout: 600_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let seed: ApiServer;
  let user: ApiServer;
  let machine: string;
  let gateway: Causeway;

  before(async () => {
    dir = stack.use(await tempDir());
    // An EndpointSlice cannot have a loopback address.
    ({ machine } = stack.use(await netns({ name: 'kuber' })));
    [seed, user] = await Promise.all([
      startApiServer(),
      startApiServer({ bindAddress: machine, sans: [HOST, machine, 'kubernetes.default.svc'] }),
    ]);
    stack.use(seed);
    stack.use(user);
    await installDefinition(seed, 'kubermatic-clusters', 'clusters.kubermatic.k8c.io');
    await installDefinition(seed, 'external-dns-dnsendpoints', 'dnsendpoints.externaldns.k8s.io');
    await addAccount(seed);
    await writeFile(dir.file('kubeconfig'), '');
    const config = `listen: [{ on: "127.0.0.1:0", agents: [127.0.0.0/8] }]
sources: [{ kubermatic: { kubeconfig: ${dir.file('kubeconfig')}, zone: apps.lab } }]
outputs:
  - dnsEndpoint: { zone: dns.lab, ttl: 30s }
  - dnsServer: { on: "127.0.0.1:0", addresses: [203.0.113.10], targets: nodes }
lease: { name: causeway, namespace: causeway-system }
`;
    await grantAccess(seed, config, dir.file('kubeconfig'));
    gateway = stack.use(await startCauseway({ config }));
  });
  after(() => stack.disposeAsync());

  /** A Cluster with what Kubermatic makes of it; its API server is the user cluster's. */
  async function addCluster(id: string, host: string): Promise<void> {
    const namespace = `cluster-${id}`;
    await addUserCluster(seed, { id, kubeconfig: await user.kubeconfig() });
    const metadata = { name: 'apiserver-external', namespace };
    await seed.apply(
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: {
          ...metadata,
          annotations: {
            'nodeport-proxy.k8s.io/expose': 'SNI,Tunneling',
            'nodeport-proxy.k8s.io/port-mapping': JSON.stringify({ secure: host }),
          },
        },
        spec: { ports: [{ name: 'secure', port: 443, targetPort: user.port, protocol: 'TCP' }] },
      } as never,
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': metadata.name } },
        addressType: 'IPv4',
        endpoints: [{ addresses: [machine], conditions: { ready: true } }],
        ports: [{ name: 'secure', port: user.port, protocol: 'TCP' }],
      } as never,
    );
  }

  async function cluster(name: string): Promise<ClusterAnswer | undefined> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    return ((await answer.json()) as readonly ClusterAnswer[]).find(each => each.name === name);
  }

  const route = async (kind: string, name = 'abc') =>
    (await cluster(name))?.routes.find(each => each.kind === kind);

  const backends = async (kind: string) => (await route(kind))?.backends.map(({ address }) => address);

  /** Of the DNSEndpoints, by name. */
  async function records(): Promise<Record<string, readonly string[]>> {
    const text = await seed.kubectl('get', 'dnsendpoints', '-n', 'causeway-system', '-o', 'json');
    const { items } = JSON.parse(text) as { items: { spec: { endpoints: Endpoint[] } }[] };
    const all = items.flatMap(({ spec }) => spec.endpoints);
    return Object.fromEntries(all.map(({ dnsName, targets }) => [dnsName, targets]));
  }

  /** Apps and DNS lead there. */
  async function followed(what: string, ...addresses: readonly string[]): Promise<void> {
    await until(what, async () => {
      const found = [await backends('apps-https'), await backends('apps-http')];
      const expected = [443, 80].map(port => addresses.map(address => `${address}:${port}`));
      return JSON.stringify(found) === JSON.stringify(expected);
    });
    await until(
      `${what}, in DNS`,
      async () => String((await records())['*.abc.dns.lab']) === String(addresses),
    );
    await until(`${what}, by the DNS server`, async () => {
      const { dns } = await gateway.line(({ msg }) => msg === 'ready');
      const port = Number(String(dns).split(':').at(-1));
      assert.deepEqual((await dig(port, HOST, 'A')).data, ['203.0.113.10']);
      return String((await dig(port, 'shop.abc.apps.lab', 'A')).data) === String(addresses);
    });
  }

  async function setNode(name: string, ready: boolean, address: string): Promise<void> {
    const status = {
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'Unknown' }],
      addresses: [{ type: 'InternalIP', address }],
    };
    await user.kubectl(
      'patch',
      'node',
      name,
      '--subresource=status',
      '--type=merge',
      '-p',
      JSON.stringify({ status }),
    );
  }

  async function addNode(name: string, ready: boolean, address: string): Promise<void> {
    await user.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name } });
    await setNode(name, ready, address);
  }

  test('kubectl reaches a user cluster through the gateway by its external name', async () => {
    await addCluster('abc', HOST);
    const file = await user.kubeconfig({ server: `https://127.0.0.1:${gateway.port}`, serverName: HOST });
    await until(
      'kubectl through the gateway',
      async () => (await kubectl(file, ['get', 'namespaces', '--request-timeout=5s'])).code === 0,
    );
    const found = await cluster('abc');
    assert.deepEqual([found?.id, found?.object?.kind, found?.object?.name], ['abc', 'Cluster', 'abc']);
    assert.deepEqual((await route('api'))?.hosts, [HOST]);
  });

  test('agents reach it by CONNECT with the name of its Service, and by its id', async () => {
    for (const name of ['apiserver-external.cluster-abc.svc.cluster.local:443', 'abc:443']) {
      await using stack = new AsyncDisposableStack();
      const socket = connect(gateway.port, '127.0.0.1');
      stack.defer(() => void socket.destroy());
      socket.write(`CONNECT ${name} HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
      const [answer] = (await once(socket, 'data')) as [Buffer];
      assert.match(String(answer), /^HTTP\/1\.1 200 /, name);
    }
  });

  test('apps follow the nodes of the user cluster', async () => {
    assert.deepEqual((await route('apps-https'))?.hosts, ['*.abc.apps.lab']);
    await until('no nodes', async () =>
      (await cluster('abc'))?.findings.some(({ code }) => code === 'NodesNotReady'),
    );
    await addNode('a', true, '10.1.0.1');
    await addNode('b', true, '10.1.0.2');
    await addNode('c', false, '10.1.0.3');
    await followed('two nodes', '10.1.0.1', '10.1.0.2');
    await setNode('c', true, '10.1.0.3');
    await user.kubectl('cordon', 'a');
    await followed('a node that became ready, without one that is cordoned', '10.1.0.2', '10.1.0.3');
    await user.kubectl('delete', 'node', 'b');
    await followed('a node less', '10.1.0.3');
    await setNode('c', false, '10.1.0.3');
    await until('the finding', async () =>
      (await cluster('abc'))?.findings.some(({ code }) => code === 'NodesNotReady'),
    );
    await followed('the last one', '10.1.0.3');
    await user.kubectl('uncordon', 'a');
    await followed('a node that is back', '10.1.0.1');
  });

  test('the status is on the Cluster, and so are Events', async () => {
    const path = 'jsonpath={.metadata.annotations.causeway\\.dev/status}';
    const status = await until('the status', async () => {
      const text = await seed.kubectl('get', 'clusters.kubermatic.k8c.io', 'abc', '-o', path);
      return text !== '' && JSON.parse(text).findings.length === 0 ? text : undefined;
    });
    assert.deepEqual(JSON.parse(status).hosts, ['*.abc.apps.lab', HOST]);
    const about = 'involvedObject.kind=Cluster,involvedObject.name=abc,reason=NodesNotReady';
    const events = () =>
      seed.kubectl('get', 'events', '-n', 'default', '--field-selector', about, '-o', 'name');
    await until('the Event', async () => (await events()) !== '');
  });

  test('the younger Service does not get a host, and is told', async () => {
    await sleep(OLDER_MS);
    await addCluster('xyz', HOST);
    const about = 'involvedObject.name=apiserver-external,reason=HostClaimed,type=Warning';
    const events = () =>
      seed.kubectl('get', 'events', '-n', 'cluster-xyz', '--field-selector', about, '-o', 'name');
    await until('the Event', async () => (await events()) !== '');
    assert.deepEqual((await route('api', 'xyz'))?.hosts, ['xyz.eu.k8c.lab']);
    assert.deepEqual((await route('api', 'abc'))?.hosts, [HOST]);
  });

  test('a Cluster that is deleted is gone', async () => {
    await seed.kubectl('delete', 'clusters.kubermatic.k8c.io', 'xyz');
    await until('one cluster', async () => (await cluster('xyz')) === undefined);
    await until('its DNSEndpoint', async () => Object.keys(await records()).join() === '*.abc.dns.lab');
    assert.ok(await cluster('abc'));
  });

  test('nodes stay while the user cluster is away, and it alone has the finding', async () => {
    await user.stop();
    await until('the finding', async () =>
      (await cluster('abc'))?.findings.some(({ code }) => code === 'TenantUnreachable'),
    );
    await followed('the last node', '10.1.0.1');
  });
});
