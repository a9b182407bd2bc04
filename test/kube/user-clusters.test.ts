// Three hundred user clusters of Kubermatic, each with its own kubeconfig and its own watch on Nodes. One real API server
// stands for all of them and for the seed cluster; some cannot be reached. Figures are for people: no assertion on time.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { nodes, type Resource, resource, services } from '../../src/kube/resources.ts';
import { secrets } from '../../src/kube/tenant-credentials.ts';
import { wholeKubermatic } from '../../src/sources/kubermatic.samples.ts';
import { openKubermatic } from '../../src/sources/kubermatic.ts';
import { kubermaticClusters } from '../../src/sources/kubermatic-object.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startApiServer } from '../../testbed/start-api-server.ts';
import { startEtcd } from '../../testbed/start-etcd.ts';
import { until } from '../features/given.ts';

const skip = missingPrograms('openssl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const COUNT = 300;
/** Of them, those whose kubeconfig leads nowhere. */
const BROKEN = 10;
const namespaces: Resource<KubeObject> = resource('v1', 'namespaces', 'Namespace');

test(`${COUNT} user clusters have a watch each, and fail alone`, { skip, timeout: 600_000 }, async t => {
  await using store = await startEtcd();
  const server = await startApiServer({ store });
  await using stack = new AsyncDisposableStack();
  let current = stack.use(server);
  await installDefinition(server, 'kubermatic-clusters', 'clusters.kubermatic.k8c.io');
  const admin = await server.kubeconfig();
  const api = stack.use(openKubeClient({ access: await openKubeAccess({ kubeconfig: admin }) }));
  const kubeconfig = await readFile(admin, 'utf8');
  const ids = Array.from({ length: COUNT }, (_, i) => `c${i}`);

  const create = async (of: Resource<KubeObject>, object: object) => {
    const created = await api.create(of, object as KubeObject);
    assert.ok(created.ok, created.ok ? '' : created.fault.message);
  };
  const addCluster = async (id: string, index: number) => {
    const namespace = `cluster-${id}`;
    const text = index < BROKEN ? kubeconfig.replace(server.url, 'https://127.0.0.1:1') : kubeconfig;
    const data = { kubeconfig: Buffer.from(text).toString('base64') };
    await create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
    const metadata = { name: 'admin-kubeconfig', namespace };
    await create(secrets, { apiVersion: 'v1', kind: 'Secret', metadata, data });
    const ports = [{ name: 'secure', port: 443, protocol: 'TCP' }];
    const service = { name: 'apiserver-external', namespace };
    await create(services, { apiVersion: 'v1', kind: 'Service', metadata: service, spec: { ports } });
    await create(kubermaticClusters, wholeKubermatic(id));
  };
  for (let i = 0; i < COUNT; i += 8)
    await Promise.all(ids.slice(i, i + 8).map((id, j) => addCluster(id, i + j)));
  await setNodes(3, '10.1.0');

  async function setNodes(count: number, prefix: string): Promise<void> {
    for (let i = 1; i <= count; i++) {
      const name = `n${i}`;
      await api.create(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name } });
      const status = {
        conditions: [{ type: 'Ready', status: 'True' }],
        addresses: [{ type: 'InternalIP', address: `${prefix}.${i}` }],
      };
      const patched = await api.merge(nodes, undefined, name, { status }, { subresource: 'status' });
      assert.ok(patched.ok);
    }
  }

  const metric = async (pattern: RegExp) => {
    const text = await current.kubectl('get', '--raw', '/metrics');
    return text
      .split('\n')
      .filter(line => pattern.test(line))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
  };
  const watches = () => metric(/^apiserver_longrunning_requests\{.*resource="nodes".*verb="WATCH"/);
  const requests = () => metric(/^apiserver_request_total\{.*resource="nodes"/);

  // Before the source looks for the first time.
  const idle = await watches();
  const before = process.memoryUsage();
  const source = openKubermatic(
    { via: 'endpoints', zone: 'apps.lab' },
    { name: 'kubermatic', folder: '/', kubeApi: () => api },
    () => {},
  );
  stack.use(source);
  /** How many clusters lead to exactly these. */
  const leadingTo = (prefix: string, count: number) => {
    const expected = Array.from({ length: count }, (_, i) => `${prefix}.${i + 1}`).join();
    return source.observe().clusters.filter(({ controlPlane }) => String(controlPlane?.nodes) === expected)
      .length;
  };
  let start = performance.now();
  await until('all nodes', () => leadingTo('10.1.0', 3) === COUNT - BROKEN, 120_000);
  t.diagnostic(
    `nodes of ${COUNT - BROKEN} user clusters read in ${Math.round(performance.now() - start)} ms`,
  );
  const unreachable = () =>
    source
      .observe()
      .findings.filter(({ code }) => code === 'TenantUnreachable')
      .map(({ cluster }) => cluster);
  await until('the findings', () => unreachable().length === BROKEN, 60_000);
  assert.deepEqual(unreachable().toSorted(), ids.slice(0, BROKEN).toSorted());
  await until('a watch each', async () => (await watches()) - idle === COUNT - BROKEN);
  const { heapUsed, rss } = process.memoryUsage();
  const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(0);
  t.diagnostic(`memory: heap +${mib(heapUsed - before.heapUsed)} MiB, RSS +${mib(rss - before.rss)} MiB`);

  start = performance.now();
  await setNodes(3, '10.2.0');
  await until('a change everywhere', () => leadingTo('10.2.0', 3) === COUNT - BROKEN, 60_000);
  t.diagnostic(
    `a change of nodes seen everywhere ${Math.round(performance.now() - start)} ms after it began`,
  );
  const quiet = await requests();
  await sleep(10_000);
  t.diagnostic(`requests for nodes in 10 s without changes: ${(await requests()) - quiet}`);

  await server.stop();
  await until('all of them away', () => unreachable().length === COUNT, 120_000);
  assert.equal(leadingTo('10.2.0', 3), COUNT - BROKEN, 'the last addresses stay');
  const { authority, port } = server;
  current = stack.use(await startApiServer({ store, authority, port }));
  start = performance.now();
  await until('all of them back', () => unreachable().length === BROKEN, 400_000);
  t.diagnostic(`all back ${Math.round(performance.now() - start)} ms after a restart of the API server`);
});
