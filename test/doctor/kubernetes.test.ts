// What the doctor sees of a cluster that comes from Kubernetes: a real API server with a TenantControlPlane of Kamaji, its
// Secret, and the objects that an ingress controller reads. Each thing is broken on purpose, and the doctor must name it
// and nothing else. To keep it short, one API server is both the management cluster and the tenant.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { sampleCluster, sampleOrigin, sampleRoute } from '../../src/cluster/clusters.samples.ts';
import { readConfig } from '../../src/config/read-config.ts';
import type { Lookup } from '../../src/dns/check-hosts.ts';
import { newOutput } from '../../src/outputs/new-output.ts';
import { documentedTenant } from '../../src/sources/tenant.samples.ts';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { installDefinition } from '../../testbed/install-definition.ts';
import { missingNetns, type Netns, netns } from '../../testbed/netns.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { type Causeway, startCauseway } from '../../testbed/start-causeway.ts';
import { until } from '../features/given.ts';
import { tenantService } from '../kube/tenant-service.ts';
import { type Asked, askDoctor, type Question } from './ask-doctor.ts';

const skip =
  missingPrograms('openssl', 'curl') ||
  missingNetns() ||
  missingGoPrograms('etcd', 'kube-apiserver', 'kubectl');
const TIMEOUT_MS = 600_000;
const NAME = 'tenants.a';
const HOST = 'tenants-a.k8s.clastix.cloud';
const KONNECTIVITY_HOST = 'tenants-a.konnectivity.clastix.cloud';
/** Where pods of the tenant reach it: nobody asks there. */
const ENDPOINT = '192.0.2.10';

describe('doctor of a cluster in Kubernetes', { skip, timeout: TIMEOUT_MS }, () => {
  const stack = new AsyncDisposableStack();
  let node: Netns;
  let api: ApiServer;
  let gateway: Causeway;
  let kubeconfig: string;

  before(async () => {
    node = stack.use(await netns());
    const { machine } = node;
    api = stack.use(await startApiServer({ bindAddress: machine, sans: [HOST, KONNECTIVITY_HOST, machine] }));
    await Promise.all([
      installDefinition(api, 'kamaji-tenantcontrolplanes', 'tenantcontrolplanes.kamaji.clastix.io'),
      installDefinition(api, 'traefik-ingressroutetcps', 'ingressroutetcps.traefik.io'),
      api.kubectl('create', 'namespace', 'tenants'),
    ]);
    kubeconfig = await api.kubeconfig();
    await api.apply(...tenantService('tenants', 'a', machine, api.port), slice());
    await heal();
    const config = file().replace('kamaji: {', `kamaji: { kubeconfig: ${kubeconfig},`);
    gateway = stack.use(await startCauseway({ config: `${config}statusAnnotation: false\n` }));
    await until('the cluster is served', async () => {
      const clusters = (await (await fetch(`${gateway.admin}/api/v1/clusters`)).json()) as { name: string }[];
      return clusters.some(({ name }) => name === NAME);
    });
  });
  after(() => stack.disposeAsync());

  function file(outputs = ''): string {
    const port = gateway?.port ?? 0;
    return `listen: ["${node.machine}:${port}"]
sources: [{ kamaji: { namespaces: [tenants] } }]
${outputs === '' ? '' : `outputs: [${outputs}]\n`}`;
  }

  const lookup: Lookup = async (_, type) => ({
    status: type === 'A' ? 'answered' : 'no-data',
    addresses: type === 'A' ? [node.machine] : [],
    chain: [],
  });

  function ask(outputs = '', question: Partial<Question> = {}): Promise<Asked> {
    return askDoctor({ config: file(outputs), kubeconfig, lookup, ...question });
  }

  const slice = () => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'kubernetes',
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': 'kubernetes' },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: [ENDPOINT], conditions: { ready: true } }],
    ports: [{ name: 'https', port: 1, protocol: 'TCP' }],
  });

  /** As the management cluster should be. */
  async function heal(): Promise<void> {
    const { apiVersion, kind, metadata, spec } = documentedTenant('tenants', 'a');
    const { name, namespace, annotations } = metadata;
    await api.kubectl('delete', 'tenantcontrolplane', 'a', '-n', 'tenants', '--ignore-not-found');
    await api.kubectl('delete', 'ingress,ingressroutetcp', '--all', '-n', 'tenants');
    await api.kubectl('delete', 'deployment', '--all', '-n', 'kube-system');
    await api.kubectl('delete', 'ingressclass', '--all');
    await api.apply(
      { apiVersion, kind, metadata: { name, namespace, annotations }, spec: spec as object },
      {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'a-admin-kubeconfig', namespace },
        stringData: { 'admin.conf': await readFile(await api.kubeconfig(), 'utf8') },
      },
    );
  }

  const ingressClass = (name: string, controller: string) =>
    api.apply({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'IngressClass',
      metadata: { name },
      spec: { controller },
    });

  const controllerOf = (name: string, image: string, args: readonly string[], component = 'controller') => {
    const labels = { 'app.kubernetes.io/name': name, 'app.kubernetes.io/component': component };
    const template = { metadata: { labels }, spec: { containers: [{ name, image, args }] } };
    return api.apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace: 'kube-system', labels },
      spec: { selector: { matchLabels: labels }, template },
    });
  };

  /** Writes the objects of an output, as `run` would. */
  async function write(output: string): Promise<void> {
    const read = readConfig(file(output), 'causeway.yaml');
    assert.ok(read.ok);
    const route = (kind: string, host: string, port: number) =>
      sampleRoute({ kind, hosts: [host], service: { namespace: 'tenants', name: 'a', port } });
    const cluster = sampleCluster(NAME, {
      origin: sampleOrigin('kamaji', 'tenants', 'a'),
      routes: [route('api', HOST, 6443), route('konnectivity', KONNECTIVITY_HOST, 8132)],
    });
    const plan = { clusters: [cluster], findings: [], counts: { clusters: 1, routes: 2, hosts: 2 } };
    const objects = read.config.outputs.flatMap(
      settings => newOutput(settings, { leaseNamespace: 'default' })?.desired(plan).objects ?? [],
    );
    assert.ok(objects.length > 0);
    await api.apply(...objects.map(({ object }) => object));
  }

  const patch = (operations: readonly object[]) =>
    api.kubectl(
      'patch',
      'tenantcontrolplane',
      'a',
      '-n',
      'tenants',
      '--type=json',
      '-p',
      JSON.stringify(operations),
    );

  test('a healthy cluster has nothing but ok, with the kubeconfig from its Secret', async () => {
    await heal();
    const haproxy = '{ ingress: { flavor: haproxy } }';
    await ingressClass('haproxy', 'haproxy.org/ingress-controller/haproxy');
    await write(haproxy);
    const { codes, checks, notChecked } = await ask(haproxy);
    assert.deepEqual(codes, [], JSON.stringify(checks, undefined, 1));
    assert.deepEqual(notChecked, ['tenant: no listener has agents, so nothing reaches a cluster by its id']);
    const texts = checks.map(({ step, cluster, text }) => `${cluster} ${step}: ${text}`).join('\n');
    assert.match(texts, /^tenants\.a api: The kubeconfig in Secret tenants\/a-admin-kubeconfig is 'admin'$/m);
    assert.match(texts, /^tenants\.a ingress: Ingress tenants\/tenants-a-/m);
    assert.match(texts, /^tenants\.a konnectivity: tenants-a\.konnectivity\.clastix\.cloud speaks HTTP\/2$/m);
  });

  const HAPROXY = '{ ingress: { flavor: haproxy } }';
  const NGINX = '{ ingress: { flavor: nginx } }';
  const TRAEFIK = '{ ingressRouteTCP: { entryPoints: [websecure] } }';
  const BROKEN: readonly (readonly [
    what: string,
    outputs: string,
    breakIt: () => Promise<unknown>,
    codes: readonly string[],
  ])[] = [
    [
      'a Secret that is missing',
      '',
      () => api.kubectl('delete', 'secret', '-n', 'tenants', 'a-admin-kubeconfig'),
      ['SecretMissing'],
    ],
    [
      'a kubeconfig that cannot be used',
      '',
      () =>
        api.kubectl(
          'patch',
          'secret',
          '-n',
          'tenants',
          'a-admin-kubeconfig',
          '-p',
          '{"stringData":{"admin.conf":"{}"}}',
        ),
      ['KubeconfigInvalid'],
    ],
    [
      'a host that is not among certSANs',
      '',
      () => patch([{ op: 'remove', path: '/spec/networkProfile/certSANs/0' }]),
      ['CertificateSanMissing'],
    ],
    [
      'konnectivity agents that are not told where to connect',
      '',
      () => patch([{ op: 'remove', path: '/spec/addons/konnectivity/agent/extraArgs/1' }]),
      ['KonnectivityArgsMissing'],
    ],
    [
      'the API server that writes its endpoints itself',
      '{ tenantEndpoints: { address: 192.0.2.10 } }',
      () => patch([{ op: 'remove', path: '/spec/controlPlane/deployment/extraArgs' }]),
      ['ReconcilerTypeMissing'],
    ],
    ['an Ingress that is missing', HAPROXY, async () => {}, ['ObjectMissing']],
    ['a class that nobody has', HAPROXY, () => write(HAPROXY), ['IngressClassMissing']],
    [
      'an annotation for another controller',
      HAPROXY,
      async () => {
        await ingressClass('haproxy', 'haproxy-ingress.github.io/controller');
        await write(HAPROXY);
      },
      ['PassthroughMissing'],
    ],
    [
      'an Ingress for Traefik',
      HAPROXY,
      async () => {
        await ingressClass('haproxy', 'traefik.io/ingress-controller');
        await write(HAPROXY);
      },
      ['PassthroughMissing'],
    ],
    [
      'ingress-nginx without its flag',
      NGINX,
      async () => {
        await ingressClass('nginx', 'k8s.io/ingress-nginx');
        await controllerOf('ingress-nginx', 'registry.k8s.io/ingress-nginx/controller:v1.12.0', [
          '/nginx-ingress-controller',
        ]);
        await write(NGINX);
      },
      ['SslPassthroughOff'],
    ],
    [
      'ingress-nginx with its flag: nothing',
      NGINX,
      async () => {
        await ingressClass('nginx', 'k8s.io/ingress-nginx');
        await controllerOf('ingress-nginx', 'registry.k8s.io/ingress-nginx/controller:v1.12.0', [
          '/nginx-ingress-controller',
          '--enable-ssl-passthrough',
        ]);
        await write(NGINX);
      },
      [],
    ],
    [
      'an entry point that Traefik does not have',
      TRAEFIK,
      async () => {
        await controllerOf('traefik', 'docker.io/traefik:v3.6', [
          '--entryPoints.web.address=:8000/tcp',
          '--entryPoints.tls.address=:8443/tcp',
        ]);
        await write(TRAEFIK);
      },
      ['EntryPointMissing'],
    ],
    [
      'an entry point in another spelling: nothing',
      TRAEFIK,
      async () => {
        await controllerOf('traefik', 'docker.io/traefik:v3.6', [
          '--entrypoints.websecure.address=:8443/tcp',
        ]);
        await write(TRAEFIK);
      },
      [],
    ],
  ];
  for (const [what, outputs, breakIt, codes] of BROKEN) {
    test(`doctor names ${what}${codes.length === 0 ? '' : ', and nothing else'}`, async () => {
      await heal();
      await breakIt();
      const asked = await ask(outputs);
      assert.deepEqual(asked.codes, codes, JSON.stringify([asked.checks, asked.notChecked], undefined, 1));
    });
  }

  test('doctor names a source that cannot be read', async () => {
    const { codes } = await ask('', { kubeconfig: undefined });
    assert.deepEqual(codes, ['SourceUnreadable']);
  });

  test('--fix adds what the object lacks, and nothing before it is asked to', async () => {
    await heal();
    await patch([{ op: 'remove', path: '/spec/networkProfile/certSANs/0' }]);
    const sans = () =>
      api.kubectl(
        'get',
        'tenantcontrolplane',
        'a',
        '-n',
        'tenants',
        '-o',
        'jsonpath={.spec.networkProfile.certSANs}',
      );
    const before = await sans();
    await ask('', {
      async use({ repairs }) {
        assert.equal(repairs.length, 1);
        assert.match(
          repairs[0].what,
          /^Add to TenantControlPlane tenants\/a: \/spec\/networkProfile\/certSANs "tenants-a\.k8s\.clastix\.cloud"$/,
        );
        assert.match(
          repairs[0].command,
          /^kubectl patch --namespace tenants tenantcontrolplanes\.kamaji\.clastix\.io\/a --type json --patch '\[/,
        );
        assert.equal(await sans(), before);
        assert.equal(await repairs[0].apply(), undefined);
        assert.deepEqual(JSON.parse(await sans()).toSorted(), [HOST, KONNECTIVITY_HOST].toSorted());
        // Somebody has changed the object meanwhile.
        assert.match((await repairs[0].apply()) ?? '', /^422 /);
      },
    });
    assert.deepEqual((await ask()).codes, []);
  });
});
