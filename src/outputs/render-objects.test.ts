import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../config/read-config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { renderDnsEndpoints } from './render-dns-endpoint.ts';
import { type RouteFlags, type RouteTarget, renderObjects, routeTargets } from './render-objects.ts';

function config(clusters: string, rest = 'listen: [":443"]') {
  const read = readConfig(`${rest}\nclusters:\n${clusters}`, 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  return read.config;
}

const oneCluster = (backends: string, more = '') =>
  `- { name: a, api: { hosts: [api.a.lab], backends: ${backends}${more} } }`;

type Json = ReturnType<typeof JSON.parse>;

function render(target: RouteTarget, clusters: string, flags: RouteFlags = {}, rest?: string) {
  const { groups, notes } = renderObjects(target, config(clusters, rest), flags);
  const objects = groups.flatMap(group => group.objects) as Json[];
  const ofKind = (kind: string) => objects.filter(object => object.kind === kind);
  return { objects, ofKind, notes };
}

const nameOf = ({ kind, metadata: { name } }: KubeObject) => `${kind}/${name}`;

test('a route becomes a Service without a selector, EndpointSlices and one object that leads there', () => {
  const { objects, ofKind } = render(
    'ingress-route-tcp',
    oneCluster('["192.0.2.1:6443", "[2001:db8::1]:6443", "192.0.2.2:6444"]'),
  );
  assert.deepEqual(objects.map(nameOf), [
    'Service/a-api',
    'EndpointSlice/a-api-ipv4',
    'EndpointSlice/a-api-ipv6',
    'EndpointSlice/a-api-ipv4-6444',
    'IngressRouteTCP/a',
  ]);
  const [service] = ofKind('Service');
  assert.deepEqual(service.spec, {
    ipFamilyPolicy: 'PreferDualStack',
    ports: [{ name: 'tls', port: 6443, protocol: 'TCP' }],
  });
  const slices = ofKind('EndpointSlice').map(({ addressType, ports, endpoints }: Json) => [
    addressType,
    ports[0].name,
    ports[0].port,
    ...endpoints.flatMap(({ addresses }: Json) => addresses),
  ]);
  assert.deepEqual(slices, [
    ['IPv4', 'tls', 6443, '192.0.2.1'],
    ['IPv6', 'tls', 6443, '2001:db8::1'],
    ['IPv4', 'tls', 6444, '192.0.2.2'],
  ]);
  assert.deepEqual(ofKind('IngressRouteTCP')[0].spec.routes, [
    { match: 'HostSNI(`api.a.lab`)', services: [{ name: 'a-api', port: 6443 }] },
  ]);
});

test('a running gateway does not take the objects for its own', () => {
  for (const target of routeTargets) {
    for (const { metadata } of render(target, oneCluster('["192.0.2.1:1"]')).objects) {
      assert.equal(metadata.labels['app.kubernetes.io/managed-by'], 'causeway-render');
      assert.equal(metadata.labels['causeway.dev/instance'], undefined);
      assert.equal('namespace' in metadata, false);
    }
  }
});

test('--namespace is that of every object', () => {
  for (const target of routeTargets) {
    const { objects } = render(target, oneCluster('["192.0.2.1:1"]'), { namespace: 'edge' });
    assert.ok(objects.length >= 3);
    assert.ok(objects.every(({ metadata }) => metadata.namespace === 'edge'));
  }
});

test('addresses that Kubernetes refuses in an EndpointSlice are left out with a note', () => {
  const { ofKind, notes } = render('ingress', oneCluster('["127.0.0.1:1", "169.254.1.1:1", "192.0.2.1:1"]'));
  assert.deepEqual(ofKind('EndpointSlice')[0].endpoints, [
    { addresses: ['192.0.2.1'], conditions: { ready: true } },
  ]);
  assert.deepEqual(notes.slice(0, 2), [
    "cluster 'a', api: backend 127.0.0.1:1 is left out: Kubernetes refuses a loopback address in an EndpointSlice",
    "cluster 'a', api: backend 169.254.1.1:1 is left out: Kubernetes refuses a link-local address in an EndpointSlice",
  ]);
  const nothing = render('ingress', oneCluster('["127.0.0.1:1"]'));
  assert.deepEqual(nothing.objects, []);
  assert.match(nothing.notes.join('\n'), /cluster 'a', api: its hosts are left out: it has no backend/);
});

test('an address with several ports has a note, since not every controller uses them all', () => {
  const { ofKind, notes } = render('tls-route', oneCluster('["192.0.2.1:1", "192.0.2.1:2"]'));
  assert.equal(ofKind('EndpointSlice').length, 2);
  assert.match(notes.join('\n'), /api: 192\.0\.2\.1 has several ports: some controllers/);
});

test('a backend by name is an ExternalName Service where the controller serves one', () => {
  const one = render('ingress-route-tcp', oneCluster('["cp1.lab:6443", "cp2.lab:6443"]'));
  assert.deepEqual(one.ofKind('Service')[0].spec, {
    type: 'ExternalName',
    externalName: 'cp1.lab',
    ports: [{ name: 'tls', port: 6443, protocol: 'TCP' }],
  });
  assert.match(
    one.notes.join('\n'),
    /backend cp2\.lab:6443 is left out: an ExternalName Service has one name/,
  );
  assert.match(one.notes.join('\n'), /allowExternalNameServices=true/);
  for (const [target, flags] of [
    ['tls-route', {}],
    ['ingress', { flavor: 'nginx' }],
    ['ingress', { flavor: 'cilium' }],
  ] as const) {
    const { objects, notes } = render(target, oneCluster('["cp1.lab:6443"]'), flags);
    assert.deepEqual(objects, []);
    assert.match(notes.join('\n'), /its hosts are left out: cp1\.lab:6443 is a name, and /);
  }
  const mixed = render('tls-route', oneCluster('["192.0.2.1:1", "cp1.lab:6443"]'));
  assert.match(mixed.notes.join('\n'), /backend cp1\.lab:6443 is left out: an EndpointSlice has addresses/);
});

test('names are legal, and one for each route of each cluster', () => {
  const long = 'x'.repeat(63);
  const { ofKind } = render(
    'tls-route',
    `
- { name: 1a, api: { hosts: [1.lab], backends: ["192.0.2.1:1"] } }
- { name: a, routes: { b-api: { hosts: [2.lab], backends: ["192.0.2.1:1"] } } }
- { name: a-b, api: { hosts: [3.lab], backends: ["192.0.2.1:1"] } }
- { name: ${long}, api: { hosts: [4.lab], backends: ["192.0.2.1:1"] } }`,
  );
  const names = ofKind('Service').map(({ metadata }: Json) => metadata.name);
  assert.deepEqual(names.slice(0, 2), ['c-1a-api', 'a-b-api']);
  assert.match(names[2], /^a-b-api-[0-9a-f]{10}$/);
  assert.equal(new Set(names).size, 4);
  for (const name of names) assert.match(name, /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/);
  const routes = ofKind('TLSRoute').map(({ metadata, spec }: Json) => [
    metadata.name,
    spec.rules[0].backendRefs[0].name,
  ]);
  assert.deepEqual(
    routes,
    names.map((name: string) => [name, name]),
  );
});

test('each host of a TransportServer has an object, and all backends one port', () => {
  const { objects, notes } = render(
    'transport-server',
    '- { name: a, api: { hosts: [x.lab, y.lab], backends: ["192.0.2.1:1", "192.0.2.2:2"] } }',
    { className: 'nginx' },
  );
  const [, slice, first, second] = objects;
  assert.deepEqual([first.spec.host, second.spec.host], ['x.lab', 'y.lab']);
  assert.notEqual(first.metadata.name, second.metadata.name);
  assert.equal(first.spec.ingressClassName, 'nginx');
  assert.equal(slice.endpoints.length, 1);
  assert.match(notes.join('\n'), /left out: 192\.0\.2\.2 port 2: the controller takes one port/);
});

test('the Gateway has a listener for each port, and routes attach to those that may have them', () => {
  const clusters = `
- name: a
  api: { hosts: [api.lab], backends: ["192.0.2.1:6443"] }
  apps: { hosts: ["*.apps.lab"], https: ["192.0.2.2:443"], http: redirect }
  routes: { own: { hosts: [own.lab], backends: ["192.0.2.3:1"] } }`;
  const listen =
    'listen: [{ on: ":6443", only: [api] }, { on: ":443", only: [api, apps-https] }, ":80", { on: ":8080", only: [apps-http] }]';
  const { ofKind, notes } = render('tls-route', clusters, {}, listen);
  const [gateway] = ofKind('Gateway');
  assert.deepEqual(
    gateway.spec.listeners.map(({ name, port, tls }: Json) => [name, port, tls.mode]),
    [
      ['tls-6443', 6443, 'Passthrough'],
      ['tls-443', 443, 'Passthrough'],
    ],
  );
  const parents = ofKind('TLSRoute').map(({ spec }: Json) => [
    spec.hostnames[0],
    ...spec.parentRefs.map(({ name, sectionName }: Json) => `${name}/${sectionName ?? ''}`),
  ]);
  assert.deepEqual(parents, [
    ['api.lab', 'causeway/'],
    ['*.apps.lab', 'causeway/tls-443'],
  ]);
  assert.match(notes.join('\n'), /apps-http: the redirect to https is left out/);
  assert.match(notes.join('\n'), /own: its hosts are left out: no port of `listen` takes it/);
});

test('a Gateway that is named exists, and is printed only with a class', () => {
  const clusters = oneCluster('["192.0.2.1:1"]');
  const group = 'gateway.networking.k8s.io';
  const rest = 'listen: [":443"]\noutputs: [{ tlsRoute: { gateway: { name: shared, namespace: infra } } }]';
  const { ofKind, notes } = render('tls-route', clusters, {}, rest);
  assert.deepEqual(ofKind('Gateway'), []);
  assert.deepEqual(ofKind('TLSRoute')[0].spec.parentRefs, [
    { group, kind: 'Gateway', name: 'shared', namespace: 'infra' },
  ]);
  assert.match(notes[0], /^Gateway 'shared' must exist/);
  const printed = render('tls-route', clusters, { className: 'cilium', namespace: 'edge' }, rest);
  const [gateway] = printed.ofKind('Gateway');
  assert.deepEqual([gateway.metadata.namespace, gateway.spec.gatewayClassName], ['infra', 'cilium']);
  assert.equal(gateway.spec.listeners[0].allowedRoutes.namespaces.from, 'All');
  const other = render('tls-route', clusters, { gateway: { name: 'mine' }, apiVersion: 'v1alpha2' }, rest);
  assert.deepEqual(other.ofKind('TLSRoute')[0].spec.parentRefs, [{ group, kind: 'Gateway', name: 'mine' }]);
  assert.equal(other.ofKind('TLSRoute')[0].apiVersion, 'gateway.networking.k8s.io/v1alpha2');
});

test('options come from the flags, then from the output of the file', () => {
  const rest =
    'listen: [":1"]\noutputs: [{ ingress: { flavor: nginx, className: mine, annotations: { a/b: c } } }, { ingressRouteTCP: { entryPoints: [tls] } }]';
  const clusters = oneCluster('["192.0.2.1:1"]');
  const ingress = (flags: RouteFlags) => render('ingress', clusters, flags, rest).ofKind('Ingress')[0];
  assert.equal(ingress({}).spec.ingressClassName, 'mine');
  assert.deepEqual(ingress({}).metadata.annotations, {
    'nginx.ingress.kubernetes.io/ssl-passthrough': 'true',
    'a/b': 'c',
  });
  assert.equal(ingress({ className: 'x' }).spec.ingressClassName, 'x');
  assert.equal(ingress({ flavor: 'haproxy' }).spec.ingressClassName, 'haproxy');
  assert.deepEqual(ingress({ flavor: 'generic' }).metadata.annotations, undefined);
  const route = (flags: RouteFlags) =>
    render('ingress-route-tcp', clusters, flags, rest).ofKind('IngressRouteTCP')[0].spec.entryPoints;
  assert.deepEqual([route({}), route({ entryPoints: ['b'] })], [['tls'], ['b']]);
});

test('every key that the objects cannot express has a note', () => {
  const clusters = `
- name: a
  id: one
  allow: [10.0.0.0/8]
  limits: { connections: 1 }
  api: { hosts: [api.lab], backends: ["192.0.2.1:1"], proxyProtocol: v2, connect: [in.svc], allow: [10.1.0.0/16] }
  apps: { hosts: ["*.apps.lab"], https: ["192.0.2.1:1"], http: ["192.0.2.1:2"] }
  routes:
    oauth: { hosts: [api.lab, o.lab], backends: ["192.0.2.1:1"], alpn: [own] }
    rest: { hosts: ["*", r.lab], backends: ["192.0.2.1:1"] }`;
  const rest = `listen: [{ on: ":1", only: [api] }]
sources: [{ kamaji: {} }]
outputs: [{ transportServer: {} }, { transportServer: { className: b } }]`;
  assert.deepEqual(render('transport-server', clusters, {}, rest).notes, [
    "outputs has several entries 'transportServer': this is the first",
    "cluster 'a': leaves out '*.apps.lab': NGINX passes only exact hosts through",
    "cluster 'a': leaves out 'api.lab', 'o.lab': its route is selected by ALPN",
    "cluster 'a': agents cannot name it by its id: only causeway knows ids",
    "cluster 'a': its allow list is left out: restrict clients at the controller",
    "cluster 'a': its limits are left out: only causeway counts them",
    "cluster 'a', api: its allow list is left out: restrict clients at the controller",
    "cluster 'a', api: proxyProtocol: v2 is left out, and its backends expect that header",
    "cluster 'a', api: CONNECT names are left out: only causeway answers CONNECT",
    "cluster 'a', apps-http: cleartext HTTP is left out: these objects pass TLS through, and nothing else",
    "cluster 'a', rest: host '*' is left out: name its hosts",
    'listen: `only` is left out: every host is reachable at every entry point of the controller',
    'clusters that its sources bring are not among these objects',
    'health checks, balance, timeouts and retries are those of the controller',
  ]);
});

test('1,500 backends of a route are in two EndpointSlices', () => {
  const backends = Array.from({ length: 1500 }, (_, i) => `"10.0.${i >> 8}.${i & 255}:6443"`);
  const { ofKind } = render('ingress', oneCluster(`[${backends.join(', ')}]`));
  const slices = ofKind('EndpointSlice');
  assert.deepEqual(
    slices.map(({ endpoints }: Json) => endpoints.length),
    [1000, 500],
  );
  assert.equal(new Set(slices.map(nameOf)).size, 2);
});

test('a DNSEndpoint has a record for each host and family, and *.<id>.<zone> of the output', () => {
  const clusters = `
- { name: a, id: one, apps: { hosts: ["*.apps.lab"], https: ["192.0.2.1:1"] }, api: { hosts: [api.lab], backends: ["192.0.2.1:1"] } }
- { name: b, api: { hosts: [x.y.apps.lab], backends: ["192.0.2.1:1"] } }`;
  const rest =
    'listen: [":1"]\noutputs: [{ dnsEndpoint: { zone: z.lab, targets: ["192.0.2.7"], ttl: 30s } }]';
  const hidden = [{ name: 'y.apps.lab', because: 'x.y.apps.lab hides it from *.apps.lab' }];
  const request = { namespace: '', addresses: ['192.0.2.10', '2001:db8::1'], hidden };
  const { groups, notes } = renderDnsEndpoints(config(clusters, rest), request);
  const records = groups.map(({ objects: [object] }) =>
    (object as Json).spec.endpoints.map((each: Json) => [
      each.dnsName,
      each.recordType,
      each.recordTTL,
      ...each.targets,
    ]),
  );
  const both = (name: string) => [
    [name, 'A', 30, '192.0.2.10'],
    [name, 'AAAA', 30, '2001:db8::1'],
  ];
  assert.deepEqual(records, [
    [...both('api.lab'), ...both('*.apps.lab'), ...both('y.apps.lab'), ['*.one.z.lab', 'A', 30, '192.0.2.7']],
    both('x.y.apps.lab'),
  ]);
  assert.deepEqual(notes, [
    "cluster 'a': 'y.apps.lab' has a record too: x.y.apps.lab hides it from *.apps.lab",
  ]);
  const unknown = renderDnsEndpoints(config(clusters, rest), { ...request, addresses: [] });
  assert.equal(unknown.groups.length, 1);
  assert.match(unknown.notes.join('\n'), /hosts of the file are left out: give the addresses of the gateway/);
});
