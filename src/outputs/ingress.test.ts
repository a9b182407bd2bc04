import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster, ControlPlane } from '../cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { type IngressFlavor, type IngressOptions, ingressFlavors } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { plan } from '../plan/plan.ts';
import { newIngress } from './ingress.ts';
import { outputContract } from './output.contract.ts';
import { tenant } from './outputs.samples.ts';

function desired(options: Partial<IngressOptions>, ...clusters: readonly Cluster[]) {
  const output = newIngress('ingress', { flavor: 'haproxy', annotations: {}, ...options });
  return output.desired(plan(clusters));
}

function only(options: Partial<IngressOptions>, cluster: Cluster) {
  const { objects, findings } = desired(options, cluster);
  assert.equal(objects.length, 1);
  assert.deepEqual(findings, []);
  return objects[0].object as KubeObject & {
    spec: { ingressClassName?: string; rules: { host: string }[]; routes: object[]; entryPoints: string[] };
  };
}

const ofSteward = (ingress: ControlPlane['ingress']) =>
  tenant('steward.butlerlabs.dev/v1alpha1', 'a', 'b', {
    controlPlane: { isPaused: false, ...(ingress && { ingress }) },
  });

for (const flavor of ingressFlavors) {
  outputContract(`ingress of flavor ${flavor}`, () => newIngress('ingress', { flavor, annotations: {} }));
}

test('newIngress() writes the Ingress of Kamaji’s addon, exactly', () => {
  const cluster = tenant('kamaji.clastix.io/v1alpha1', 'apezzuto', 'tenant-00', {
    controlPlane: { isPaused: false, ingress: { className: 'unhandled', annotations: { their: 'own' } } },
  });
  for (const flavor of ['haproxy', 'fromCluster'] as const) {
    const { metadata, ...object } = only({ flavor }, cluster);
    assert.deepEqual(object, {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      spec: {
        ingressClassName: 'haproxy',
        rules: [
          {
            host: 'apezzuto-tenant-00.k8s.clastix.cloud',
            http: {
              paths: [
                {
                  backend: { service: { name: 'tenant-00', port: { number: 6443 } } },
                  path: '/',
                  pathType: 'Prefix',
                },
              ],
            },
          },
          {
            host: 'apezzuto-tenant-00.konnectivity.clastix.cloud',
            http: {
              paths: [
                {
                  backend: { service: { name: 'tenant-00', port: { number: 8132 } } },
                  path: '/',
                  pathType: 'Prefix',
                },
              ],
            },
          },
        ],
      },
    });
    assert.equal(metadata.namespace, 'apezzuto');
    assert.deepEqual(metadata.annotations, { 'haproxy.org/ssl-passthrough': 'true' });
    assert.match(metadata.name, /^apezzuto-tenant-00-[0-9a-f]{10}$/);
  }
});

test('newIngress() has the class and the annotation of each flavor, unless the file says otherwise', () => {
  const cases: Readonly<Record<Exclude<IngressFlavor, 'fromCluster'>, [string | undefined, object]>> = {
    haproxy: ['haproxy', { 'haproxy.org/ssl-passthrough': 'true' }],
    'haproxy-ingress': ['haproxy', { 'haproxy-ingress.github.io/ssl-passthrough': 'true' }],
    nginx: ['nginx', { 'nginx.ingress.kubernetes.io/ssl-passthrough': 'true' }],
    cilium: ['cilium', { 'ingress.cilium.io/tls-passthrough': 'enabled' }],
    generic: [undefined, {}],
  };
  for (const [flavor, [className, annotations]] of Object.entries(cases)) {
    const given = { flavor: flavor as IngressFlavor };
    const byDefault = only(given, ofSteward(undefined));
    assert.equal(byDefault.spec.ingressClassName, className, flavor);
    assert.deepEqual(byDefault.metadata.annotations, annotations, flavor);
    const chosen = only({ ...given, className: 'own', annotations: { more: '1' } }, ofSteward(undefined));
    assert.equal(chosen.spec.ingressClassName, 'own', flavor);
    assert.deepEqual(chosen.metadata.annotations, { ...annotations, more: '1' }, flavor);
  }
});

test('newIngress() follows the controllerType, class and annotations of each tenant', () => {
  const flavor = 'fromCluster';
  const annotations = { team: 'a', 'causeway.dev/source': 'file', 'x.causeway.dev/y': 'z' };
  const nginx = only({ flavor }, ofSteward({ controllerType: 'nginx', className: 'edge', annotations }));
  assert.equal(nginx.kind, 'Ingress');
  assert.equal(nginx.spec.ingressClassName, 'edge');
  assert.deepEqual(nginx.metadata.annotations, {
    'nginx.ingress.kubernetes.io/ssl-passthrough': 'true',
    team: 'a',
  });

  const generic = only({ flavor }, ofSteward({ className: 'edge', annotations }));
  assert.deepEqual(generic.metadata.annotations, { team: 'a' });
  assert.equal(generic.spec.ingressClassName, 'edge');
  assert.equal(only({ flavor }, ofSteward(undefined)).spec.ingressClassName, undefined);

  const traefik = only({ flavor }, ofSteward({ controllerType: 'traefik', className: 'edge', annotations }));
  assert.equal(traefik.kind, 'IngressRouteTCP');
  assert.deepEqual(traefik.metadata.annotations, { 'kubernetes.io/ingress.class': 'edge', team: 'a' });
  assert.deepEqual(traefik.spec.entryPoints, ['websecure']);
  assert.equal(traefik.spec.routes.length, 2);

  for (const controllerType of ['envoy', 'constructor', '__proto__', 'x'.repeat(1e6)]) {
    const { objects, findings } = desired({ flavor }, ofSteward({ controllerType, annotations: {} }));
    assert.deepEqual(objects, []);
    assert.deepEqual(
      findings.map(({ code, cluster }) => [code, cluster]),
      [['OutputRejected', 'a.b']],
    );
    assert.ok(findings[0].text.length < 200);
  }
});

test('newIngress() leaves out what an Ingress cannot express, with one finding for each reason', () => {
  const service = { namespace: 'a', name: 'b', port: 6443 };
  const many = Array.from({ length: 10_000 }, (_, i) => `h${i}_x.lab`);
  const routes = [
    sampleRoute({
      hosts: ['api.lab', '*.apps.lab', ...many, 'a`b.lab', 'a b.lab', 'x\0.lab', '*', ''],
      service,
    }),
    sampleRoute({ kind: 'apps-http', hosts: ['web.lab'], service }),
    sampleRoute({ kind: 'own', hosts: ['api.lab', 'own.lab'], service }),
    sampleRoute({ kind: 'alpn', hosts: ['alpn.lab'], alpn: ['h2'], service }),
    sampleRoute({ kind: 'file', hosts: ['file.lab'] }),
  ];
  const output = newIngress('ingress', { flavor: 'nginx', annotations: {} });
  const clusters = [sampleCluster('c', { routes })];
  const { objects, findings } = output.desired({ clusters, findings: [], counts: plan([]).counts });
  const { spec } = objects[0].object as unknown as { spec: { rules: { host: string }[] } };
  assert.deepEqual(
    spec.rules.map(({ host }) => host),
    ['api.lab', 'own.lab'],
  );
  assert.deepEqual(
    findings.map(({ code, text }) => `${code} ${text}`),
    [
      "OutputRejected output 'ingress' leaves out '*.apps.lab': ingress-nginx passes only exact hosts through",
      "OutputRejected output 'ingress' leaves out 'h0_x.lab', 'h1_x.lab', 'h2_x.lab' and 9997 more: an Ingress allows no '_' in hosts",
      "OutputRejected output 'ingress' leaves out 'a`b.lab', 'a b.lab', 'x\0.lab' and 2 more: not a host name",
      "OutputRejected output 'ingress' leaves out 'api.lab': another route of the cluster has the same host",
      "OutputRejected output 'ingress' leaves out 'alpn.lab': its route is selected by ALPN",
    ],
  );
});

test('newIngress() writes one Ingress for each namespace of a cluster', () => {
  const routes = ['a', 'b', 'a'].map((namespace, i) =>
    sampleRoute({ kind: `r${i}`, hosts: [`h${i}.lab`], service: { namespace, name: 's', port: 1 } }),
  );
  const { objects } = desired({}, sampleCluster('c', { routes }));
  assert.deepEqual(
    objects.map(({ object }) => [
      object.metadata.namespace,
      (object as unknown as { spec: { rules: { host: string }[] } }).spec.rules.map(({ host }) => host),
    ]),
    [
      ['a', ['h0.lab', 'h2.lab']],
      ['b', ['h1.lab']],
    ],
  );
});

test('newIngress() warns where a cluster has an allow list, which the controller does not know', () => {
  const cluster = { ...tenant('kamaji.clastix.io/v1alpha1', 'a', 'b'), allow: ['10.0.0.0/8'] };
  const { objects, findings } = desired({}, cluster);
  assert.equal(objects.length, 1);
  assert.deepEqual(
    findings.map(({ code, severity, origin }) => [code, severity, origin?.object?.name]),
    [['AllowListIgnored', 'warning', 'b']],
  );
});

test('newIngress() makes only the objects of changed clusters anew', () => {
  const clusters = Array.from({ length: 10_000 }, (_, i) =>
    tenant('kamaji.clastix.io/v1alpha1', `n${i % 100}`, `t${i}`),
  );
  const output = newIngress('ingress', { flavor: 'haproxy', annotations: {} });
  const planned = plan(clusters);
  const first = output.desired(planned);
  assert.equal(first.objects.length, 10_000);
  const changed = tenant('kamaji.clastix.io/v1alpha1', 'n0', 't0', { id: 'other' });
  const second = output.desired(plan([changed, ...clusters.slice(1)]));
  const before = new Set(first.objects);
  assert.equal(second.objects.filter(each => !before.has(each)).length, 1);
});
