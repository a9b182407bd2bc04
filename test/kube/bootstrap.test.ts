// The first minutes of a node, and the bad ones later: an agent is there before the gateway, before the API server and
// before there is any DNS, and is never restarted. As soon as the rest is there, clients get through.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { type Authority, authorityOf } from '../../testbed/certificates.ts';
import { freePort } from '../../testbed/free-port.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { kubeconfig, kubectl } from '../../testbed/kubectl.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { type CausewayAgent, startCausewayAgent } from '../../testbed/start-causeway-agent.ts';
import { type Etcd, startEtcd } from '../../testbed/start-etcd.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingNetns() ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const TIMEOUT_MS = 240_000;

const LOCAL = '172.20.0.1:6443';
const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';

describe('causeway agent before everything else', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let authority: Authority;
  let node: Netns;
  let agent: CausewayAgent;
  let store: Etcd;
  let ports: { readonly gateway: number; readonly api: number };
  let gateway: Causeway | undefined;
  let api: ApiServer | undefined;

  before(async () => {
    dir = stack.use(await tempDir());
    authority = await authorityOf('bootstrap');
    // A name server that is not there: what asks it waits.
    node = stack.use(await netns({ lo: ['172.20.0.1'], resolver: '198.51.100.53' }));
    ports = { gateway: await freePort(), api: await freePort() };
    agent = stack.use(
      await startCausewayAgent({
        netns: node,
        clusterId: ID,
        gateway: `gateway.example.com:${ports.gateway}`,
        gatewayAddress: node.machine,
        on: LOCAL,
      }),
    );
    store = stack.use(await startEtcd());
    const user = await authority.clientCertificate({ user: 'node-admin', groups: ['system:masters'] });
    const file = { server: `https://${LOCAL}`, caFile: authority.certFile, user };
    await writeFile(dir.file('kubeconfig'), await kubeconfig(file));
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await api?.[Symbol.asyncDispose]();
    await stack.disposeAsync();
  });

  function startGateway(): Promise<Causeway> {
    return startCauseway({
      config: `
listen: [{ on: "${node.machine}:${ports.gateway}", agents: [${node.address}/32] }]
clusters:
  - name: a
    id: ${ID}
    api: { hosts: [api.a.test], backends: ["127.0.0.1:${ports.api}"], health: { every: 1s } }
`,
    });
  }

  function startApi(): Promise<ApiServer> {
    return startApiServer({ authority, store, port: ports.api, sans: ['172.20.0.1'] });
  }

  /** Who the API server takes the node for, through the agent; undefined while it is not reached. */
  async function whoami(): Promise<string | undefined> {
    const args = ['auth', 'whoami', '-o', 'jsonpath={.status.userInfo.username}', '--request-timeout=20s'];
    const { code, stdout } = await kubectl(dir.file('kubeconfig'), args, { netns: node });
    return code === 0 ? stdout.toString() : undefined;
  }

  test('without a gateway clients are turned away, and the log says why', async () => {
    assert.equal(await whoami(), undefined);
    const line = await agent.line(({ msg }) => msg === 'connection');
    assert.deepEqual(
      [line.reason, line.cluster, line.backend],
      ['connect-failed', ID, `${node.machine}:${ports.gateway}`],
    );
  });

  test('with a gateway and no API server they are turned away by the gateway', async () => {
    gateway = await startGateway();
    assert.equal(await whoami(), undefined);
    const line = await gateway.line(({ msg }) => msg === 'connection');
    assert.deepEqual([line.reason, line.cluster, line.clusterId], ['connect-failed', 'a', ID]);
  });

  test('with both, the first client gets through', async () => {
    api = await startApi();
    assert.equal(await whoami(), 'node-admin');
  });

  test('the gateway goes and comes back', async () => {
    await gateway?.[Symbol.asyncDispose]();
    assert.equal(await whoami(), undefined);
    gateway = await startGateway();
    assert.equal(await whoami(), 'node-admin');
  });

  test('the API server goes and comes back', async () => {
    await api?.[Symbol.asyncDispose]();
    assert.equal(await whoami(), undefined);
    api = await startApi();
    assert.equal(await whoami(), 'node-admin');
    assert.equal(agent.exit(), undefined);
  });
});
