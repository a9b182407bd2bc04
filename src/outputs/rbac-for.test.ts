import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../config/read-config.ts';
import { rbacFor, type ServerRbac } from './rbac-for.ts';

/** As `namespace (or *) group/resource[/name]: verbs`, one line per rule. */
function rightsOf({ objects }: ServerRbac): string[] {
  return objects.flatMap(({ metadata: { namespace = '*' }, rules = [] }) =>
    rules.flatMap(({ apiGroups, resources, resourceNames = [], verbs }) => {
      const name = [...apiGroups, ...resources, ...resourceNames].join('/');
      return `${namespace} ${name}: ${verbs.join(' ')}`;
    }),
  );
}

function given(yaml: string): readonly ServerRbac[] {
  const read = readConfig(`listen: [":6443"]\n${yaml}`, 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  return rbacFor(read.config);
}

test('rbacFor() needs nothing for a file, a directory, or DNS of our own', () => {
  assert.deepEqual(given('clusters: []'), []);
  assert.deepEqual(given('sources: [directory: { path: x }]'), []);
  assert.deepEqual(given('outputs: [dnsServer: { on: ":53", addresses: [192.0.2.1] }]'), []);
});

test('rbacFor() covers the whole cluster where a source has no namespaces', () => {
  const [server] = given('sources: [kamaji: {}]');
  assert.deepEqual(rightsOf(server), [
    '* kamaji.clastix.io/tenantcontrolplanes: get list watch patch',
    '* apiextensions.k8s.io/customresourcedefinitions/tenantcontrolplanes.kamaji.clastix.io: get',
    '* /services: get list watch',
    '* events.k8s.io/events: create',
    '* discovery.k8s.io/endpointslices: get list watch',
    'causeway-system coordination.k8s.io/leases: create',
    'causeway-system coordination.k8s.io/leases/causeway: get update',
  ]);
  assert.deepEqual(server.notes, []);
});

test('rbacFor() lets Kubermatic tell Services, and read one Secret of each cluster only where nodes are followed', () => {
  const secrets = (yaml: string) => rightsOf(given(yaml)[0]).filter(line => line.includes('secrets'));
  const [server] = given('sources: [kubermatic: { zone: apps.example }]');
  assert.deepEqual(rightsOf(server), [
    '* kubermatic.k8c.io/clusters: get list watch patch',
    '* apiextensions.k8s.io/customresourcedefinitions/clusters.kubermatic.k8c.io: get',
    '* /services: get list watch patch',
    '* events.k8s.io/events: create',
    '* /services/status: patch',
    '* discovery.k8s.io/endpointslices: get list watch',
    '* /secrets/admin-kubeconfig: get',
    'causeway-system coordination.k8s.io/leases: create',
    'causeway-system coordination.k8s.io/leases/causeway: get update',
  ]);
  assert.deepEqual(secrets('sources: [kubermatic: {}]'), []);
  const dns = (targets: string) =>
    secrets(`sources: [kubermatic: {}]\noutputs: [dnsEndpoint: { zone: a.example, targets: ${targets} }]`);
  assert.deepEqual(dns('nodes'), ['* /secrets/admin-kubeconfig: get']);
  assert.deepEqual(dns('[192.0.2.1]'), []);
});

test('rbacFor() stays within namespaces, and patches only what is annotated or fixed', () => {
  const [server] = given(`
lease: { name: l, namespace: n }
statusAnnotation: false
sources: [kamaji: { namespaces: [a, b], via: clusterIP }, steward: { namespaces: [b], via: clusterIP, fix: true }]`);
  assert.deepEqual(rightsOf(server), [
    '* apiextensions.k8s.io/customresourcedefinitions/tenantcontrolplanes.kamaji.clastix.io: get',
    '* apiextensions.k8s.io/customresourcedefinitions/tenantcontrolplanes.steward.butlerlabs.dev: get',
    'a kamaji.clastix.io/tenantcontrolplanes: get list watch',
    'a /services: get list watch',
    'a events.k8s.io/events: create',
    'b kamaji.clastix.io/tenantcontrolplanes: get list watch',
    'b /services: get list watch',
    'b events.k8s.io/events: create',
    'b steward.butlerlabs.dev/tenantcontrolplanes: get list watch patch',
    'n coordination.k8s.io/leases: create',
    'n coordination.k8s.io/leases/l: get update',
  ]);
});

test('rbacFor() grants once what one source needs everywhere and another in a namespace', () => {
  const [server] = given('sources: [kamaji: {}, services: { domains: [x.lab], namespaces: [a] }]');
  assert.deepEqual(
    rightsOf(server).filter(right => right.startsWith('a ')),
    ['a /services: patch', 'a /services/status: patch'],
  );
});

test('rbacFor() lets outputs write where clusters may be, and reads Secrets only to enter tenants', () => {
  const [server] = given(`
sources: [kamaji: { namespaces: [a] }, services: { domains: [x.lab], namespaces: [b] }]
outputs: [ingress: { flavor: fromCluster }, tenantAgent: { gateway: "gw.lab:443" }]`);
  const rights = rightsOf(server);
  for (const namespace of ['a', 'b']) {
    for (const resource of ['networking.k8s.io/ingresses', 'traefik.io/ingressroutetcps'])
      assert.ok(rights.includes(`${namespace} ${resource}: get list watch create patch delete`), resource);
  }
  assert.deepEqual(
    rights.filter(right => right.includes('secrets')),
    ['a /secrets: get'],
  );
  assert.match(server.notes.join(' '), /every Secret of its namespaces/);
  assert.ok(
    rights.includes('* apiextensions.k8s.io/customresourcedefinitions/ingressroutetcps.traefik.io: get'),
  );
});

test('rbacFor() lets the DNSEndpoints of files be written in the namespace of the lease', () => {
  const dns = 'dnsEndpoint: { zone: a.example, targets: [192.0.2.1] }';
  const write = 'get list watch create patch delete';
  const [alone, ...others] = given(`outputs: [${dns}]`);
  assert.deepEqual(others, []);
  assert.deepEqual(rightsOf(alone), [
    '* apiextensions.k8s.io/customresourcedefinitions/dnsendpoints.externaldns.k8s.io: get',
    'causeway-system coordination.k8s.io/leases: create',
    'causeway-system coordination.k8s.io/leases/causeway: get update',
    `causeway-system externaldns.k8s.io/dnsendpoints: ${write}`,
  ]);
  const [server] = given(
    `sources: [services: { domains: [x.lab], namespaces: [b] }]\noutputs: [${dns}, ingress: {}]`,
  );
  // All outputs of a server look at the same namespaces.
  for (const resource of ['externaldns.k8s.io/dnsendpoints', 'networking.k8s.io/ingresses']) {
    for (const namespace of ['b', 'causeway-system'])
      assert.ok(rightsOf(server).includes(`${namespace} ${resource}: ${write}`), `${namespace} ${resource}`);
  }
});

test('rbacFor() has objects of their own for each API server', () => {
  const servers = given(`
sources: [steward: { kubeconfig: ./b, context: c }, kamaji: {}, services: { domains: [x.lab] }]`);
  assert.equal(servers.length, 2);
  assert.deepEqual(
    servers.map(({ objects }) => objects[0].metadata.name),
    ['causeway:causeway-system.causeway', 'causeway:causeway-system.causeway:2'],
  );
  assert.match(servers[1].notes[0], /kubeconfig ".\/b", context "c"/);
  assert.equal(
    rightsOf(servers[0]).some(right => right.includes('steward')),
    false,
  );
});

test('rbacFor() binds every role to ServiceAccount causeway in the namespace of the lease', () => {
  const [{ objects }] = given('lease: { name: l, namespace: n }\nsources: [kamaji: { namespaces: [a] }]');
  const bindings = objects.filter(({ kind }) => kind.endsWith('Binding'));
  assert.equal(bindings.length, objects.length / 2);
  for (const { subjects, roleRef, kind, metadata } of bindings) {
    assert.deepEqual(subjects, [{ kind: 'ServiceAccount', name: 'causeway', namespace: 'n' }]);
    const role = objects.find(
      each => each.kind === roleRef?.kind && each.metadata.namespace === metadata.namespace,
    );
    assert.equal(role?.metadata.name, roleRef?.name);
    assert.equal(kind, `${role?.kind}Binding`);
  }
});
