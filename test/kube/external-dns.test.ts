// From the nodes of a user cluster to DNS: Kubermatic's user cluster with fifty Nodes that kwok makes Ready, `causeway run`
// with the rights that `render rbac` prints, a real external-dns with rights of its own, and BIND, which dig asks. Times are
// for people: no assertion on them.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, type TestContext, test } from 'node:test';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Bind, startBind } from '../../testbed/start-bind.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startExternalDns, TXT_PREFIX, WILDCARD } from '../../testbed/start-external-dns.ts';
import { startKwok } from '../../testbed/start-kwok.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';
import { addAccount, grantAccess } from './grant-rights.ts';
import { addUserCluster } from './user-cluster.ts';

const skip =
  missingPrograms('openssl', 'curl', 'named', 'dig') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'kwok', 'external-dns');
/** external-dns waits 5 s after a change, for further ones; a busy machine takes longer. */
const DNS_WAIT_MS = 180_000;
const NODES = Array.from({ length: 50 }, (_, i) => ({
  name: `n${i + 1}`,
  addresses: { InternalIP: [`10.2.0.${i + 1}`, ...(i === 49 ? ['2001:db8::50'] : [])] },
}));
/** By somebody else. */
const FOREIGN = {
  'nodes.lab': 'www IN A 192.0.2.1\nwww IN TXT "not of external-dns"',
  'gateway.lab': '*.taken IN A 192.0.2.2',
  'fixed.lab': '',
};

interface NodeSettings {
  readonly name: string;
  readonly addresses: Readonly<Record<string, readonly string[]>>;
}

describe('the nodes of a user cluster in DNS, by external-dns', { skip, timeout: 900_000 }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let seed: ApiServer;
  let user: ApiServer;
  let bind: Bind;
  let gateway: Causeway;
  /** Addresses that DNS has, or should have soon. */
  let expected = NODES.flatMap(({ addresses }) => addresses.InternalIP[0]);

  before(async () => {
    dir = stack.use(await tempDir());
    [seed, user] = await Promise.all([startApiServer(), startApiServer()]);
    stack.use(seed);
    stack.use(user);
    stack.use(await startKwok({ kubeconfig: await user.kubeconfig() }));
    await addNodes(...NODES);
    await installDefinition(seed, 'kubermatic-clusters', 'clusters.kubermatic.k8c.io');
    await installDefinition(seed, 'external-dns-dnsendpoints', 'dnsendpoints.externaldns.k8s.io');
    bind = stack.use(await startBind({ zones: FOREIGN }));
    await addAccount(seed);
    await seed.kubectl('create', 'namespace', 'team-a');
    await seed.apply(...externalDnsAccount());
    const externalDns = ['create', 'token', 'external-dns', '-n', 'causeway-system'];
    await writeKubeconfig('external-dns', (await seed.kubectl(...externalDns)).trim());
    stack.use(await startExternalDns({ kubeconfig: dir.file('external-dns'), bind }));
    await writeFile(dir.file('causeway'), '');
    await grantAccess(seed, config(), dir.file('causeway'));
    gateway = stack.use(await startCauseway({ config: config() }));
  });
  after(() => stack.disposeAsync());

  function config(): string {
    const server = `kubeconfig: ${dir.file('causeway')}`;
    return `listen: ["127.0.0.1:0"]
clusters:
  - { name: shop, id: shop, apps: { hosts: ["*.shop.apps.lab"], https: ["192.0.2.3:443"] } }
sources:
  - kubermatic: { ${server} }
  - services: { ${server}, domains: [apps.lab] }
outputs:
  - dnsEndpoint: { zone: nodes.lab, ttl: 30s }
  - dnsEndpoint: { zone: gateway.lab, targets: gateway, addresses: [203.0.113.10, "2001:db8::10"] }
  - dnsEndpoint: { zone: fixed.lab, targets: [198.51.100.7] }
lease: { name: causeway, namespace: causeway-system }
`;
  }

  async function writeKubeconfig(name: string, token: string): Promise<void> {
    const { url, caFile } = seed;
    await writeFile(dir.file(name), await kubeconfig({ server: url, caFile, user: { token } }));
  }

  /** kwok makes them Ready once they have an address. */
  async function addNodes(...nodes: readonly NodeSettings[]): Promise<void> {
    const list = nodes.map(({ name }) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name } }));
    await user.apply(...list);
    const items = list.map((node, i) => {
      const { addresses } = nodes[i];
      const all = Object.entries(addresses).flatMap(([type, of]) => of.map(address => ({ type, address })));
      return { ...node, status: { addresses: all } };
    });
    await writeFile(dir.file('nodes.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    // An apply cannot have two addresses of one type.
    await user.kubectl('replace', '--subresource=status', '-f', dir.file('nodes.json'));
  }

  async function setReady(names: readonly string[], status: 'True' | 'False'): Promise<void> {
    const patch = { status: { conditions: [{ type: 'Ready', status }] } };
    await user.kubectl('patch', 'node', ...names, '--subresource=status', '-p', JSON.stringify(patch));
  }

  /** Adds a cluster with apps: a Service of a tenant. */
  async function exposeApps(name: string): Promise<void> {
    const annotations = { hosts: `*.${name}.apps.lab`, id: name, route: 'apps-https' };
    const named = Object.entries(annotations).map(([key, value]) => [`causeway.dev/${key}`, value]);
    const metadata = { name, namespace: 'team-a', annotations: Object.fromEntries(named) };
    const spec = { ports: [{ name: 'https', port: 443 }] };
    await seed.apply({ apiVersion: 'v1', kind: 'Service', metadata, spec });
  }

  async function addresses(name: string, type = 'A'): Promise<readonly string[]> {
    return (await bind.dig(name, type)).records.map(({ data }) => data).toSorted();
  }

  /** Waits until dig gets exactly these. */
  async function isInDns(name: string, type: string, wanted: readonly string[]): Promise<void> {
    let last: readonly string[] = [];
    const found = async () => {
      last = await addresses(name, type);
      return String(last) === String(wanted.toSorted());
    };
    await until(`${type} of ${name}`, found, DNS_WAIT_MS).catch(({ message }: Error) =>
      assert.fail(`${message}: ${wanted.join(' ')}; it has ${last.join(' ')}`),
    );
  }

  /** Changes something, and waits until DNS has the addresses that follow from it. */
  async function follows(t: TestContext, what: string, change: () => Promise<unknown>, type = 'A') {
    const start = performance.now();
    await change();
    const changed = performance.now();
    const wanted = expected.filter(address => address.includes(':') === (type === 'AAAA'));
    await isInDns('foo.abc.nodes.lab', type, wanted);
    const seconds = (from: number) => ((performance.now() - from) / 1000).toFixed(1);
    t.diagnostic(
      `${what}: in DNS ${seconds(start)} s after kubectl began, ${seconds(changed)} s after it ended`,
    );
  }

  const without = (names: readonly string[]) => {
    const gone = new Set(names.map(name => `10.2.0.${name.slice(1)}`));
    return expected.filter(address => !gone.has(address));
  };

  async function codes(cluster: string): Promise<readonly string[]> {
    const answer = await fetch(`${gateway.admin}/api/v1/clusters`);
    const all = (await answer.json()) as readonly { name: string; findings: readonly { code: string }[] }[];
    return all.find(({ name }) => name === cluster)?.findings.map(({ code }) => code) ?? [];
  }

  /** The names of TXT records in a zone, besides the foreign one. */
  async function owners(zone: string): Promise<readonly string[]> {
    const records = await bind.transfer(zone);
    const names = records.filter(({ type, name }) => type === 'TXT' && !name.startsWith('www.'));
    return names.map(({ name }) => name).toSorted();
  }

  test('fifty ready nodes are in DNS, by family, for every name below the cluster', async t => {
    await follows(t, 'a cluster with 50 nodes', async () =>
      addUserCluster(seed, { id: 'abc', kubeconfig: await user.kubeconfig() }),
    );
    await isInDns('bar.abc.nodes.lab', 'AAAA', ['2001:db8::50']);
    const { records } = await bind.dig('bar.abc.nodes.lab', 'A');
    assert.deepEqual([records.length, records[0]?.ttl], [50, 30]);
    await isInDns('foo.abc.gateway.lab', 'A', ['203.0.113.10']);
    await isInDns('foo.abc.gateway.lab', 'AAAA', ['2001:db8::10']);
    await isInDns('foo.abc.fixed.lab', 'A', ['198.51.100.7']);
  });

  test('the TXT records that say whose they are have no wildcard in their names', async () => {
    const name = (type: string, zone: string) => `${TXT_PREFIX}${type}-${WILDCARD}.abc.${zone}`;
    for (const zone of ['nodes.lab', 'gateway.lab']) {
      const both = ['a', 'aaaa'].map(type => name(type, zone));
      const found = async () => (await owners(zone)).filter(owner => owner.includes('.abc.'));
      await until('the TXT records', async () => String(await found()) === String(both));
    }
    assert.ok((await owners('fixed.lab')).includes(name('a', 'fixed.lab')));
    const [owner] = (await bind.dig(name('a', 'nodes.lab'), 'TXT')).records;
    const resource = /external-dns\/resource=crd\/causeway-system\/abc-[0-9a-f]{10}/;
    assert.match(owner.data, /heritage=external-dns,external-dns\/owner=causeway/);
    assert.match(owner.data, resource);
  });

  test('nodes that go NotReady, are cordoned or are deleted leave DNS', async t => {
    const [unready, cordoned, deleted] = [
      ['n1', 'n2', 'n3', 'n4', 'n5'],
      ['n6', 'n7', 'n8'],
      ['n9', 'n10', 'n11', 'n12'],
    ];
    expected = without(unready);
    await follows(t, 'five nodes NotReady', () => setReady(unready, 'False'));
    expected = without(cordoned);
    await follows(t, 'three nodes cordoned', () => user.kubectl('cordon', ...cordoned));
    expected = without(deleted);
    await follows(t, 'four nodes deleted', () => user.kubectl('delete', 'node', ...deleted));
    assert.equal(expected.length, 38);
    expected = [...expected, '10.2.0.1', '10.2.0.6'];
    await follows(t, 'one Ready and one uncordoned', async () => {
      await setReady(['n1'], 'True');
      await user.kubectl('uncordon', 'n6');
    });
  });

  test('nodes that are added come: with their ExternalIPs, else their InternalIPs, IPv6 as AAAA', async t => {
    expected = [...expected, '198.51.100.51', '10.2.0.52'];
    await follows(t, 'three nodes added', () =>
      addNodes(
        { name: 'n51', addresses: { InternalIP: ['10.2.0.51'], ExternalIP: ['198.51.100.51'] } },
        { name: 'n52', addresses: { InternalIP: ['10.2.0.52'], Hostname: ['n52'] } },
        { name: 'n53', addresses: { InternalIP: ['10.2.0.53'], ExternalIP: ['2001:DB8:0::53'] } },
      ),
    );
    expected = [...expected, '2001:db8::50', '2001:db8::53'];
    await follows(t, 'their AAAA records', async () => {}, 'AAAA');
    expected = expected.filter(address => address !== '2001:db8::50' && address !== '10.2.0.50');
    await follows(t, 'a node of both families NotReady', () => setReady(['n50'], 'False'), 'AAAA');
    await isInDns(
      'foo.abc.nodes.lab',
      'A',
      expected.filter(address => !address.includes(':')),
    );
  });

  test('while no node is ready DNS keeps the last', async t => {
    const all = (await user.kubectl('get', 'nodes', '-o', 'jsonpath={.items[*].metadata.name}')).split(' ');
    const last = await addresses('foo.abc.nodes.lab');
    // The last change that leaves a node, so that DNS shows when external-dns has seen it.
    expected = ['198.51.100.51'];
    const others = all.filter(name => name !== 'n51');
    await follows(t, 'all but one NotReady', () => setReady(others, 'False'));
    assert.notDeepEqual(last, expected);
    await setReady(['n51'], 'False');
    await until('the finding', async () => (await codes('abc')).includes('NodesNotReady'));
    // A later change is in DNS: an earlier one would be too.
    await exposeApps('later');
    await isInDns('foo.later.fixed.lab', 'A', ['198.51.100.7']);
    assert.deepEqual(await addresses('foo.abc.nodes.lab'), expected);
    expected = ['10.2.0.20'];
    await follows(t, 'one of them Ready', () => setReady(['n20'], 'True'));
    await until('no finding', async () => !(await codes('abc')).includes('NodesNotReady'));
  });

  test('a cluster with apps leads to the gateway and to fixed addresses, and has no nodes', async () => {
    await exposeApps('web');
    await isInDns('foo.web.gateway.lab', 'A', ['203.0.113.10']);
    await isInDns('foo.web.gateway.lab', 'AAAA', ['2001:db8::10']);
    await isInDns('foo.web.fixed.lab', 'A', ['198.51.100.7']);
    assert.equal((await bind.dig('foo.web.nodes.lab', 'A')).status, 'NXDOMAIN');
    await until('the finding', async () => (await codes('team-a.web')).includes('OutputRejected'));
  });

  test('so does a cluster of the file, whose DNSEndpoint is in the namespace of the lease', async () => {
    await isInDns('foo.shop.gateway.lab', 'A', ['203.0.113.10']);
    await isInDns('foo.shop.fixed.lab', 'A', ['198.51.100.7']);
    const args = ['-n', 'causeway-system', '-l', 'causeway.dev/cluster=shop', '-o', 'name'];
    const objects = (await seed.kubectl('get', 'dnsendpoints', ...args)).trim().split('\n');
    assert.equal(objects.length, 2);
  });

  test('records of others stay as they are, even below the name of a cluster', async () => {
    await exposeApps('taken');
    await isInDns('foo.taken.fixed.lab', 'A', ['198.51.100.7']);
    assert.deepEqual(await addresses('foo.taken.gateway.lab'), ['192.0.2.2']);
    assert.ok(!(await owners('gateway.lab')).includes(`${TXT_PREFIX}a-${WILDCARD}.taken.gateway.lab`));
    assert.deepEqual(await addresses('www.nodes.lab'), ['192.0.2.1']);
    assert.deepEqual(await addresses('www.nodes.lab', 'TXT'), ['"not of external-dns"']);
  });

  test('a cluster that is deleted leaves DNS, and nothing of it stays', async t => {
    const start = performance.now();
    await seed.kubectl('delete', 'clusters.kubermatic.k8c.io', 'abc');
    for (const zone of bind.zones) {
      await until(
        `${zone} without it`,
        async () => (await bind.dig(`foo.abc.${zone}`, 'A')).status === 'NXDOMAIN',
        DNS_WAIT_MS,
      );
    }
    t.diagnostic(`a cluster deleted: out of DNS after ${((performance.now() - start) / 1000).toFixed(1)} s`);
    const left = async () => (await bind.transfer('nodes.lab')).map(({ name, type }) => `${name} ${type}`);
    const foreign = ['SOA', 'NS'].map(type => `nodes.lab ${type}`);
    foreign.push('ns.nodes.lab A', 'www.nodes.lab A', 'www.nodes.lab TXT');
    await until(
      'the zone as before',
      async () => String((await left()).toSorted()) === String(foreign.toSorted()),
    );
    assert.deepEqual(await addresses('foo.web.fixed.lab'), ['198.51.100.7']);
  });
});

/** What external-dns needs for DNSEndpoints, and no more. */
function externalDnsAccount(): readonly object[] {
  const metadata = { name: 'external-dns' };
  const subjects = [{ kind: 'ServiceAccount', ...metadata, namespace: 'causeway-system' }];
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  const apiGroups = ['externaldns.k8s.io'];
  return [
    {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { ...metadata, namespace: 'causeway-system' },
    },
    {
      apiVersion,
      kind: 'ClusterRole',
      metadata,
      rules: [
        { apiGroups, resources: ['dnsendpoints'], verbs: ['get', 'list', 'watch'] },
        { apiGroups, resources: ['dnsendpoints/status'], verbs: ['update'] },
      ],
    },
    {
      apiVersion,
      kind: 'ClusterRoleBinding',
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', ...metadata },
      subjects,
    },
  ];
}
