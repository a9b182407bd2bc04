// What the doctor sees with a kubeconfig: a real API server and konnectivity server behind the gateway, an agent in the
// tenant, and the objects that lead pods to it. Each thing is broken on purpose, and the doctor must name it and nothing
// else.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Lookup } from '../../src/dns/check-hosts.ts';
import { authorityOf } from '../../testbed/certificates.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { kubeconfig } from '../../testbed/kubectl.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { run } from '../../testbed/run.ts';
import { type RunningAgent, startAgent } from '../../testbed/start-agent.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, causewayBin, startCauseway } from '../../testbed/start-causeway.ts';
import { startKonnectivityServer } from '../../testbed/start-konnectivity.ts';
import { type TempDir, tempDir } from '../../testbed/temp-dir.ts';
import { type Asked, askDoctor, type Question, startHttps } from './ask-doctor.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingNetns() ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'konnectivity-server');
const TIMEOUT_MS = 600_000;

const ID = '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11';
const SECRET = 'a secret for tests, of at least 32 bytes\n';

describe('doctor inside', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let dir: TempDir;
  let node: Netns;
  let api: ApiServer;
  let agent: RunningAgent;
  let gateway: Causeway;
  let config: string;
  let file: string;

  before(async () => {
    dir = stack.use(await tempDir());
    node = stack.use(await netns());
    const authority = await authorityOf('tenant of doctor');
    const sans = ['api.a.test', 'k.a.test'];
    const [server, konnectivity] = await Promise.all([
      startApiServer({ authority, sans }),
      startKonnectivityServer({ authority, sans }),
    ]);
    api = stack.use(server);
    stack.use(konnectivity);
    // As a cluster of which somebody has taken the id by mistake.
    const other = stack.use(await startHttps({ certificate: await authority.certificateFor('api.b.test') }));
    await writeFile(dir.file('secret'), SECRET, { mode: 0o600 });
    const yaml = (port: number) => `
listen: [{ on: "${node.machine}:${port}", agents: [198.18.0.0/15] }]
identity: { secretFile: ${dir.file('secret')} }
clusters:
  - name: a
    id: ${ID}
    api: { hosts: [api.a.test], backends: ["127.0.0.1:${api.port}"] }
    konnectivity: { hosts: [k.a.test], backends: ["127.0.0.1:${konnectivity.port}"] }
  - { name: b, id: other, api: { hosts: [api.b.test], backends: ["127.0.0.1:${other.port}"] } }
`;
    gateway = stack.use(await startCauseway({ config: yaml(0) }));
    config = yaml(gateway.port);
    file = await api.kubeconfig({ server: `https://api.a.test:${gateway.port}` });
    agent = stack.use(await startMember(ID));
  });
  after(() => stack.disposeAsync());

  function startMember(id: string): Promise<RunningAgent> {
    return startAgent({
      uplink: 'proxy',
      id,
      gateway: `${node.machine}:${gateway.port}`,
      on: `${node.machine}:0`,
    });
  }

  const lookup: Lookup = async (_, type) => ({
    status: type === 'A' ? 'answered' : 'no-data',
    addresses: type === 'A' ? [node.machine] : [],
    chain: [],
  });

  function ask(question: Partial<Question> = {}): Promise<Asked> {
    return askDoctor({ config, cluster: 'a', tenantKubeconfig: file, lookup, ...question });
  }

  async function keyOf(id: string): Promise<string> {
    const { stdout } = await run(causewayBin, [
      'identity',
      'key',
      '--secret-file',
      dir.file('secret'),
      '--cluster-id',
      id,
    ]);
    return stdout.toString().trim();
  }

  const metadata = (name: string, labels: object = {}) => ({ name, namespace: 'kube-system', labels });
  const agentPod = (ready = 'True', podIP = node.machine) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: metadata('causeway-agent-0', { 'app.kubernetes.io/name': 'causeway-agent' }),
    spec: { hostNetwork: true, containers: [{ name: 'agent', image: 'causeway' }] },
    status: {
      phase: 'Running',
      podIP,
      podIPs: [{ ip: podIP }],
      conditions: [{ type: 'Ready', status: ready }],
      containerStatuses: [
        {
          name: 'agent',
          ready: ready === 'True',
          restartCount: 0,
          image: 'causeway',
          imageID: '',
          state: ready === 'True' ? { running: {} } : { waiting: { reason: 'CrashLoopBackOff' } },
        },
      ],
    },
  });
  const slice = (addresses: readonly string[] = [node.machine], port = agent.port) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'kubernetes',
      namespace: 'default',
      labels: {
        'kubernetes.io/service-name': 'kubernetes',
        'endpointslice.kubernetes.io/managed-by': 'causeway',
      },
    },
    addressType: 'IPv4',
    endpoints: addresses.map(address => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: 'https', port, protocol: 'TCP' }],
  });
  const endpoints = (
    address = node.machine,
    labels: object = { 'endpointslice.kubernetes.io/skip-mirror': 'true' },
  ) => ({
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name: 'kubernetes', namespace: 'default', labels },
    subsets: [{ addresses: [{ ip: address }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] }],
  });

  /** As the tenant should be. */
  async function heal(): Promise<void> {
    await applyPod(agentPod());
    await api.kubectl('delete', 'endpointslice,endpoints', 'kubernetes', '--ignore-not-found');
    await api.apply(slice(), endpoints());
  }

  async function applyPod(pod: ReturnType<typeof agentPod>): Promise<void> {
    const { status, ...rest } = pod;
    await api.kubectl(
      'delete',
      'pod',
      '-n',
      'kube-system',
      pod.metadata.name,
      '--ignore-not-found',
      '--force',
      '--grace-period=0',
    );
    await api.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: metadata('default') }, rest);
    await api.kubectl(
      'patch',
      'pod',
      '-n',
      'kube-system',
      pod.metadata.name,
      '--subresource=status',
      '--type=merge',
      '-p',
      JSON.stringify({ status }),
    );
  }

  test('a healthy tenant has nothing but ok', async () => {
    await heal();
    const { codes, checks, notChecked } = await ask();
    assert.deepEqual(codes, [], JSON.stringify(checks, undefined, 1));
    assert.deepEqual(notChecked, []);
    const texts = checks.map(({ step, text }) => `${step}: ${text}`).join('\n');
    for (const expected of [
      /^dns: api\.a\.test, k\.a\.test resolve to /m,
      /^api: .* is ready, Kubernetes v1\./m,
      /^api: The kubeconfig \S+ is 'admin'$/m,
      /^konnectivity: k\.a\.test speaks HTTP\/2, and asks agents for a certificate$/m,
      /^tenant: The Pod of the agent is ready$/m,
      /^tenant: EndpointSlice default\/kubernetes leads to /m,
      /^tenant: A connection without a server name works through the agent at /m,
    ])
      assert.match(texts, expected);
  });

  interface Broken {
    readonly what: string;
    readonly codes: readonly string[];
    readonly break?: () => Promise<unknown>;
    readonly question?: () => Promise<Partial<Question>>;
  }
  const withOutput =
    (options = '{}') =>
    async () => ({ config: `${config}outputs: [{ tenantAgent: ${options} }]\n` });
  const BROKEN: readonly Broken[] = [
    {
      what: 'a token that is not valid',
      codes: ['CredentialsRefused'],
      question: async () => ({ tenantKubeconfig: await userFile({ token: 'nobody' }) }),
    },
    {
      what: 'the kubeconfig of another authority',
      codes: ['CertificateUntrusted'],
      question: async () => ({
        tenantKubeconfig: await userFile(api.admin, { caFile: (await authorityOf('another')).certFile }),
      }),
    },
    {
      what: 'a kubeconfig with a former server',
      codes: ['KubeconfigElsewhere'],
      question: async () => ({
        tenantKubeconfig: await userFile(api.admin, { server: 'https://former.test:6443' }),
      }),
    },
    { what: 'a Pod that is not ready', codes: ['AgentNotReady'], break: () => applyPod(agentPod('False')) },
    {
      what: 'an agent that is missing',
      codes: ['AgentMissing'],
      break: async () => {
        await api.kubectl(
          'delete',
          'pod',
          '-n',
          'kube-system',
          'causeway-agent-0',
          '--force',
          '--grace-period=0',
        );
        await applySecret(await keyOf(ID));
      },
      question: withOutput(),
    },
    {
      what: 'a Secret that is missing',
      codes: ['AgentSecretMissing'],
      break: () =>
        api.kubectl('delete', 'secret', '-n', 'kube-system', 'causeway-agent', '--ignore-not-found'),
      question: withOutput(),
    },
    {
      what: 'the key of another cluster',
      codes: ['AgentSecretMissing'],
      break: async () => applySecret(await keyOf('other')),
      question: withOutput(),
    },
    {
      what: 'no EndpointSlice',
      codes: ['EndpointsMissing'],
      break: () => api.kubectl('delete', 'endpointslice', 'kubernetes'),
    },
    {
      what: 'an address where no agent runs',
      codes: ['EndpointStale'],
      break: () => api.apply(slice([node.machine, '192.0.2.9'])),
    },
    {
      what: 'an agent that is not in the slice',
      codes: ['EndpointIncomplete'],
      break: () => addPod('causeway-agent-1', '192.0.2.10'),
    },
    {
      what: 'a ClusterIP as endpoint',
      codes: ['EndpointIsClusterIp'],
      break: () => withoutPods(slice(['10.96.7.7'])),
    },
    {
      // Kubernetes itself refuses loopback and link-local addresses, and accepts this one.
      what: 'a multicast address as endpoint',
      codes: ['EndpointUnreachable'],
      break: () => withoutPods(slice(['239.1.2.3'])),
    },
    {
      what: 'a slice without its label',
      codes: ['EndpointSliceInvalid'],
      break: async () => api.kubectl('label', 'endpointslice', 'kubernetes', 'kubernetes.io/service-name-'),
    },
    {
      what: 'a slice without port https',
      codes: ['EndpointSliceInvalid'],
      break: () =>
        api.kubectl(
          'patch',
          'endpointslice',
          'kubernetes',
          '--type=json',
          '-p',
          '[{"op":"replace","path":"/ports/0/name","value":"tls"}]',
        ),
    },
    {
      what: 'Endpoints that would be mirrored',
      codes: ['SkipMirrorMissing'],
      break: () =>
        api.kubectl('label', 'endpoints', 'kubernetes', 'endpointslice.kubernetes.io/skip-mirror-'),
    },
    {
      what: 'Endpoints of an earlier writer',
      codes: ['EndpointsDiffer'],
      break: () => api.apply(endpoints('192.0.2.11')),
    },
    {
      what: 'an agent with an id that nobody has',
      codes: ['NoSniRefused'],
      break: async () => {
        const wrong = cleanup.use(await startMember('nobody'));
        await api.apply(slice([node.machine], wrong.port));
      },
    },
    {
      what: "an agent with another cluster's id",
      codes: ['NoSniElsewhere'],
      break: async () => {
        const wrong = cleanup.use(await startMember('other'));
        await api.apply(slice([node.machine], wrong.port));
      },
    },
  ];
  let cleanup = new AsyncDisposableStack();
  afterEach(async () => {
    await cleanup.disposeAsync();
    cleanup = new AsyncDisposableStack();
  });
  for (const { what, codes, break: breakIt, question } of BROKEN) {
    test(`doctor names ${what}, and nothing else`, async () => {
      await heal();
      await api.kubectl(
        'delete',
        'pod',
        '-n',
        'kube-system',
        'causeway-agent-1',
        '--ignore-not-found',
        '--force',
        '--grace-period=0',
      );
      await breakIt?.();
      const asked = await ask(await question?.());
      assert.deepEqual(
        asked.codes,
        codes,
        JSON.stringify([asked.checks, asked.notChecked, asked.sentences], undefined, 1),
      );
    });
  }

  test('a signed id is sent as an agent would, where no agent can be reached', async () => {
    await heal();
    const { codes, checks } = await ask({
      tenantKubeconfig: undefined,
      config: config.replace('secret }', 'secret, required: true }'),
    });
    assert.deepEqual(codes, []);
    assert.ok(
      checks.some(({ text }) => text.startsWith('A connection without a server name works with its id')),
    );
  });

  test('--fix writes endpoints that are ours and wrong, and nothing before it is asked to', async () => {
    await heal();
    await api.apply(slice([node.machine, '192.0.2.9'], 6443));
    const addresses = () =>
      api.kubectl('get', 'endpointslice', 'kubernetes', '-o', 'jsonpath={.endpoints[*].addresses[0]}');
    await ask({
      async use({ repairs }) {
        assert.equal(repairs.length, 1);
        assert.match(repairs[0].what, /^Write EndpointSlice and Endpoints default\/kubernetes/);
        assert.equal(await addresses(), `${node.machine} 192.0.2.9`);
        assert.equal(await repairs[0].apply(), undefined);
        assert.equal(await addresses(), node.machine);
      },
    });
  });

  async function userFile(
    user: Parameters<typeof kubeconfig>[0]['user'],
    options: { caFile?: string; server?: string } = {},
  ) {
    const path = dir.file(`kubeconfig-${Math.random()}`);
    const { caFile = api.caFile, server = 'https://api.a.test' } = options;
    await writeFile(path, await kubeconfig({ server, caFile, user }), { mode: 0o600 });
    return path;
  }

  async function applySecret(key: string): Promise<void> {
    await api.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: metadata('causeway-agent'),
      stringData: { key },
    });
  }

  async function addPod(name: string, ip: string): Promise<void> {
    const pod = agentPod('True', ip);
    await applyPod({ ...pod, metadata: { ...pod.metadata, name } });
  }

  /** Agents that are no Pods, so that only the addresses are judged. */
  async function withoutPods(object: object): Promise<void> {
    await api.kubectl(
      'delete',
      'pod',
      '-n',
      'kube-system',
      'causeway-agent-0',
      '--force',
      '--grace-period=0',
    );
    await api.kubectl('delete', 'endpoints', 'kubernetes');
    await api.apply(object);
  }
});
