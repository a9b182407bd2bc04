// The start of a node, and later outages: an agent runs before the gateway, before the API server and
// before any DNS, and is never restarted. Once the rest is up, clients are served and the agent is
// among the endpoints.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { type Authority, authorityOf } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { kubeconfig, kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, type LogLine, startCauseway } from '../../testbed/start-causeway.ts';
import { startCoredns } from '../../testbed/start-coredns.ts';
import { type Etcd, startEtcd } from '../../testbed/start-etcd.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { until } from '../features/given.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingNetns() ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'coredns');
const TIMEOUT_MS = 900_000;
const WAIT_MS = 180_000;

const LOCAL = '172.20.0.1';
const PORT = 6443;
const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
const GATEWAY = 'gateway.example.com';

describe('causeway agent before everything else', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let authority: Authority;
  let node: Netns;
  let agent: RunningAgent;
  let store: Etcd;
  let ports: { readonly gateway: number; readonly api: number };
  let gateway: Causeway | undefined;
  let api: ApiServer | undefined;

  before(async () => {
    dir = stack.use(await tempDir());
    authority = await authorityOf('bootstrap');
    // There is no name server, and nothing may wait for one.
    node = stack.use(await netns({ resolver: '198.51.100.53' }));
    ports = { gateway: await freePort(), api: await freePort() };
    const user = await authority.clientCertificate({ user: 'node-admin', groups: ['system:masters'] });
    const file = { server: `https://${LOCAL}:${PORT}`, caFile: authority.certFile, user };
    await writeFile(dir.file('kubeconfig'), await kubeconfig(file));
    const endpoints = ['--endpoints', '--kubeconfig', dir.file('kubeconfig')];
    agent = stack.use(
      await startAgent({
        netns: node,
        uplink: 'proxy',
        id: ID,
        gateway: `${GATEWAY}:${ports.gateway}`,
        on: `${LOCAL}:${PORT}`,
        args: ['--gateway-address', node.machine, '--local-address', LOCAL, ...endpoints],
      }),
    );
    store = stack.use(await startEtcd());
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await api?.[Symbol.asyncDispose]();
    await stack.disposeAsync();
  });

  function startGateway(): Promise<Causeway> {
    return startCauseway({
      config: `
listen: [{ on: "${node.machine}:${ports.gateway}", agents: [198.18.0.0/15] }]
clusters:
  - name: a
    id: ${ID}
    api: { hosts: [api.a.test], backends: ["127.0.0.1:${ports.api}"], health: { every: 1s } }
`,
    });
  }

  function startApi(): Promise<ApiServer> {
    return startApiServer({ authority, store, port: ports.api, sans: [LOCAL] });
  }

  /** The user that the API server sees for the node's client, through the agent; undefined while unreachable. */
  async function whoami(host = node): Promise<string | undefined> {
    const args = ['auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}', '--request-timeout=20s'];
    const { code, stdout } = await kubectl(dir.file('kubeconfig'), args, { netns: host });
    return code === 0 ? stdout.toString() : undefined;
  }

  async function addresses(): Promise<string> {
    const path = 'jsonpath={.endpoints[*].addresses}';
    return (await api?.kubectl('get', 'endpointslice', 'kubernetes', '--ignore-not-found', '-o', path)) ?? '';
  }

  /** The agent's own client connects too, and may give up: that is `client-gone`. */
  const isTurnedAway = ({ msg, reason }: LogLine) => msg === 'connection' && reason === 'connect-failed';
  const reported = (sentence: RegExp) => agent.lines().filter(({ msg }) => sentence.test(msg)).length;

  test('without a gateway clients are refused, and the log has the cause', async () => {
    assert.equal(await whoami(), undefined);
    const { cluster, backend } = await agent.line(isTurnedAway);
    assert.deepEqual([cluster, backend], [ID, `${node.machine}:${ports.gateway}`]);
  });

  test('with a gateway and no API server, the gateway refuses clients', async () => {
    gateway = await startGateway();
    assert.equal(await whoami(), undefined);
    const { cluster, clusterId } = await gateway.line(isTurnedAway);
    assert.deepEqual([cluster, clusterId], ['a', ID]);
    await agent.line(
      ({ msg, why }) => msg === 'gateway closed at once' && /reach the API server/.test(String(why)),
    );
  });

  test('with both, the first client is served, and the agent is added to the endpoints', async () => {
    api = await startApi();
    assert.equal(await whoami(), 'node-admin');
    await until('its address', async () => (await addresses()) === `["${LOCAL}"]`, WAIT_MS);
    await agent.line(({ msg }) => /answers again/.test(msg));
    // Once each, however long it takes.
    assert.deepEqual([reported(/Cannot maintain the endpoints/), reported(/answers again/)], [1, 1]);
  });

  test('the gateway restarts', async () => {
    await gateway?.[Symbol.asyncDispose]();
    assert.equal(await whoami(), undefined);
    gateway = await startGateway();
    assert.equal(await whoami(), 'node-admin');
  });

  test('the API server restarts', async () => {
    await api?.[Symbol.asyncDispose]();
    assert.equal(await whoami(), undefined);
    api = await startApi();
    assert.equal(await whoami(), 'node-admin');
    assert.equal(await addresses(), `["${LOCAL}"]`);
    assert.equal(agent.program.exit(), undefined);
  });

  test('a gateway that is given by name is found once there is DNS', async () => {
    await using nameServer = await netns();
    await using other = await netns({ lo: [LOCAL], resolver: nameServer.address });
    await using agent = await startAgent({
      netns: other,
      uplink: 'proxy',
      id: ID,
      gateway: `${GATEWAY}:${ports.gateway}`,
      on: `${LOCAL}:${PORT}`,
    });
    assert.equal(await whoami(other), undefined);
    await agent.line(({ msg, name }) => msg === "the gateway's name does not resolve" && name === GATEWAY);
    await using _ = await startCoredns({
      netns: nameServer,
      bindAddress: nameServer.address,
      port: 53,
      plugins: `hosts {\n  ${node.machine} ${GATEWAY}\n}`,
    });
    assert.equal(await until('the gateway', () => whoami(other), WAIT_MS), 'node-admin');
  });
});
