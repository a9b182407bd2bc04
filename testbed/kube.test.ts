// The Kubernetes programs of the test bed, without a gateway in between.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { authorityOf } from './certificates.ts';
import { missingGoPrograms } from './go-build.ts';
import { kubectl } from './kubectl.ts';
import { missingNetns, netns } from './netns.ts';
import { missingPrograms } from './packages.ts';
import { type ApiServer, startApiServer } from './start-api-server.ts';
import { startKonnectivityAgent, startKonnectivityServer } from './start-konnectivity.ts';
import { startKubeProxy } from './start-kube-proxy.ts';
import { tempDir } from './temp-dir.ts';

const skip = missingPrograms('openssl', 'curl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
/** For programs that take seconds to start on an idle machine. */
const TIMEOUT_MS = 900_000;

const slice = (address: string, port: number) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name: 'kubernetes',
    namespace: 'default',
    labels: { 'kubernetes.io/service-name': 'kubernetes' },
  },
  addressType: 'IPv4',
  ports: [{ name: 'https', port, protocol: 'TCP' }],
  endpoints: [{ addresses: [address], conditions: { ready: true } }],
});

describe('startApiServer()', { skip, timeout: TIMEOUT_MS }, () => {
  let api: ApiServer;
  before(async () => {
    api = await startApiServer({ sans: ['api.a.test'], serviceCidr: '10.111.0.0/16' });
  });
  after(() => api?.[Symbol.asyncDispose]());

  test('accepts kubectl with a client certificate', async () => {
    assert.match(await api.kubectl('version'), /Server Version: v1\.36\.3/);
    assert.match(await api.kubectl('auth', 'whoami'), /^Username +admin$/m);
  });

  test('accepts kubectl with a token, and refuses a wrong one', async () => {
    const file = await api.kubeconfig({ as: 'token' });
    const good = await kubectl(file, ['auth', 'whoami']);
    assert.match(good.stdout.toString(), /^Username +token-admin$/m, good.stderr);
    const wrong = await kubectl(file, ['auth', 'whoami', '--token=wrong']);
    assert.match(wrong.stderr, /Unauthorized|must be logged in/);
    assert.notEqual(wrong.code, 0);
  });

  test('issues tokens for service accounts', async () => {
    await api.apply({
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'pod', namespace: 'default' },
    });
    const token = (await api.kubectl('create', 'token', 'pod')).trim();
    const who = await kubectl(await api.kubeconfig({ as: 'token' }), ['auth', 'whoami', `--token=${token}`]);
    assert.match(who.stdout.toString(), /system:serviceaccount:default:pod/, who.stderr);
  });

  test('has the names in its certificate, and a Service without endpoints', async () => {
    const file = await api.kubeconfig({ serverName: 'api.a.test' });
    const { stdout, stderr } = await kubectl(file, [
      'get',
      'service',
      'kubernetes',
      '-o',
      'jsonpath={.spec.clusterIP}',
    ]);
    assert.equal(stdout.toString(), '10.111.0.1', stderr);
    for (const serverName of ['10.111.0.1', 'kubernetes.default.svc']) {
      const { code, stderr } = await kubectl(await api.kubeconfig({ serverName }), ['version']);
      assert.equal(code, 0, `${serverName}: ${stderr}`);
    }
    assert.equal(await api.kubectl('get', 'endpointslices', '-A', '-o', 'name'), '');
  });

  test('rejects with the message of kubectl', async () => {
    await assert.rejects(
      api.kubectl('get', 'no-such-things'),
      /kubectl get no-such-things ended with code 1: .*resource type/s,
    );
  });
});

test('startApiServer() leaves nothing behind, and each has its own authority', {
  skip,
  timeout: TIMEOUT_MS,
}, async () => {
  await using base = await tempDir();
  const elsewhere = process.env.TMPDIR;
  const [a, b] = [await authorityOf('a'), await authorityOf('b')];
  process.env.TMPDIR = base.path;
  try {
    let pid: number;
    {
      // The lease reconciler refuses a loopback address.
      const flags = ['--advertise-address=192.0.2.10'];
      await using api = await startApiServer({ endpointReconciler: 'lease', authority: a, flags });
      ({ pid } = api);
      assert.equal(api.caFile, a.certFile);
      const addresses = ['get', 'endpointslice', 'kubernetes', '-o', 'jsonpath={.endpoints[*].addresses}'];
      assert.equal(await api.kubectl(...addresses), '["192.0.2.10"]');
    }
    assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
    assert.deepEqual(await readdir(base.path), []);
  } finally {
    if (elsewhere === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = elsewhere;
  }
  const certificate = new X509Certificate(await readFile((await a.certificateFor('x.test')).certFile));
  const signedBy = async (file: string) =>
    certificate.verify(new X509Certificate(await readFile(file)).publicKey);
  assert.deepEqual([await signedBy(a.certFile), await signedBy(b.certFile)], [true, false]);
});

describe('startKubeProxy()', {
  skip: skip || missingNetns() || missingGoPrograms('kube-proxy') || missingPrograms('nft', 'iptables'),
  timeout: TIMEOUT_MS,
}, () => {
  for (const mode of ['nftables', 'iptables'] as const) {
    test(`carries a ClusterIP to an endpoint on the node's loopback, by ${mode}`, async () => {
      await using node = await netns({ lo: ['172.20.0.1'] });
      // The API server listens where a tenant's agent would: on an address of the node's loopback.
      await using api = await startApiServer({ netns: node, bindAddress: '0.0.0.0' });
      await api.addNode('node-1', node.address);
      await api.apply(slice('172.20.0.1', api.port));
      const kubeconfig = await api.kubeconfig();
      await using _ = await startKubeProxy({ netns: node, kubeconfig, node: 'node-1', mode });
      const inCluster = await api.kubeconfig({ as: 'token', server: 'https://10.96.0.1:443' });
      const { stdout, stderr } = await kubectl(inCluster, ['auth', 'whoami'], { netns: node });
      assert.match(stdout.toString(), /^Username +token-admin$/m, stderr);
    });
  }
});

test('startKonnectivityAgent() connects to startKonnectivityServer(), which then reaches the agent’s network', {
  skip:
    missingPrograms('openssl', 'curl') ||
    missingNetns() ||
    missingGoPrograms('konnectivity-server', 'konnectivity-agent'),
  timeout: TIMEOUT_MS,
}, async () => {
  const authority = await authorityOf('konnectivity');
  await using tenant = await netns({ lo: ['172.31.0.1'] });
  // Dialled from the tenant by address; a name would need a name server there.
  const [bindAddress, sans] = [tenant.machine, [tenant.machine]];
  await using server = await startKonnectivityServer({ authority, bindAddress, sans });
  await assert.rejects(server.dial('172.31.0.1:80'), /konnectivity server/);
  await using agent = await startKonnectivityAgent({
    server: `${tenant.machine}:${server.port}`,
    authority,
    netns: tenant,
  });
  assert.equal(agent.exit(), undefined);
  // Only the tenant has this address.
  const program = `require('http').createServer((q, a) => a.end('from ' + q.url)).listen(8080, '172.31.0.1')`;
  await using _ = await tenant.start({
    command: process.execPath,
    args: ['-e', program],
    ready: { port: ['172.31.0.1', 8080] },
  });
  const socket = await server.dial('172.31.0.1:8080');
  socket.write('GET /pod/log HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n');
  assert.match(await text(socket), /from \/pod\/log/);
});
