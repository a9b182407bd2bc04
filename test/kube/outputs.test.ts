// The objects of outputs in a real API server with the real CustomResourceDefinitions, and a real Traefik that serves
// with nothing but what we wrote.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { connect, createServer } from 'node:tls';
import { parse } from 'yaml';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../../src/cluster/clusters.samples.ts';
import { ingressFlavors } from '../../src/config/config.ts';
import type { KubeApi } from '../../src/kube/kube-api.ts';
import { openKubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { openLeaderLease } from '../../src/kube/leader-lease.ts';
import { openKubeAccess } from '../../src/kube/open-kube-access.ts';
import { dnsEndpoints, newDnsEndpoint } from '../../src/outputs/dns-endpoint.ts';
import { ingresses, newIngress } from '../../src/outputs/ingress.ts';
import { ingressRouteTcps, newIngressRouteTcp } from '../../src/outputs/ingress-route-tcp.ts';
import { objectName } from '../../src/outputs/object-name.ts';
import { outputContract } from '../../src/outputs/output.contract.ts';
import type { Output } from '../../src/outputs/output.ts';
import { tenant, withApps } from '../../src/outputs/outputs.samples.ts';
import { type WriteGuard, writeGuard } from '../../src/outputs/prune-guard.ts';
import { newTlsRoute, tlsRoutes } from '../../src/outputs/tls-route.ts';
import { newTransportServer, transportServers } from '../../src/outputs/transport-server.ts';
import { type ObjectWriter, openObjectWriter } from '../../src/outputs/write-objects.ts';
import { plan } from '../../src/plan/plan.ts';
import { authority } from '../../testbed/certificates.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installTraefik, traefikFlags } from '../../testbed/install-traefik.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { startTraefik } from '../../testbed/start-traefik.ts';
import { until } from '../features/given.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const skipTraefik = missingNetns() || missingGoPrograms('traefik');
const TIMEOUT_MS = 300_000;
const known = [ingresses, ingressRouteTcps];
const definitions = [
  ['traefik-ingressroutetcps', ingressRouteTcps],
  ['gateway-api-tlsroutes', tlsRoutes],
  ['nginx-transportservers', transportServers],
  ['external-dns-dnsendpoints', dnsEndpoints],
] as const;
const haproxy = newIngress('ingress', { flavor: 'haproxy', annotations: {} });
const nginx = newIngress('ingress', { flavor: 'nginx', annotations: {} });

function write(
  writer: ObjectWriter,
  output: Output,
  clusters: readonly Cluster[],
  guard: Partial<WriteGuard> = {},
): void {
  const observed = writeGuard([{ name: 'kamaji', clusters, complete: true }], [output]);
  writer.write(output.desired(plan(clusters)).objects, { ...observed, ...guard });
}

const kamaji = (namespace: string, name: string) => tenant('kamaji.clastix.io/v1alpha1', namespace, name);

describe('outputs in a real API server', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let server: ApiServer;
  let api: KubeApi;

  before(async () => {
    server = stack.use(await startApiServer());
    api = await client();
    for (const [file, resource] of definitions) {
      await server.apply(parse(await readFile(`testbed/crds/${file}.yaml`, 'utf8')) as object);
      await until('the definition', async () => (await api.list(resource, {})).ok);
    }
  });
  after(() => stack.disposeAsync());

  async function client(): Promise<KubeApi> {
    const access = await openKubeAccess({ kubeconfig: await server.kubeconfig() });
    return stack.use(openKubeClient({ access, timeoutMs: 60_000 }));
  }

  async function createNamespace(name: string): Promise<void> {
    await server.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }

  async function ingressesOf(
    namespace: string,
  ): Promise<(KubeObject & { spec: { ingressClassName?: string } })[]> {
    const listed = await api.list(ingresses, { namespace });
    assert.ok(listed.ok);
    return [...listed.value.items] as never;
  }

  const subject = async () => ({ api, [Symbol.asyncDispose]: async () => {} });
  for (const flavor of ingressFlavors) {
    const newOutput = () => newIngress(`ingress-${flavor}`, { flavor, annotations: {} });
    outputContract(`ingress of flavor ${flavor}`, newOutput, subject);
  }
  outputContract(
    'ingressRouteTCP',
    () => newIngressRouteTcp('ingressRouteTCP', { entryPoints: ['websecure'] }),
    subject,
  );
  const dnsOptions = { zone: 'lab', targets: ['192.0.2.1', '2001:db8::1'], addresses: [], ttlMs: 60_000 };
  outputContract('dnsEndpoint', () => newDnsEndpoint('dnsEndpoint', dnsOptions), subject, {
    prepare: withApps,
  });
  const gateway = { name: 'shared', namespace: 'infra', sectionName: 'tls' };
  outputContract('tlsRoute', () => newTlsRoute('tlsRoute', { gateway }), subject);
  outputContract(
    'transportServer',
    () => newTransportServer('transportServer', { className: 'nginx' }),
    subject,
  );

  test('what a Gateway and NGINX say in the status of our objects is a finding until they say otherwise', async () => {
    await createNamespace('said');
    const outputs = [newTlsRoute('tlsRoute', { gateway }), newTransportServer('transportServer', {})];
    const now = new Date().toISOString();
    const parent = (status: string) => ({
      controllerName: 'test.example/gateway',
      parentRef: gateway,
      conditions: [
        { type: 'Accepted', status, reason: 'NoMatchingParent', message: 'none', lastTransitionTime: now },
      ],
    });
    const statuses = [
      [{ parents: [parent('False')] }, { parents: [parent('True')] }],
      [
        { state: 'Invalid', reason: 'Rejected', message: 'none' },
        { state: 'Valid', reason: 'AddedOrUpdated', message: '' },
      ],
    ];
    for (const [i, output] of outputs.entries()) {
      const [{ plural, group }] = output.resources;
      const resource = `${plural}.${group}`;
      const report = async (status: object) => {
        const names = await server.kubectl('get', resource, '-n', 'said', '-o', 'name');
        const patch = ['--subresource', 'status', '--type', 'merge', '-p', JSON.stringify({ status })];
        for (const name of names.trim().split('\n'))
          await server.kubectl('patch', name, '-n', 'said', ...patch);
      };
      const options = { api, instance: `said.${plural}`, known: [], lease: { isLeader: () => true } };
      await using writer = openObjectWriter(options, () => {});
      write(writer, output, [kamaji('said', 'a')]);
      await until('both', async () => {
        const found = await server.kubectl('get', resource, '-n', 'said', '-o', 'name');
        return found.trim().split('\n').length === 2;
      });
      assert.deepEqual(writer.findings(), []);
      await report(statuses[i][0]);
      await until('the findings', () => writer.findings().length === 2);
      assert.ok(
        writer.findings().every(({ code, cluster }) => code === 'OutputRejected' && cluster === 'said.a'),
      );
      await report(statuses[i][1]);
      await until('no findings', () => writer.findings().length === 0);
    }
  });

  test('objects are created, changed, taken back and removed, with those of others beside them', async () => {
    await createNamespace('own');
    const theirs = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      metadata: { name: objectName('ingress', 'own.foreign'), namespace: 'own' },
      spec: { defaultBackend: { service: { name: 'theirs', port: { number: 80 } } } },
    };
    await server.apply(theirs);
    const foreignBefore = await api.get(ingresses, 'own', theirs.metadata.name);
    const clusters = Array.from({ length: 50 }, (_, i) => kamaji('own', `t${i}`));
    const all = [...clusters, kamaji('own', 'foreign')];
    const options = { api, instance: 'own.causeway', known, lease: { isLeader: () => true } };
    {
      await using writer = openObjectWriter(options, () => {});
      write(writer, haproxy, all);
      await until('all', async () => (await ingressesOf('own')).length === 51);
      await until('the finding', () => writer.findings().length === 1);
      assert.equal(writer.findings()[0].code, 'ForeignObject');

      const name = objectName('ingress', 'own.t0');
      await server.kubectl('annotate', '-n', 'own', 'ingress', name, 'theirs=1');
      await server.kubectl(
        'patch',
        '-n',
        'own',
        'ingress',
        objectName('ingress', 'own.t1'),
        '--type=merge',
        '-p',
        '{"spec":{"ingressClassName":"drift"}}',
      );
      await server.kubectl('delete', '-n', 'own', 'ingress', objectName('ingress', 'own.t2'));
      await until('what was changed and deleted', async () => {
        const found = await ingressesOf('own');
        return found.length === 51 && found.every(({ spec }) => spec.ingressClassName !== 'drift');
      });
      write(writer, nginx, all);
      const isNginx = async () =>
        (await ingressesOf('own')).filter(({ spec }) => spec.ingressClassName === 'nginx').length === 50;
      await until('the other flavor', isNginx);
      const found = await api.get(ingresses, 'own', name);
      assert.ok(found.ok);
      assert.deepEqual(found.value.metadata.annotations, {
        'nginx.ingress.kubernetes.io/ssl-passthrough': 'true',
        'causeway.dev/source': 'kamaji',
        theirs: '1',
      });
      assert.equal(found.value.metadata.ownerReferences?.[0].name, 't0');
    }
    // A restart changes nothing, and then removes what is gone.
    const versions = async () =>
      (await ingressesOf('own')).map(({ metadata }) => metadata.resourceVersion).toSorted();
    const before = await versions();
    await using writer = openObjectWriter(options, () => {});
    write(writer, nginx, all);
    await until('the finding', () => writer.findings().length === 1);
    assert.deepEqual(await versions(), before);
    write(writer, nginx, clusters.slice(0, 10));
    await until('what is left', async () => (await ingressesOf('own')).length === 11);
    const foreignAfter = await api.get(ingresses, 'own', theirs.metadata.name);
    assert.deepEqual(foreignAfter, foreignBefore);
    // Its output is taken out of the file.
    write(writer, newIngressRouteTcp('ingressRouteTCP', { entryPoints: [] }), clusters.slice(0, 3));
    await until('theirs alone', async () => (await ingressesOf('own')).length === 1);
    await until('the other output', async () => {
      const routes = await api.list(ingressRouteTcps, { namespace: 'own' });
      return routes.ok && routes.value.items.length === 3;
    });
  });

  test('an object that the API server refuses is shown with its words, and holds up no other', async () => {
    await createNamespace('refused');
    const odd = newIngress('ingress', { flavor: 'haproxy', annotations: {}, className: 'haproxy' });
    const bad: Cluster = {
      ...kamaji('refused', 'bad'),
      routes: [
        sampleRoute({ hosts: ['bad.lab'], service: { namespace: 'refused', name: 'Not Legal', port: 1 } }),
      ],
    };
    const options = { api, instance: 'refused.causeway', known, lease: { isLeader: () => true } };
    await using writer = openObjectWriter(options, () => {});
    write(writer, odd, [bad, kamaji('nowhere', 'a'), kamaji('refused', 'good')]);
    await until('the good one', async () => (await ingressesOf('refused')).length === 1);
    await until('both findings', () => writer.findings().length === 2);
    const texts = Object.fromEntries(writer.findings().map(({ cluster, text }) => [cluster, text]));
    assert.match(texts['refused.bad'], /422 Invalid: .*Not Legal/);
    assert.match(texts['nowhere.a'], /404 NotFound: namespaces "nowhere" not found/);
    await createNamespace('nowhere');
    await until('the one without a namespace', async () => (await ingressesOf('nowhere')).length === 1);
    await until('one finding', () => writer.findings().length === 1);
  });

  test('two replicas write everything once, whoever leads', async () => {
    await createNamespace('pair');
    const clusters = Array.from({ length: 100 }, (_, i) => kamaji('pair', `t${i}`));
    const replica = async (identity: string) => {
      const [leasing, writing] = [await client(), await client()];
      const isLeader = () => lease.isLeader();
      const options = { api: writing, instance: 'pair.causeway', known, lease: { isLeader } };
      const writer = openObjectWriter(options, () => {});
      const wake = () => writer.wake();
      const lease = openLeaderLease(leasing, { namespace: 'pair', name: 'causeway', identity }, wake);
      return { lease, writer };
    };
    const replicas = [await replica('one'), await replica('two')];
    for (const { writer } of replicas) write(writer, haproxy, clusters);
    await until('all', async () => (await ingressesOf('pair')).length === 100);
    const leader = await until('the leader', () => replicas.find(({ lease }) => lease.isLeader()));
    const other = replicas.find(each => each !== leader) as typeof leader;
    // The other replica has a newer plan when it takes over.
    write(other.writer, haproxy, clusters.slice(0, 60));
    await leader.writer[Symbol.asyncDispose]();
    await leader.lease[Symbol.asyncDispose]();
    await until('what is left', async () => (await ingressesOf('pair')).length === 60);
    const found = await ingressesOf('pair');
    assert.ok(found.every(({ metadata }) => (metadata as { generation?: number }).generation === 1));
    await other.writer[Symbol.asyncDispose]();
    await other.lease[Symbol.asyncDispose]();
    assert.equal((await ingressesOf('pair')).length, 60);
  });
});

describe('Traefik with what we wrote', { skip: skip || skipTraefik, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  const [EXACT, WILDCARD, OTHER] = ['a.apps.edge.test', '*.apps.edge.test', 'b.apps.edge.test'];
  const HOST = 'edge-a.k8s.clastix.cloud';
  let host: Netns;
  let server: ApiServer;
  let port: number;

  before(async () => {
    host = stack.use(await netns({ name: 'edge' }));
    // Endpoints must not be loopback addresses.
    server = stack.use(await startApiServer({ bindAddress: host.machine, sans: [HOST] }));
    await installTraefik(server);
    await server.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'edge' } });
    const access = await openKubeAccess({ kubeconfig: await server.kubeconfig() });
    const api = stack.use(openKubeClient({ access, timeoutMs: 60_000 }));

    const ports = { a: server.port, exact: await startTls('exact'), wildcard: await startTls('wildcard') };
    for (const [name, target] of Object.entries(ports)) await addService(name, target);
    const apps = (name: string, hosts: readonly string[]) =>
      sampleCluster(`edge.${name}`, {
        origin: sampleOrigin('kamaji', 'edge', name),
        routes: [
          sampleRoute({ kind: 'apps-https', hosts, service: { namespace: 'edge', name, port: 6443 } }),
        ],
      });
    const a = kamaji('edge', 'a');
    // The exact host is the older one, which plan() requires.
    const clusters = [
      { ...a, routes: a.routes.slice(0, 1) },
      { ...apps('exact', [EXACT]), origin: sampleOrigin('kamaji', 'edge', 'exact', 10) },
      apps('wildcard', [WILDCARD]),
    ];
    const options = { api, instance: 'edge.causeway', known, lease: { isLeader: () => true } };
    const writer = stack.use(openObjectWriter(options, () => {}));
    write(writer, newIngressRouteTcp('ingressRouteTCP', { entryPoints: ['tls'] }), clusters);
    const router = stack.use(await startTraefik({ routes: {}, flags: traefikFlags(server) }));
    port = router.port;
    await until('Traefik', async () => (await say(OTHER)) === 'wildcard', 60_000);
  });
  after(() => stack.disposeAsync());

  /** A TLS server that says its name. */
  async function startTls(name: string): Promise<number> {
    const { certFile, keyFile } = await (await authority()).certificateFor('edge.test');
    const tls = createServer({ cert: await readFile(certFile), key: await readFile(keyFile) }, socket => {
      socket.on('error', () => {}).resume();
      socket.end(name);
    });
    tls.listen(0, host.machine);
    await once(tls, 'listening');
    stack.defer(() => void tls.close());
    return (tls.address() as AddressInfo).port;
  }

  async function addService(name: string, target: number): Promise<void> {
    const metadata = { name, namespace: 'edge' };
    await server.apply(
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata,
        spec: { ports: [{ name: 'https', port: 6443, targetPort: target }] },
      },
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
        addressType: 'IPv4',
        endpoints: [{ addresses: [host.machine], conditions: { ready: true } }],
        ports: [{ name: 'https', port: target, protocol: 'TCP' }],
      },
    );
  }

  /** What the server behind a host says; empty where there is none, and Traefik itself answers. */
  async function say(servername: string): Promise<string> {
    const socket = connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false });
    let said = '';
    socket.setEncoding('utf8').on('data', text => (said += text));
    const { promise, resolve } = Promise.withResolvers<void>();
    socket.on('error', () => resolve()).on('close', () => resolve());
    socket.write('GET / HTTP/1.0\r\n\r\n');
    await promise;
    return said.startsWith('HTTP/') ? '' : said;
  }

  test('kubectl reaches the API server through it', async () => {
    const config = await server.kubeconfig({ server: `https://127.0.0.1:${port}`, serverName: HOST });
    const { code, stdout, stderr } = await kubectl(config, ['get', 'namespace', 'edge', '-o', 'name']);
    assert.deepEqual([code, stdout.toString().trim()], [0, 'namespace/edge'], stderr);
  });

  test('an exact host wins over the wildcard, which matches one label', async () => {
    assert.equal(await say(EXACT), 'exact');
    assert.equal(await say('A.apps.edge.test'), 'exact');
    assert.equal(await say(OTHER), 'wildcard');
    assert.equal(await say('a.b.apps.edge.test'), '');
    assert.equal(await say('apps.edge.test'), '');
    assert.equal(await say('a.appsxedge.test'), '');
  });
});
