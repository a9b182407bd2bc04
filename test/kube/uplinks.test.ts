// kubectl through every uplink to a real API server: HyperShift's path from a node, with our programs or HAProxy 3.0 at
// either end; client certificates, tokens, watches, logs and upgrades. Our own server replaces the kubelet.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer as httpsServer, request } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { clusterKey } from '../../src/identity/cluster-key.ts';
import { authority, certificateFor } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { goBuild, missingGoPrograms } from '../../testbed/go-build.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { startProgram } from '../../testbed/program.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { startHaproxy } from '../../testbed/start-haproxy.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl') ||
  missingNetns();
const skipHaproxy = missingPrograms('debootstrap', 'dpkg-deb');
const TIMEOUT_MS = 900_000;

/** HyperShift's values: the id is a UUID, the address the default of its nodes. */
const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
const NODE_ADDRESS = '172.20.0.1';
const API_HOST = 'api.a.test';
const TUNNEL_HOST = 'tunnel.example.com';
const SECRET = 'a secret for tests, of at least 32 bytes';
const LOG_BYTES = 100 * 1024 * 1024;

const uplinks = ['proxy', 'connect', 'tunnel', 'terminate'] as const;
type Uplink = (typeof uplinks)[number];

describe('kubectl', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let node: Netns;
  let api: ApiServer;
  let gateway: Causeway;
  let dir: TempDir;
  let kubelet: Kubelet;
  let serviceAccountToken: string;

  before(async () => {
    node = stack.use(await netns({ lo: [NODE_ADDRESS] }));
    dir = stack.use(await tempDir());
    api = stack.use(
      await startApiServer({
        sans: [NODE_ADDRESS, API_HOST],
        bindAddress: node.machine,
        flags: ['--kubelet-preferred-address-types=InternalIP'],
      }),
    );
    const { certFile, keyFile } = await certificateFor(TUNNEL_HOST);
    await writeFile(dir.file('secret'), `${SECRET}\n`);
    const key = clusterKey(Buffer.from(SECRET), ID);
    await writeFile(dir.file('key'), `${Buffer.from(key).toString('base64url')}\n`);
    gateway = stack.use(
      await startCauseway({
        config: `
listen: [{ on: "${node.machine}:0", agents: [${node.address}/32, ${node.machine}/32] }]
identity: { secretFile: ${dir.file('secret')} }
tunnel: { hosts: [${TUNNEL_HOST}], certificates: [{ certFile: ${certFile}, keyFile: ${keyFile} }] }
clusters:
  - { name: a, id: ${ID}, api: { hosts: [${API_HOST}], backends: ["${api.host}:${api.port}"] } }`,
      }),
    );
    kubelet = stack.use(await Kubelet.start(node.machine));
    await api.addNode('node-1', node.machine);
    const daemonEndpoints = { kubeletEndpoint: { Port: kubelet.port } };
    const patch = JSON.stringify({ status: { daemonEndpoints } });
    await api.kubectl('patch', 'node', 'node-1', '--subresource=status', '-p', patch);
    const metadata = { namespace: 'default' };
    await api.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { ...metadata, name: 'default' } });
    await api.apply(pod('talkative'));
    serviceAccountToken = (await api.kubectl('create', 'token', 'default')).trim();
  });
  after(() => stack.disposeAsync());

  async function flags(uplink: Uplink): Promise<string[]> {
    if (uplink === 'tunnel') {
      const ca = (await authority()).certFile;
      return ['--key-file', dir.file('key'), '--server-name', TUNNEL_HOST, '--ca-file', ca];
    }
    if (uplink !== 'terminate') return [];
    const shown = await api.authority.certificateFor('127.0.0.1', NODE_ADDRESS, 'kubernetes.default.svc');
    const own = ['--cert-file', shown.certFile, '--cert-key-file', shown.keyFile];
    return ['--server-name', API_HOST, '--ca-file', api.caFile, ...own];
  }

  /** The user that the API server sees. */
  async function whoAmI(
    server: string,
    as: 'certificate' | 'token' | 'service account',
    from?: Netns,
  ): Promise<string> {
    const file = await api.kubeconfig({ server, as: as === 'certificate' ? as : 'token' });
    const args = ['auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}'];
    if (as === 'service account') args.push(`--token=${serviceAccountToken}`);
    const { stdout, stderr } = await kubectl(file, args, { netns: from });
    return stdout.toString() || stderr;
  }

  /** From the node, without SNI: both kinds of users. */
  async function fromNode(): Promise<string[]> {
    const server = `https://${NODE_ADDRESS}:6443`;
    return [await whoAmI(server, 'certificate', node), await whoAmI(server, 'service account', node)];
  }
  const expected = ['admin', 'system:serviceaccount:default:default'];

  describe("on HyperShift's path", () => {
    test('by our agent on the node and our gateway', async () => {
      await using _ = await startAgent({
        uplink: 'proxy',
        gateway: `${node.machine}:${gateway.port}`,
        id: ID,
        on: `${NODE_ADDRESS}:6443`,
        netns: node,
      });
      assert.deepEqual(await fromNode(), expected);
      const line = gateway.connections().findLast(one => one.clusterId === ID);
      assert.equal(line?.host, null);
      assert.equal(line?.cluster, 'a');
      assert.match(String(line?.origin), new RegExp(`^${NODE_ADDRESS}:`));
    });

    test("by HyperShift's HAProxy 3.0 on the node and our gateway", { skip: skipHaproxy }, async () => {
      await using _ = await startHaproxy({
        version: '3.0',
        netns: node,
        config: `${HAPROXY_DEFAULTS}
frontend local_apiserver
  bind ${NODE_ADDRESS}:6443
  default_backend remote_apiserver
backend remote_apiserver
  server controlplane ${node.machine}:${gateway.port} send-proxy-v2 set-proxy-v2-tlv-fmt(0x20) %[str(${ID})]`,
      });
      assert.deepEqual(await fromNode(), expected);
    });

    test("by our agent on the node and HyperShift's central HAProxy 3.0", { skip: skipHaproxy }, async () => {
      const port = await freePort();
      await using _ = await startHaproxy({
        version: '3.0',
        // The id is fetched once and then compared: in 3.0 an ACL on the fetch itself loops if it does not match.
        config: `${HAPROXY_DEFAULTS}
frontend dataplane-kas-svc
  bind ${node.machine}:${port} accept-proxy
  tcp-request inspect-delay 5s
  tcp-request content set-var(sess.cid) fc_pp_tlv(0x20)
  acl is_a var(sess.cid) -m str ${ID}
  use_backend a if is_a
backend a
  server kas ${api.host}:${api.port}`,
      });
      const options = { uplink: 'proxy', netns: node, gateway: `${node.machine}:${port}` } as const;
      {
        await using _agent = await startAgent({ ...options, id: ID, on: `${NODE_ADDRESS}:6443` });
        assert.deepEqual(await fromNode(), expected);
      }
      await using other = await startAgent({ ...options, id: 'somebody-else', on: `${NODE_ADDRESS}:6443` });
      const [answer] = await fromNode();
      assert.match(answer, /EOF|reset|refused|closed/);
      await other.line(line => line.msg === 'gateway closed at once');
    });
  });

  for (const uplink of uplinks) {
    describe(`by --uplink ${uplink}`, () => {
      let agent: RunningAgent;
      let server: string;
      before(async () => {
        const to = `${node.machine}:${gateway.port}`;
        agent = await startAgent({ uplink, gateway: to, id: ID, args: await flags(uplink) });
        server = `https://127.0.0.1:${agent.port}`;
      });
      after(() => agent?.[Symbol.asyncDispose]());

      test('a token authenticates', async () => {
        assert.equal(await whoAmI(server, 'token'), 'token-admin');
        assert.equal(await whoAmI(server, 'service account'), expected[1]);
      });

      if (uplink === 'terminate') {
        test('a client certificate is lost, and the log has a warning', async () => {
          assert.match(
            await whoAmI(server, 'certificate'),
            /Unauthorized|Forbidden|anonymous|logged in|do not have permission/,
          );
          const { why } = await agent.line(line => line.msg === 'client certificate lost');
          assert.match(String(why), /a certificate \(admin\).*Use a token, or an uplink that/);
        });
      } else {
        test('a client certificate authenticates', async () => {
          assert.equal(await whoAmI(server, 'certificate'), 'admin');
        });
      }

      test('get --watch prints changes', async () => {
        const file = await api.kubeconfig({ server, as: 'token' });
        await using watch = await startProgram({
          command: await goBuild('kubectl'),
          args: [`--kubeconfig=${file}`, 'get', 'configmaps', '--watch-only', '-o', 'name'],
          // It prints nothing before the first change.
          ready: { probe: async () => true },
          stopSignal: 'SIGKILL',
        });
        const name = `watched-${uplink}`;
        // The watch starts at an unknown moment: make changes until one is printed.
        for (let change = 0; !watch.log().includes(name); change++) {
          await api.kubectl('create', 'configmap', `${name}-${change}`);
          assert.ok(change < 20, watch.log());
        }
      });

      test('logs of 100 MB are complete', async () => {
        const file = await api.kubeconfig({ server, as: 'token' });
        const { stdout, stderr, code } = await kubectl(file, ['logs', 'talkative']);
        assert.equal(code, 0, stderr);
        assert.equal(stdout.length, LOG_BYTES);
        assert.equal(createHash('sha256').update(stdout).digest('hex'), kubelet.logDigest);
      });

      test('an upgraded connection forwards bytes both ways', async () => {
        const ca = await readFile(api.caFile);
        const asked = request({
          host: '127.0.0.1',
          port: agent.port,
          ca,
          path: `/api/v1/nodes/https:node-1:${kubelet.port}/proxy/exec`,
          headers: { Authorization: `Bearer ${api.token}`, Connection: 'Upgrade', Upgrade: 'echo' },
        });
        asked.end();
        const [response, socket] = (await once(asked, 'upgrade')) as [{ statusCode: number }, Socket];
        assert.equal(response.statusCode, 101);
        for (const word of ['first', 'second']) {
          socket.write(word);
          const [heard] = (await once(socket, 'data')) as [Buffer];
          assert.equal(heard.toString(), word.toUpperCase());
        }
        socket.destroy();
      });
    });
  }
});

const HAPROXY_DEFAULTS = `
defaults
  mode tcp
  timeout connect 10s
  timeout client 10m
  timeout server 10m`;

function pod(name: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default' },
    spec: { nodeName: 'node-1', containers: [{ name: 'main', image: 'none' }] },
  };
}

/** A kubelet's endpoints: a log, and an upgrade that echoes in capitals. */
class Kubelet implements AsyncDisposable {
  readonly port: number;
  readonly logDigest: string;
  readonly #close: () => Promise<void>;

  private constructor(port: number, logDigest: string, close: () => Promise<void>) {
    this.port = port;
    this.logDigest = logDigest;
    this.#close = close;
  }

  static async start(host: string): Promise<Kubelet> {
    const { certFile, keyFile } = await certificateFor('node-1', host);
    const line = Buffer.from(`${randomBytes(511).toString('hex')}\n\n`);
    const block = Buffer.concat(Array.from({ length: 1024 }, () => line));
    const blocks = LOG_BYTES / block.length;
    const digest = createHash('sha256');
    for (let count = 0; count < blocks; count++) digest.update(block);
    const sockets = new Set<Socket>();
    const server = httpsServer({ cert: await readFile(certFile), key: await readFile(keyFile) });
    server.on('connection', (socket: Socket) => sockets.add(socket));
    server.on('request', async (request, response) => {
      if (!request.url?.startsWith('/containerLogs/')) return response.writeHead(404).end();
      for (let count = 0; count < blocks; count++) {
        if (!response.write(block)) await once(response, 'drain');
      }
      return response.end();
    });
    server.on('upgrade', (_request, socket: Socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
      socket.on('data', chunk => socket.write(chunk.toString().toUpperCase()));
      socket.on('error', () => {});
      socket.on('end', () => socket.end());
    });
    server.listen(0, host);
    await once(server, 'listening');
    return new Kubelet((server.address() as AddressInfo).port, digest.digest('hex'), async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close();
  }
}
