// The agent's `--endpoints` against real API servers: what they accept, who may write it, and who else writes it.

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { keepEndpoints } from '../../src/agent/endpoints.ts';
import type { Finding } from '../../src/cluster/finding.ts';
import { type Clock, systemClock } from '../../src/kube/clock.ts';
import { type KubeApi } from '../../src/kube/kube-api.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import type { EndpointSlice, Endpoints } from '../../src/kube/kube-object.ts';
import { type KubeAccessOptions, openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { leases as leasesResource } from '../../src/kube/resources.ts';
import { authorityOf } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const TIMEOUT_MS = 900_000;
/** Leases expire after eight seconds instead of forty. */
const HURRY = 5;

const hurried: Clock = {
  now: () => systemClock.now() * HURRY,
  date: systemClock.date,
  wait: (ms, signal) => systemClock.wait(ms / HURRY, signal),
};

/** Of its own, so that the role reaches no other leases. */
const LEASE_NAMESPACE = 'causeway-agent';

describe('keepEndpoints() with --endpoint-reconciler-type=none', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let api: ApiServer;
  let pod: KubeAccessOptions;
  let rights: readonly object[];
  before(async () => {
    const dir = stack.use(await tempDir());
    api = await startApiServer({ serviceCidr: '10.96.0.0/16,fd00:10:96::/112' });
    stack.use(api);
    await until(async () => (await api.kubectl('get', 'namespaces', '-o', 'name')).includes('/kube-system'));
    rights = await documentedRights();
    await api.apply(...rights);
    pod = { serviceAccount: await podFiles(api, dir) };
  });
  after(() => stack.disposeAsync());

  test('two agents with no more than their role merge; one that is killed leaves after its lease', async () => {
    const doomed = await clientOf(api, pod);
    using client = await clientOf(api, pod);
    const first = startAgent(doomed, ['192.0.2.1']);
    await using second = startAgent(client, ['192.0.2.2']);
    await Promise.all([first.kept.settled, second.kept.settled]);
    assert.deepEqual(await addresses(api), ['192.0.2.1', '192.0.2.2']);
    assert.deepEqual(await oldAddresses(api), ['192.0.2.1', '192.0.2.2']);
    assert.equal(await slices(api), 'kubernetes');
    assert.equal((await leases(api)).length, 2);
    assert.deepEqual([...first.warnings, ...second.warnings], []);
    // As in a power failure: from now on none of its calls comes through.
    doomed[Symbol.dispose]();
    await until(async () => (await addresses(api)).join() === '192.0.2.2');
    await until(async () => (await oldAddresses(api)).join() === '192.0.2.2');
    await until(async () => (await leases(api)).length === 1);
    await first.kept[Symbol.asyncDispose]();
    await second.kept[Symbol.asyncDispose]();
    await until(async () => (await oldAddresses(api)).length === 0);
    assert.deepEqual(await addresses(api), []);
    assert.deepEqual(await leases(api), []);
  });

  test('their role reaches no leases but their own', async () => {
    using client = await clientOf(api, pod);
    assert.equal((await client.list(leasesResource, { namespace: LEASE_NAMESPACE })).ok, true);
    for (const namespace of ['kube-system', 'kube-node-lease']) {
      const answer = await client.list(leasesResource, { namespace });
      assert.equal(answer.ok ? 200 : answer.fault.status, 403, namespace);
    }
  });

  test('what agents write does not change again as long as they live', async () => {
    using client = await clientOf(api, pod);
    await using stack = new AsyncDisposableStack();
    for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
      await stack.use(startAgent(client, [address])).kept.settled;
    }
    assert.deepEqual(await addresses(api), ['192.0.2.1', '192.0.2.2', '192.0.2.3']);
    const versions = () =>
      api.kubectl('get', 'endpointslices,endpoints', '-o', 'jsonpath={.items[*].metadata.resourceVersion}');
    const before = await versions();
    // An agent renews its lease and then looks: who has renewed it again has looked.
    for (let renewals = 0; renewals < 2; renewals++) {
      const old = await leaseVersions(api);
      await until(async () => (await leaseVersions(api)).every(version => !old.includes(version)));
    }
    assert.equal(await versions(), before);
  });

  test('both families are written where the Service has both', async () => {
    const patch = (spec: object) =>
      api.kubectl('patch', 'service', 'kubernetes', '--patch', JSON.stringify({ spec }));
    await patch({ ipFamilyPolicy: 'RequireDualStack' });
    using client = await clientOf(api, pod);
    await using agent = startAgent(client, ['192.0.2.1', '2001:db8::1']);
    await agent.kept.settled;
    assert.deepEqual(await addresses(api), ['192.0.2.1']);
    assert.deepEqual(await addresses(api, 'kubernetes-ipv6'), ['2001:db8::1']);
    assert.deepEqual(await oldAddresses(api), ['192.0.2.1']);
    await patch({ ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv4'], clusterIPs: ['10.96.0.1'] });
    await until(async () => (await slices(api)) === 'kubernetes');
    assert.deepEqual(agent.warnings, []);
  });

  test('an address of the Service network is a finding, and is not written', async () => {
    using client = await clientOf(api, pod);
    await using agent = startAgent(client, ['10.96.44.7']);
    await until(async () => agent.findings.length > 0);
    assert.deepEqual(
      agent.findings.at(-1)?.map(({ code }) => code),
      ['EndpointIsClusterIp'],
    );
    await agent.kept.settled;
    assert.deepEqual(await addresses(api), []);
  });

  test('an agent that may not write says so once, and writes as soon as it may', async () => {
    await api.kubectl('delete', 'rolebinding', 'causeway-agent', '-n', 'default');
    using client = await clientOf(api, pod);
    await using agent = startAgent(client, ['192.0.2.1']);
    await until(async () => agent.warnings.length > 0);
    assert.match(agent.warnings[0], /403 Forbidden: .*cannot get resource/);
    await api.apply(...rights);
    await agent.kept.settled;
    assert.equal(agent.warnings.length, 1);
    assert.deepEqual(await addresses(api), ['192.0.2.1']);
  });
});

test('keepEndpoints() finds an API server that writes the endpoints itself, and stands back', {
  skip,
  timeout: TIMEOUT_MS,
}, async () => {
  // The lease reconciler refuses a loopback address.
  const flags = ['--advertise-address=198.51.100.7'];
  await using api = await startApiServer({ endpointReconciler: 'lease', flags });
  using client = await clientOf(api, { kubeconfig: await api.kubeconfig() });
  // In real time: the API server looks every 10 s.
  await using agent = startAgent(client, ['192.0.2.1'], {
    clock: systemClock,
    leaseNamespace: 'kube-system',
  });
  await until(async () => agent.findings.length > 0);
  const [finding] = agent.findings.at(-1) ?? [];
  assert.equal(finding?.code, 'EndpointsOverwritten');
  assert.match(finding.text, /'kube-apiserver' reverts the endpoints/);
  assert.match(finding.fix, /--endpoint-reconciler-type=none/);
  await until(async () => (await addresses(api)).join() === '198.51.100.7');
  await agent.kept[Symbol.asyncDispose]();
  assert.deepEqual(await addresses(api), ['198.51.100.7']);
});

test('keepEndpoints() starts before the API server, and takes over what an earlier reconciler left', {
  skip,
  timeout: TIMEOUT_MS,
}, async () => {
  const port = await freePort();
  await using dir = await tempDir();
  const authority = await authorityOf('late');
  const token = 'not valid yet';
  const server = 'https://127.0.0.1';
  await writeFile(
    dir.file('config'),
    await kubeconfig({ server, caFile: authority.certFile, user: { token } }),
  );
  const access = await openKubeAccess({ kubeconfig: dir.file('config') });
  using client = openKubeClient({ access, at: { host: '127.0.0.1', port } });
  await using agent = startAgent(client, ['192.0.2.1'], { leaseNamespace: 'kube-system' });
  await until(async () => agent.warnings.length > 0);
  assert.match(agent.warnings[0], /Unreachable: connect ECONNREFUSED/);

  await using api = await startApiServer({ port, authority });
  await api.apply({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'kubernetes',
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': 'kubernetes' },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['198.51.100.7'], conditions: { ready: true } }],
    ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
  });
  await writeFile(dir.file('config'), await readFile(await api.kubeconfig({ as: 'token' })));
  await agent.kept.settled;
  assert.deepEqual(await addresses(api), ['192.0.2.1']);
  assert.equal(agent.warnings.length, 1);
  assert.deepEqual(agent.findings, []);
  await agent.kept[Symbol.asyncDispose]();
});

/** What people apply: exactly what an agent needs. */
async function documentedRights(): Promise<readonly object[]> {
  const text = await readFile(new URL('../../docs/agent/install.md', import.meta.url), 'utf8');
  const blocks = [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, yaml]) => yaml);
  const rights = blocks.find(yaml => yaml.includes('kind: ServiceAccount'));
  assert.ok(rights, 'docs/agent/install.md has them');
  return parseAllDocuments(rights).map(document => document.toJS() as object);
}

/** What a pod has of its service account. */
async function podFiles(api: ApiServer, dir: TempDir): Promise<string> {
  const token = await api.kubectl('create', 'token', 'causeway-agent', '-n', 'kube-system');
  await writeFile(dir.file('token'), token);
  await writeFile(dir.file('ca.crt'), await readFile(api.caFile));
  return dir.path;
}

let agents = 0;

/** The part of an agent that is looked at here. */
function startAgent(
  api: KubeApi,
  advertise: readonly string[],
  { clock = hurried, leaseNamespace = LEASE_NAMESPACE } = {},
) {
  const warnings: string[] = [];
  const findings: (readonly Finding[])[] = [];
  const kept = keepEndpoints({
    api,
    cluster: 'a',
    identity: `node-${++agents}/agent`,
    advertise,
    port: 6443,
    leaseNamespace,
    log: (level, sentence) => {
      if (level === 'warn') warnings.push(sentence);
    },
    onFindings: found => findings.push(found),
    clock,
  });
  return { kept, warnings, findings, [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose]() };
}

async function clientOf({ host, port }: ApiServer, access: KubeAccessOptions) {
  return openKubeClient({ access: await openKubeAccess(access), at: { host, port } });
}

async function addresses(api: ApiServer, name = 'kubernetes'): Promise<readonly string[]> {
  const slice = JSON.parse(await api.kubectl('get', 'endpointslice', name, '-o', 'json')) as EndpointSlice;
  return (slice.endpoints ?? []).flatMap(endpoint => endpoint.addresses);
}

async function oldAddresses(api: ApiServer): Promise<readonly string[]> {
  const { subsets } = JSON.parse(
    await api.kubectl('get', 'endpoints', 'kubernetes', '-o', 'json'),
  ) as Endpoints;
  return (subsets ?? []).flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip));
}

function slices(api: ApiServer): Promise<string> {
  return api.kubectl('get', 'endpointslices', '-o', 'jsonpath={.items[*].metadata.name}');
}

async function leases(api: ApiServer): Promise<readonly string[]> {
  return jsonpathOfLeases(api, '{.items[*].metadata.name}');
}

async function leaseVersions(api: ApiServer): Promise<readonly string[]> {
  return jsonpathOfLeases(api, '{.items[*].metadata.resourceVersion}');
}

async function jsonpathOfLeases(api: ApiServer, path: string): Promise<readonly string[]> {
  const selector = 'app.kubernetes.io/managed-by=causeway';
  const text = await api.kubectl(
    'get',
    'leases',
    '-n',
    LEASE_NAMESPACE,
    '-l',
    selector,
    '-o',
    `jsonpath=${path}`,
  );
  return text.split(' ').filter(Boolean);
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise(resolve => setTimeout(resolve, 200));
}
