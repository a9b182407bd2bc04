import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { type Plan, plan } from '../plan/plan.ts';
import { outputContract } from './output.contract.ts';
import { tenant } from './outputs.samples.ts';
import { newTlsRoute, tlsRoutes } from './tls-route.ts';
import { bed, codesOf, INSTANCE } from './write-objects.samples.ts';

const KAMAJI = 'kamaji.clastix.io/v1alpha1';
const newOutput = () => newTlsRoute('tlsRoute', { gateway: { name: 'shared', namespace: 'infra' } });
const service = { namespace: 'a', name: 'b', port: 443 };
const planned = (...clusters: Plan['clusters']): Plan => ({ ...plan([]), clusters });

outputContract('tlsRoute', newOutput);

test('newTlsRoute() has an object for each route, with the Gateway as its parent', () => {
  const gateway = { name: 'shared', namespace: 'infra', sectionName: 'tls' };
  const { objects, findings } = newTlsRoute('tlsRoute', { gateway }).desired(
    plan([tenant(KAMAJI, 'a', 'b')]),
  );
  assert.deepEqual(findings, []);
  assert.deepEqual(
    objects.map(({ object: { metadata, ...rest } }) => [metadata.namespace, rest]),
    [
      ['a-b.k8s.clastix.cloud', 6443],
      ['a-b.konnectivity.clastix.cloud', 8132],
    ].map(([host, port]) => [
      'a',
      {
        apiVersion: 'gateway.networking.k8s.io/v1',
        kind: 'TLSRoute',
        spec: {
          parentRefs: [{ name: 'shared', namespace: 'infra', sectionName: 'tls' }],
          hostnames: [host],
          rules: [{ backendRefs: [{ name: 'b', port }] }],
        },
      },
    ]),
  );
  assert.match(objects[0].object.metadata.name, /^a-b-api-[0-9a-f]{10}$/);
  assert.match(objects[1].object.metadata.name, /^a-b-konnectivity-[0-9a-f]{10}$/);
});

test('newTlsRoute() looks for the Gateway beside the route where it has no namespace', () => {
  const { objects } = newTlsRoute('tlsRoute', { gateway: { name: 'own' } }).desired(
    plan([tenant(KAMAJI, 'a', 'b')]),
  );
  const { spec } = objects[0].object as unknown as { spec: { parentRefs: object[] } };
  assert.deepEqual(spec.parentRefs, [{ name: 'own' }]);
});

test('newTlsRoute() divides many hosts among several objects', () => {
  const hosts = Array.from({ length: 40 }, (_, i) => `h${i}.lab`);
  const { objects } = newOutput().desired(
    planned(sampleCluster('c', { routes: [sampleRoute({ hosts, service })] })),
  );
  const parts = objects.map(
    ({ object }) => (object as unknown as { spec: { hostnames: string[] } }).spec.hostnames,
  );
  assert.deepEqual(
    parts.map(({ length }) => length),
    [16, 16, 8],
  );
  assert.deepEqual(parts.flat(), hosts);
  assert.equal(new Set(objects.map(({ object }) => object.metadata.name)).size, 3);
});

test('newTlsRoute() warns of wildcards, which match more there', () => {
  const routes = [sampleRoute({ kind: 'apps-https', hosts: ['*.apps.lab', 'x.lab'], service })];
  const { objects, findings } = newOutput().desired(planned(sampleCluster('c', { routes })));
  assert.equal(objects.length, 1);
  assert.deepEqual(
    findings.map(({ cluster, severity, code }) => [cluster, severity, code]),
    [['c', 'warning', 'WildcardWider']],
  );
  assert.match(findings[0].text, /'\*\.apps\.lab'.* 'a\.b\.apps\.lab'/);
});

test('newTlsRoute() has no object for hosts that are none', () => {
  const hosts = ['*', '*.', '*.*.lab', '192.0.2.1', '', 'a_b.lab', 'a b'];
  const { objects, findings } = newOutput().desired(
    planned(sampleCluster('c', { routes: [sampleRoute({ hosts, service })] })),
  );
  assert.deepEqual(objects, []);
  assert.deepEqual(
    findings.map(({ code }) => code),
    ['OutputRejected', 'OutputRejected'],
  );
});

const definition = (...versions: readonly string[]) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'tlsroutes.gateway.networking.k8s.io' },
  spec: {
    group: tlsRoutes.group,
    scope: 'Namespaced',
    names: { plural: tlsRoutes.plural, kind: tlsRoutes.kind },
    versions: versions.map(name => ({ name, served: true })),
  },
});

for (const versions of [['v1'], ['v1alpha3', 'v1alpha2'], ['v1alpha2']]) {
  test(`TLSRoutes are written as ${versions[0]} where ${versions} are served, and what the Gateway says is a finding`, async () => {
    const { replica, settle, store } = bed(definition(...versions));
    const resource = { ...tlsRoutes, version: versions[0] };
    const api = store.client('gateway');
    await using one = replica();
    const { routes, ...rest } = tenant(KAMAJI, 'tenants', 'a');
    one.write([{ ...rest, routes: routes.slice(0, 1) }], {}, newOutput());
    await settle();
    const listed = await api.list(resource, {});
    assert.ok(listed.ok);
    const [written] = listed.value.items;
    assert.equal(written.apiVersion, `gateway.networking.k8s.io/${versions[0]}`);
    assert.equal(written.metadata.labels?.['causeway.dev/instance'], INSTANCE);
    assert.deepEqual(codesOf(one), []);

    const report = async (status: 'True' | 'False') => {
      const { namespace, name } = written.metadata;
      const parentRef = { name: 'shared', namespace: 'infra' };
      const condition = { type: 'Accepted', status, reason: 'NotAllowedByListeners', message: 'no listener' };
      const patch = { status: { parents: [{ parentRef, conditions: [condition] }] } };
      assert.ok((await api.merge(resource, namespace, name, patch)).ok);
      await settle();
    };
    await report('False');
    assert.deepEqual(codesOf(one), ['tenants.a OutputRejected']);
    const [{ text, fix, origin }] = one.writer.findings();
    assert.match(
      text,
      /^TLSRoute 'tenants\/.*': Gateway 'infra\/shared' does not accept it: NotAllowedByListeners: no listener$/,
    );
    assert.match(fix, /allowedRoutes/);
    assert.equal(origin?.object?.name, 'a');
    await report('True');
    assert.deepEqual(codesOf(one), []);
  });
}
