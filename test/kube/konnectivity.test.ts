// Konnectivity through the gateway: the path from an API server back into its tenant. The tenant's agents dial one name
// and must reach every replica of the server behind it; `kubectl logs` then goes
//
//   kubectl → kube-apiserver → konnectivity server ══ gateway (SNI) ══ konnectivity agent → kubelet
//
// where the agent opened the middle part from inside.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { type Authority, authorityOf } from '../../testbed/certificates.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import {
  type KonnectivityAgent,
  type KonnectivityServer,
  startKonnectivityAgent,
  startKonnectivityServer,
} from '../../testbed/start-konnectivity.ts';
import { tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingNetns() ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'konnectivity-server', 'konnectivity-agent');
const TIMEOUT_MS = 900_000;
const WAIT_MS = 180_000;

/** The tenant's node; its address is unique. */
const NODE = '172.31.0.1';
const KUBELET = 10_250;
const SERVICE = 8080;
/** Short intervals for tests; an agent's defaults are 1 s and up to 10 s. */
const QUICK = ['--sync-interval=100ms', '--sync-interval-cap=500ms', '--probe-interval=100ms'];

/** A kubelet's log endpoint, which requires a client certificate; and a service without TLS. */
const node = (certFile: string, keyFile: string, caFile: string) => `
  const { readFileSync } = require('node:fs');
  require('node:https').createServer({
    cert: readFileSync(${JSON.stringify(certFile)}),
    key: readFileSync(${JSON.stringify(keyFile)}),
    ca: readFileSync(${JSON.stringify(caFile)}),
    requestCert: true,
  }, (request, response) => {
    const { CN } = request.socket.getPeerCertificate().subject;
    response.end('log of ' + request.url + ' for ' + CN + '\\n');
  }).listen(${KUBELET}, '${NODE}', () => {
    require('node:http').createServer((_, response) => response.end('the tenant')).listen(${SERVICE}, '${NODE}');
  });`;

describe('konnectivity', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let authority: Authority;
  let tenant: Netns;
  let servers: KonnectivityServer[];
  let api: ApiServer;
  let gateway: Causeway;
  let agents: KonnectivityAgent[];

  before(async () => {
    authority = await authorityOf('konnectivity tenant');
    tenant = stack.use(
      await netns({ lo: [NODE], names: ['konnectivity.a.test', 'sticky.a.test', 'shared.b.test'] }),
    );
    servers = [await startServer(), await startServer()];
    api = stack.use(await startTenantApi());
    gateway = stack.use(await startCauseway({ config: config() }));
    agents = [
      stack.use(await startAgent('konnectivity.a.test')),
      stack.use(await startAgent('konnectivity.a.test')),
    ];
    await startNode();
  });
  after(async () => {
    await stack.disposeAsync();
    for (const server of servers ?? []) await server[Symbol.asyncDispose]();
  });

  function startServer(agentPort?: number): Promise<KonnectivityServer> {
    const sans = ['konnectivity.a.test', 'sticky.a.test', 'shared.b.test'];
    const port = agentPort === undefined ? {} : { agentPort };
    return startKonnectivityServer({ authority, sans, serverCount: 2, ...port });
  }

  /** It reaches its nodes through the first konnectivity server. */
  async function startTenantApi(): Promise<ApiServer> {
    const dir = stack.use(await tempDir());
    const egress = dir.file('egress.json');
    const connection = {
      proxyProtocol: 'HTTPConnect',
      transport: { uds: { udsName: servers[0].socket } },
    };
    await writeFile(
      egress,
      JSON.stringify({
        apiVersion: 'apiserver.k8s.io/v1beta1',
        kind: 'EgressSelectorConfiguration',
        egressSelections: [{ name: 'cluster', connection }],
      }),
    );
    const client = await authority.clientCertificate({ user: 'the-api-server' });
    return startApiServer({
      authority,
      sans: ['shared.b.test'],
      flags: [
        `--egress-selector-config-file=${egress}`,
        `--kubelet-certificate-authority=${authority.certFile}`,
        `--kubelet-client-certificate=${client.certFile}`,
        `--kubelet-client-key=${client.keyFile}`,
        // No controller creates a pod's service account.
        '--disable-admission-plugins=ServiceAccount',
      ],
    });
  }

  function config(): string {
    const backends = JSON.stringify(servers.map(({ port }) => `127.0.0.1:${port}`));
    const apiBackend = `"127.0.0.1:${api.port}"`;
    return `
listen: ["${tenant.machine}:0"]
clusters:
  - name: a
    konnectivity: { hosts: [konnectivity.a.test], backends: ${backends}, health: { every: 1s } }
    routes:
      sticky: { hosts: [sticky.a.test], backends: ${backends}, balance: source }
  - name: b
    api: { hosts: [shared.b.test], backends: [${apiBackend}] }
    konnectivity: { hosts: [shared.b.test], alpn: [konnectivity], backends: ${backends} }
`;
  }

  function startAgent(host: string, ...flags: readonly string[]): Promise<KonnectivityAgent> {
    const server = `${host}:${gateway.port}`;
    return startKonnectivityAgent({ server, authority, netns: tenant, flags: [...QUICK, ...flags] });
  }

  async function startNode(): Promise<void> {
    const { certFile, keyFile } = await authority.certificateFor(NODE);
    const program = node(certFile, keyFile, authority.certFile);
    const ready = { port: [NODE, SERVICE] as const };
    stack.use(await tenant.start({ command: process.execPath, args: ['-e', program], ready }));
  }

  function connectsTo(agent: KonnectivityAgent, count: number): Promise<boolean> {
    const reported = `the agent to have ${count} servers`;
    return until(reported, async () => (await agent.servers()) === count, WAIT_MS);
  }

  /** Requests the service in the tenant through a konnectivity server. */
  async function reachesTenant(server: KonnectivityServer): Promise<void> {
    const socket = await server.dial(`${NODE}:${SERVICE}`);
    socket.write('GET / HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n');
    assert.match(await text(socket), /the tenant$/);
  }

  test('each agent reaches every replica behind one name', async () => {
    for (const agent of agents) await connectsTo(agent, 2);
    for (const server of servers) await reachesTenant(server);
    const active = () =>
      gateway.metric('causeway_connections_active', { cluster: 'a', route: 'konnectivity' });
    await until('a tunnel for each of both and no more', async () => (await active()) === 4, WAIT_MS);
  });

  test('kubectl logs reaches the kubelet through them, with certificates on both sides', async () => {
    await api.addNode('node-1', NODE);
    await api.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace: 'default' },
      spec: { nodeName: 'node-1', containers: [{ name: 'main', image: 'none.test/none' }] },
    });
    const log = await api.kubectl('logs', 'web');
    assert.equal(log, 'log of /containerLogs/default/web/main for the-api-server\n');
  });

  test('one replica is killed: the other keeps serving, and agents reach the first again', async () => {
    const [lost, left] = servers;
    for (const agent of agents) await connectsTo(agent, 2);
    await lost[Symbol.asyncDispose]();
    for (let i = 0; i < 10; i++) await reachesTenant(left);
    for (const agent of agents) await connectsTo(agent, 1);
    servers[0] = await startServer(lost.port);
    for (const agent of agents) await connectsTo(agent, 2);
    for (const server of servers) await reachesTenant(server);
  });

  test('balance: source always gives an agent the same replica', async () => {
    await using agent = await startAgent('sticky.a.test');
    const tries = () => gateway.connections().filter(({ route }) => route === 'sticky');
    await until('eight attempts to meet the other', () => tries().length >= 8, WAIT_MS);
    assert.equal(new Set(tries().map(({ backend }) => backend)).size, 1);
    assert.equal(await agent.servers(), 1);
  });

  test('shares a host with the API server, selected by ALPN', async () => {
    await using agent = await startAgent('shared.b.test', '--alpn-proto=konnectivity');
    await connectsTo(agent, 2);
    const file = await api.kubeconfig({ server: `https://shared.b.test:${gateway.port}` });
    const { stdout, stderr } = await kubectl(file, ['auth', 'whoami'], { netns: tenant });
    assert.match(stdout.toString(), /^Username +admin$/m, stderr);
    const line = await gateway.line(({ host, route }) => host === 'shared.b.test' && route === 'api');
    assert.equal(line.cluster, 'b');
  });
});
