// The Helm chart and a real API server: it accepts what the examples make, Pods pass Pod Security `restricted`, and releases
// are installed, upgraded, rolled back and removed.

import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { basename } from 'node:path';
import { after, before, test } from 'node:test';
import { missingGoPrograms } from '../../testbed/go-build.ts';
import { helm } from '../../testbed/helm.ts';
import { kubectl } from '../../testbed/kubectl.ts';
import { missingPrograms } from '../../testbed/packages.ts';
import type { RunResult } from '../../testbed/run.ts';
import { type ApiServer, startApiServer } from '../../testbed/start-api-server.ts';
import { CHART, EXAMPLES, NAMESPACE, one, RELEASE, type Rendered, renderChart } from './render-chart.ts';

const skip = missingPrograms('openssl') || missingGoPrograms('etcd', 'kube-apiserver', 'kubectl', 'helm');
/** They use the host network, which `restricted` forbids. */
const ON_HOST = ['agent', 'daemonset-host-network'];
const LEVELS = ['enforce', 'warn'].map(mode => `pod-security.kubernetes.io/${mode}`);

/** Further values that the API server accepts. */
const TABLE: Readonly<Record<string, object>> = {
  'node-port': { service: { type: 'NodePort', ports: [{ port: 443, targetPort: 6443, nodePort: 30_443 }] } },
  'cluster-ip': { service: { type: 'ClusterIP', ipFamilyPolicy: 'SingleStack' }, replicas: 1 },
  balancer: { service: { loadBalancerClass: 'example.com/lb', loadBalancerSourceRanges: ['192.0.2.0/24'] } },
  daemon: { kind: 'DaemonSet', podDisruptionBudget: { maxUnavailable: '10%' } },
  network: {
    networkPolicy: {
      enabled: true,
      from: [{ ipBlock: { cidr: '192.0.2.0/24' } }],
      egress: [
        { to: [{ ipBlock: { cidr: '198.51.100.0/24' } }] },
        { ports: [{ port: 53, protocol: 'UDP' }] },
      ],
    },
  },
  pod: {
    podAnnotations: { a: 'b' },
    podLabels: { c: 'd' },
    env: [{ name: 'TZ', value: 'UTC' }],
    extraVolumes: [{ name: 'more', emptyDir: {} }],
    extraVolumeMounts: [{ name: 'more', mountPath: '/more' }],
    imagePullSecrets: ['pull'],
    image: { repository: 'registry.example.com/causeway', digest: `sha256:${'0'.repeat(64)}` },
    secrets: ['one', 'two.three'],
    topologySpreadConstraints: [],
    affinity: { podAntiAffinity: {} },
    nodeSelector: { e: 'f' },
    tolerations: [{ operator: 'Exists' }],
    resources: { limits: { memory: '1Gi' } },
    preStopSeconds: 5,
  },
  'admin-tls': { config: { admin: { tls: { certFile: '/a', keyFile: '/b' }, auth: [] }, stateDir: null } },
  'admin-off': { config: { admin: { on: 'off' } } },
};

let server: ApiServer;
let admin: string;
before(async () => {
  if (skip) return;
  server = await startApiServer();
  admin = await server.kubeconfig();
  for (const name of [NAMESPACE, 'tenants', 'clusters']) await server.kubectl('create', 'namespace', name);
  await server.kubectl('label', 'namespace', NAMESPACE, ...LEVELS.map(label => `${label}=restricted`));
  for (const [plural, kind] of [
    ['servicemonitors', 'ServiceMonitor'],
    ['prometheusrules', 'PrometheusRule'],
  ])
    await server.apply(definition(plural, kind));
  const defined = () => kubectl(admin, ['get', 'servicemonitors,prometheusrules', '-A']);
  while ((await defined()).code !== 0) await new Promise(resolve => setTimeout(resolve, 100));
});
after(async () => {
  if (!skip) await server[Symbol.asyncDispose]();
});

/** Of the Prometheus operator, in the least form. */
function definition(plural: string, kind: string): object {
  const group = 'monitoring.coreos.com';
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [{ name: 'v1', served: true, storage: true, schema }],
    },
  };
}

/** A Pod as the workload's controller would create it. */
function podOf(name: string, objects: readonly Rendered[]): object {
  const { template } = objects.find(({ kind }) => /^(Deployment|DaemonSet)$/.test(kind))?.spec ?? {};
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...template.metadata, name, namespace: NAMESPACE },
    spec: template.spec,
  };
}

/** Many examples have the same objects: each is sent once. */
function dryRun(objects: readonly object[]): Promise<RunResult> {
  const different = [...new Set(objects.map(object => JSON.stringify(object)))];
  const items = { apiVersion: 'v1', kind: 'List', items: different.map(text => JSON.parse(text)) };
  const args = ['apply', '--dry-run=server', '-f', '-'];
  return kubectl(admin, args, { input: JSON.stringify(items) });
}

test('the API server accepts every example and a table of values, and Pods pass restricted but on the host network', {
  skip,
  timeout: 240_000,
}, async () => {
  // Admission wants to see them.
  for (const name of [RELEASE, 'causeway-agent'])
    await server.kubectl('create', 'serviceaccount', name, '-n', NAMESPACE);
  const accepted: object[] = [];
  const refused: object[] = [];
  const files = globSync(`${EXAMPLES}/*.yaml`).map(file => [basename(file, '.yaml'), file] as const);
  for (const [name, values] of [['defaults', {}] as const, ...files, ...Object.entries(TABLE)]) {
    const objects = await renderChart(values);
    accepted.push(
      ...objects.filter(({ kind }) => !ON_HOST.includes(name) || !/Deployment|DaemonSet/.test(kind)),
    );
    (ON_HOST.includes(name) ? refused : accepted).push(podOf(name, objects));
  }
  const { code, stderr } = await dryRun(accepted);
  assert.deepEqual([code, stderr.replaceAll(/^Warning: resource .* is missing the .*$\n?/gm, '')], [0, '']);
  const other = await dryRun(refused);
  const names = [...other.stderr.matchAll(/pods "([\w-]+)" is forbidden: violates PodSecurity/g)];
  assert.deepEqual(names.map(([, name]) => name).toSorted(), ON_HOST);
  for (const name of [RELEASE, 'causeway-agent'])
    await server.kubectl('delete', 'serviceaccount', name, '-n', NAMESPACE);
});

async function release(command: string, values?: object): Promise<RunResult> {
  const args = [command, RELEASE, ...(command === 'uninstall' ? [] : [CHART])];
  return helm([...args, '--namespace', NAMESPACE, '--kubeconfig', admin], values);
}

async function installed(): Promise<Rendered[]> {
  const kinds =
    'deployments,daemonsets,services,secrets,configmaps,roles,serviceaccounts,poddisruptionbudgets';
  const selector = `app.kubernetes.io/instance=${RELEASE}`;
  const text = await server.kubectl('get', kinds, '-n', NAMESPACE, '-l', selector, '-o', 'json');
  return JSON.parse(text).items;
}

test('a release is installed, upgraded, rolled back and removed', { skip, timeout: 240_000 }, async () => {
  const api = { hosts: ['a.example.com'], backends: ['192.0.2.1:6443'] };
  const config = { clusters: [{ name: 'a', api }] };
  const ok = async (done: Promise<RunResult>) => {
    const { code, stdout, stderr } = await done;
    assert.equal(code, 0, stderr);
    return stdout.toString();
  };
  const notes = await ok(release('install', { config }));
  assert.match(notes, /kubectl --namespace gateways get service causeway$/m);
  assert.match(notes, /get secret causeway-admin -o jsonpath/);
  const first = await installed();
  const password = one(first, 'Secret').data.password;

  // A cluster more: the same password, and the same Pods, which read the new file.
  const sources = [{ services: { domains: ['x.example.com'], namespaces: [NAMESPACE] } }];
  const second = { config: { clusters: [...config.clusters, { name: 'b' }] } };
  await ok(release('upgrade', second));
  const afterEdit = await installed();
  assert.equal(one(afterEdit, 'Secret').data.password, password);
  assert.match(one(afterEdit, 'ConfigMap', RELEASE).data['causeway.yaml'], /name: b/);
  assert.equal(one(afterEdit, 'Deployment').metadata.generation, 1);

  // A source: its rights, and a token. Then another kind of workload.
  await ok(release('upgrade', { config: { sources }, replicas: 3 }));
  const withSource = await installed();
  assert.equal(one(withSource, 'Role').metadata.name, 'causeway:gateways.causeway');
  const { spec } = one(withSource, 'Deployment');
  assert.deepEqual([spec.replicas, spec.template.spec.automountServiceAccountToken], [3, true]);
  await ok(release('upgrade', { config, kind: 'DaemonSet' }));
  const asDaemon = await installed();
  assert.deepEqual(
    asDaemon.filter(({ kind }) => kind === 'Deployment' || kind === 'Role'),
    [],
  );
  one(asDaemon, 'DaemonSet');

  // A mistake changes nothing.
  const bad = await release('upgrade', { config: { clusters: [{ nmae: 'a' }] } });
  assert.notEqual(bad.code, 0);
  assert.match(bad.stderr, /at '\/config\/clusters\/0': additional properties 'nmae' not allowed/);
  one(await installed(), 'DaemonSet');

  await ok(helm(['rollback', RELEASE, '1', '--namespace', NAMESPACE, '--kubeconfig', admin]));
  const back = await installed();
  assert.equal(one(back, 'Deployment').spec.replicas, 2);
  assert.doesNotMatch(one(back, 'ConfigMap', RELEASE).data['causeway.yaml'], /name: b/);
  assert.equal(one(back, 'Secret').data.password, password);

  await ok(release('uninstall'));
  assert.deepEqual(await installed(), []);
});
