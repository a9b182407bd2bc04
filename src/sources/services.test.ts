import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { memoryStore } from '../../testbed/memory-kube-api.ts';
import { testClock } from '../../testbed/test-clock.ts';
import type { Finding } from '../cluster/finding.ts';
import type { SourceOptions } from '../config/config.ts';
import { readConfig } from '../config/read-config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { endpointSlices, type Resource, services } from '../kube/resources.ts';
import { kubeWorld } from './contract/kube-world.ts';
import { type SampleService, sampleService, sampleSlice } from './services.samples.ts';
import { openServices } from './services.ts';
import { sourceContract } from './source.contract.ts';
import type { Observation } from './source.ts';

type Options = Partial<SourceOptions['services']>;

const OPTIONS = { domains: ['example.com'], via: 'endpoints' } as const;
const HOSTS = { hosts: 'x.example.com' };

async function given(objects: readonly KubeObject[], options: Options = {}) {
  const store = memoryStore(...objects);
  store.date = () => new Date('2026-01-01T00:00:00Z');
  const clock = testClock();
  const source = openServices(
    { ...OPTIONS, ...options },
    { name: 'services', folder: '/', kubeApi: () => store.client(), clock },
    () => {},
  );
  await clock.advance(0);
  return {
    store,
    clock,
    observe: () => source.observe(),
    [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
  };
}

/** One Service `team-a/x` with one endpoint. */
async function observed(service: SampleService, options: Options = {}): Promise<Observation> {
  await using one = await given([sampleService('x', service), sampleSlice('x')], options);
  return one.observe();
}

/** The only route of the only cluster. */
async function routeOf(annotations: Readonly<Record<string, string>>) {
  const { clusters } = await observed({ annotations: { ...HOSTS, ...annotations } });
  assert.equal(clusters.length, 1);
  return clusters[0].routes[0];
}

function codes(findings: readonly Finding[]): string[] {
  return findings.map(({ severity, code }) => `${severity} ${code}`);
}

test('openServices() makes a cluster of an annotated Service', async () => {
  const { clusters, findings } = await observed({ annotations: HOSTS });
  assert.deepEqual(findings, []);
  assert.deepEqual(clusters, [
    {
      name: 'team-a.x',
      origin: {
        source: 'services',
        object: {
          apiVersion: 'v1',
          kind: 'Service',
          namespace: 'team-a',
          name: 'x',
          uid: 'uid-x',
          createdAt: '2026-01-01T00:00:00Z',
        },
      },
      limits: {},
      identityRequired: false,
      routes: [
        {
          kind: 'api',
          hosts: ['x.example.com'],
          connect: [],
          alpn: [],
          proxyProtocol: 'none',
          redirect: false,
          pool: {
            backends: [{ text: '10.0.0.1:6443', host: '10.0.0.1', port: 6443 }],
            balance: 'source',
            health: { check: 'tls', everyMs: 5000, timeoutMs: 2000, rise: 2, fall: 3 },
          },
          service: { namespace: 'team-a', name: 'x', port: 443 },
        },
      ],
      controlPlane: { isPaused: false },
    },
  ]);
});

test('openServices() takes only Services with hosts or an id', async () => {
  const annotated = (name: string, annotations: Record<string, string>) =>
    sampleService(name, { annotations });
  await using one = await given([
    annotated('a', HOSTS),
    annotated('b', { id: 'b-1' }),
    annotated('c', { cluster: 'c', route: 'api', port: '443', allow: '10.0.0.0/8', paused: 'true' }),
    annotated('d', {}),
  ]);
  const { clusters, findings } = one.observe();
  assert.deepEqual(
    clusters.map(({ name }) => name),
    ['team-a.a', 'team-a.b'],
  );
  assert.deepEqual(codes(findings), ['error NoEndpoints', 'error NoEndpoints']);
});

test('openServices() reads every annotation', async () => {
  const annotations = {
    cluster: ' prod ',
    route: 'oauth',
    hosts: ' OAuth.Example.com. ,, *.x.example.com,oauth.example.com',
    port: 'https',
    allow: '10.0.0.0/8, 2001:db8::/32,192.0.2.1',
    id: 'Prod_1',
    paused: 'true',
  };
  const { clusters, findings } = await observed({ annotations });
  assert.deepEqual(findings, []);
  const [{ name, id, allow, routes, controlPlane }] = clusters;
  assert.deepEqual([name, id, allow, controlPlane], ['prod', 'Prod_1', undefined, { isPaused: true }]);
  assert.equal(routes[0].kind, 'oauth');
  assert.deepEqual(routes[0].hosts, ['oauth.example.com', '*.x.example.com']);
  assert.deepEqual(routes[0].allow, ['10.0.0.0/8', '2001:db8::/32', '192.0.2.1']);
});

test('openServices() gives a route the defaults that the file gives its kind', async () => {
  const backends = '["10.0.0.1:6443"]';
  const text = `listen: [":0"]
clusters:
  - name: x
    api: { hosts: [api.example.com], backends: ${backends} }
    konnectivity: { hosts: [konnectivity.example.com], backends: ${backends} }
    apps: { hosts: ["*.apps.example.com"], https: ${backends}, http: ${backends} }
    routes: { constructor: { hosts: [own.example.com], backends: ${backends} } }`;
  const read = readConfig(text, 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  const [{ routes }] = read.config.clusters;
  assert.equal(routes.length, 5);
  for (const expected of routes) {
    const { service, ...route } = await routeOf({ route: expected.kind, hosts: expected.hosts.join() });
    assert.deepEqual(route, expected);
    assert.equal(service?.port, 443);
  }
});

test('openServices() uses the ClusterIP where the file says so, and reads no slices', async () => {
  await using one = await given([sampleService('x', { annotations: HOSTS })], { via: 'clusterIP' });
  const { clusters, findings, complete } = one.observe();
  assert.deepEqual([findings, complete], [[], true]);
  assert.equal(clusters[0].routes[0].pool.backends[0].text, '10.96.0.1:443');
  await using without = await given([sampleService('x', { annotations: HOSTS })], { via: 'clusterIP' });
  const asked: string[] = [];
  without.store.fault = (_, plural) => void asked.push(plural);
  without.store.cutWatches();
  await without.clock.advance(10_000);
  assert.deepEqual(new Set(asked), new Set(['services']));
});

test('openServices() reads only the namespaces and labels of its options', async () => {
  const objects = ['a', 'b', 'c'].flatMap(namespace => [
    sampleService('x', { namespace, annotations: HOSTS, labels: { team: 'x' }, uid: `${namespace}-x` }),
    sampleService('y', { namespace, annotations: HOSTS, uid: `${namespace}-y` }),
    sampleSlice('x', { namespace }),
  ]);
  await using one = await given(objects, { namespaces: ['a', 'c'], selector: 'team=x' });
  const { clusters, findings } = one.observe();
  assert.deepEqual([clusters.map(({ name }) => name).toSorted(), findings], [['a.x', 'c.x'], []]);
});

test('openServices() serves a Service that is being deleted until it is gone', async () => {
  const held = sampleService('x', { annotations: HOSTS });
  const metadata = { ...held.metadata, finalizers: ['example.com/hold'] };
  await using one = await given([{ ...held, metadata }, sampleSlice('x')]);
  const before = one.observe().clusters;
  const api = one.store.client('test');
  const identity = { ...held, metadata: { name: 'x', namespace: 'team-a' } };
  assert.ok((await api.remove(services, identity)).ok);
  await one.clock.advance(0);
  assert.ok(one.store.peek('Service/team-a/x')?.metadata.deletionTimestamp);
  assert.equal(one.observe().clusters[0], before[0]);
  assert.ok((await api.merge(services, 'team-a', 'x', { metadata: { finalizers: null } })).ok);
  await one.clock.advance(0);
  assert.deepEqual(one.observe().clusters, []);
});

test('openServices() gives the same cluster where only our own status or a label changes', async () => {
  await using one = await given([sampleService('x', { annotations: HOSTS }), sampleSlice('x')]);
  const [before] = one.observe().clusters;
  const api = one.store.client('test');
  const status = { 'causeway.dev/status': '{"ready":true}' };
  assert.ok((await api.merge(services, 'team-a', 'x', { metadata: { annotations: status } })).ok);
  assert.ok((await api.merge(endpointSlices, 'team-a', 'x-x', { metadata: { labels: { a: 'b' } } })).ok);
  await one.clock.advance(0);
  assert.equal(one.observe().clusters[0], before);
  const hosts = { 'causeway.dev/hosts': 'y.example.com' };
  assert.ok((await api.merge(services, 'team-a', 'x', { metadata: { annotations: hosts } })).ok);
  await one.clock.advance(0);
  assert.deepEqual(one.observe().clusters[0].routes[0].hosts, ['y.example.com']);
});

test('openServices() shows no cluster before endpoints are listed, and none as complete', async () => {
  const objects = [sampleService('x', { annotations: HOSTS }), sampleSlice('x')];
  const store = memoryStore(...objects);
  const forbidden = { status: 403, reason: 'Forbidden', message: 'endpointslices is forbidden' };
  store.fault = (_, plural) => (plural === 'endpointslices' ? forbidden : undefined);
  const clock = testClock();
  const context = { name: 'services', folder: '/', kubeApi: () => store.client(), clock };
  await using source = openServices(OPTIONS, context, () => {});
  await clock.advance(60_000);
  const { clusters, findings, synced, complete, error } = source.observe();
  assert.deepEqual([clusters, findings, synced, complete], [[], [], false, false]);
  assert.equal(error, '403 Forbidden: endpointslices is forbidden');
  store.fault = undefined;
  await clock.advance(60_000);
  assert.deepEqual(
    source.observe().clusters.map(({ routes }) => routes[0].pool.backends.length),
    [1],
  );
});

/** What is wrong, the findings, and what is still served: hosts, backends, id, allow. */
const PROBLEMS: readonly {
  readonly title: string;
  readonly service: SampleService;
  readonly findings: readonly [code: string, text: RegExp][];
  readonly hosts?: readonly string[];
  readonly backends?: number;
}[] = [
  {
    title: 'a host that is not one',
    service: {
      annotations: { hosts: 'a b.example.com,x.example.com,https://y.example.com,z.example.com:443' },
    },
    findings: [
      [
        'error HostInvalid',
        /^Each entry of causeway.dev\/hosts must be a host name .*: current value is "a b.example.com"; also invalid: "https:\/\/y.example.com", "z.example.com:443"$/,
      ],
    ],
    hosts: ['x.example.com'],
  },
  {
    title: 'a host with control characters',
    service: { annotations: { hosts: 'a\0b.example.com\u202e' } },
    findings: [['error HostInvalid', /"a\\u0000b.example.com\\u202e"$/]],
    hosts: [],
  },
  {
    title: 'ten thousand hosts, none of them right',
    service: { annotations: { hosts: Array.from({ length: 10_000 }, (_, i) => `no host ${i}`).join() } },
    findings: [
      ['error HostInvalid', /"no host 0"; also invalid: "no host 1", "no host 2", 997 more$/],
      ['error HostInvalid', /more than 1000 hosts: the last 9000 are ignored/],
    ],
    hosts: [],
  },
  {
    title: 'ten thousand hosts',
    service: { annotations: { hosts: Array.from({ length: 10_000 }, (_, i) => `h${i}.example.com`).join() } },
    findings: [['error HostInvalid', /more than 1000 hosts: the last 9000 are ignored/]],
    hosts: Array.from({ length: 1000 }, (_, i) => `h${i}.example.com`),
  },
  {
    title: 'an annotation without a host',
    service: { annotations: { hosts: ' , ' } },
    findings: [
      ['error HostMissing', /^causeway.dev\/hosts has no host: no host or id leads to the route 'api'$/],
    ],
    hosts: [],
  },
  {
    title: 'an annotation without a host, beside an id',
    service: { annotations: { hosts: '', id: 'x' } },
    findings: [['warning HostMissing', /has no host: only the id leads to the route 'api'$/]],
    hosts: [],
  },
  {
    title: 'an id alone on a route that ids do not lead to',
    service: { annotations: { id: 'x', route: 'oauth' } },
    findings: [['error HostMissing', /is missing: no host or id leads to the route 'oauth'$/]],
    hosts: [],
  },
  {
    title: 'an id that is not one',
    service: { annotations: { ...HOSTS, id: 'a b' } },
    findings: [
      ['error AnnotationInvalid', /^causeway.dev\/id must be an id of 1 to 128 .*: current value is "a b"$/],
    ],
  },
  {
    title: 'an id of a megabyte',
    service: { annotations: { ...HOSTS, id: 'x'.repeat(1_000_000) } },
    findings: [['error AnnotationInvalid', /^.{1,300}$/]],
  },
  {
    title: 'an allow list with host bits',
    service: { annotations: { ...HOSTS, allow: '10.0.0.1/8' } },
    findings: [['warning AnnotationInvalid', /"10.0.0.1\/8" means 10.0.0.0\/8$/]],
  },
  {
    title: 'a port that is not there',
    service: { annotations: { ...HOSTS, port: '6443' } },
    findings: [['error PortMissing', /^Service 'team-a\/x' has no TCP port 6443; it has https \(443\)$/]],
    backends: 0,
  },
  {
    title: 'a port name that is not there',
    service: { annotations: { ...HOSTS, port: 'h"ttp\n' } },
    findings: [['error PortMissing', /has no TCP port "h\\"ttp"; it has https \(443\)$/]],
    backends: 0,
  },
  {
    title: 'several ports and no choice',
    service: {
      annotations: HOSTS,
      spec: { ports: Array.from({ length: 100 }, (_, i) => ({ name: `p${i}`, port: i + 1 })) },
    },
    findings: [
      [
        'error PortMissing',
        /has several TCP ports, none of them called https or api: p0 \(1\), .* and 90 more$/,
      ],
    ],
    backends: 0,
  },
  {
    title: 'ports of UDP only',
    service: { annotations: HOSTS, spec: { ports: [{ port: 443, protocol: 'UDP' }] } },
    findings: [['error PortMissing', /^Service 'team-a\/x' has no TCP port$/]],
    backends: 0,
  },
  {
    title: 'a port that no endpoint has',
    service: { annotations: HOSTS, spec: { ports: [{ name: 'web', port: 443 }] } },
    findings: [['error NoEndpoints', /^Service 'team-a\/x' has no endpoints for port 443$/]],
    backends: 0,
  },
  {
    title: 'ExternalName',
    service: { annotations: HOSTS, spec: { type: 'ExternalName', externalName: 'evil.example.com' } },
    findings: [['error BackendForbidden', /^Service 'team-a\/x' cannot be used: its type is ExternalName$/]],
    backends: 0,
  },
];

for (const { title, service, findings, hosts = ['x.example.com'], backends = 1 } of PROBLEMS) {
  test(`openServices() reports ${title}, and serves the rest`, async () => {
    const observation = await observed(service);
    assert.deepEqual(
      codes(observation.findings),
      findings.map(([code]) => code),
    );
    for (const [i, [, text]] of findings.entries()) assert.match(observation.findings[i].text, text);
    for (const { cluster, origin, fix } of observation.findings) {
      assert.deepEqual([cluster, origin?.object?.name, fix === ''], ['team-a.x', 'x', false]);
    }
    assert.equal(observation.clusters.length, 1);
    const [route] = observation.clusters[0].routes;
    assert.deepEqual([route.hosts, route.pool.backends.length], [hosts, backends]);
    assert.equal(observation.error, undefined);
  });
}

test('openServices() lets a bad allow list admit fewer, never more', async () => {
  const allowOf = async (allow: string) => {
    const { clusters, findings } = await observed({ annotations: { ...HOSTS, allow } });
    return [clusters[0].routes[0].allow, codes(findings)];
  };
  const bad = 'error AnnotationInvalid';
  assert.deepEqual(await allowOf('10.0.0.0/8,everybody,0.0.0.0/33'), [['10.0.0.0/8'], [bad]]);
  assert.deepEqual(await allowOf('everybody'), [[], [bad, bad]]);
  assert.deepEqual(await allowOf(''), [[], [bad]]);
  const many = Array.from({ length: 2000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
  assert.deepEqual(await allowOf(many.join()), [many.slice(0, 1000), [bad]]);
});

test('openServices() serves nothing of a Service whose cluster or route has no legal name', async () => {
  const names = [
    ['cluster', 'a.b.c'],
    ['cluster', ''],
    ['cluster', 'Prod'],
    ['cluster', 'x'.repeat(1000)],
    ['route', 'apps'],
    ['route', ''],
    ['route', 'a/b'],
    ['route', '__proto__'],
  ];
  for (const [key, value] of names) {
    const { clusters, findings } = await observed({ annotations: { ...HOSTS, [key]: value } });
    assert.deepEqual([clusters, codes(findings)], [[], ['error AnnotationInvalid']], value);
    assert.match(findings[0].text, new RegExp(`^causeway.dev/${key} must be .*: current value is "`));
    assert.deepEqual([findings[0].cluster, findings[0].origin?.object?.name], [undefined, 'x']);
  }
});

test('openServices() never throws, whatever an annotation says, and serves the others', async () => {
  const key = fc.constantFrom('cluster', 'route', 'hosts', 'port', 'allow', 'id', 'paused', 'unknown');
  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('*', '*.', '.', 'a..b', '::1', '-1', '0', '__proto__', 'constructor', ',,,', '1e3'),
  );
  await fc.assert(
    fc.asyncProperty(fc.dictionary(key, value), async annotations => {
      const bad = sampleService('bad', { annotations: { ...annotations } });
      const good = sampleService('good', { annotations: HOSTS });
      await using one = await given([bad, good, sampleSlice('good')]);
      const { clusters, error } = one.observe();
      assert.equal(error, undefined);
      assert.ok(clusters.some(({ name }) => name === 'team-a.good'));
    }),
    { numRuns: 100 },
  );
});

test('openServices() has the same clusters and findings whatever the order of events', async () => {
  const objects = [
    sampleService('a', { annotations: { ...HOSTS, cluster: 'shared' } }),
    sampleService('b', { annotations: { hosts: 'b.example.com', cluster: 'shared', route: 'oauth' } }),
    sampleService('c', { annotations: { hosts: 'c.example.com', port: 'none' } }),
    sampleSlice('a', { name: 'a-1', ready: ['10.0.0.2'] }),
    sampleSlice('a', { name: 'a-2', ready: ['10.0.0.1'], notReady: ['10.0.0.3'] }),
    sampleSlice('b', { ready: [], notReady: ['10.0.0.4'] }),
  ];
  const sorted = ({ clusters, findings }: Observation) => [
    clusters.map(each => JSON.stringify(each)).toSorted(),
    findings.map(each => JSON.stringify(each)).toSorted(),
  ];
  await using all = await given(objects);
  const expected = sorted(all.observe());
  const order = fc.shuffledSubarray([...objects, ...objects], { minLength: 2 * objects.length });
  await fc.assert(
    fc.asyncProperty(order, fc.infiniteStream(fc.boolean()), async (events, pauses) => {
      await using one = await given([]);
      const api = one.store.client('test');
      const there = new Set<KubeObject>();
      const resourceOf = ({ kind }: KubeObject) =>
        (kind === 'Service' ? services : endpointSlices) as Resource<KubeObject>;
      const identity = ({ apiVersion, kind, metadata: { name, namespace = '' } }: KubeObject) => ({
        apiVersion,
        kind,
        metadata: { name, namespace },
      });
      for (const object of events) {
        // The second time it is deleted and created again.
        if (there.has(object)) await api.remove(resourceOf(object), identity(object));
        there.add(object);
        if (pauses.next().value) await one.clock.advance(0);
        await api.create(resourceOf(object), object);
      }
      await one.clock.advance(0);
      assert.deepEqual(sorted(one.observe()), expected);
    }),
    { numRuns: 50 },
  );
});

const BROKEN: readonly KubeObject[] = [
  sampleService('broken-hosts', { annotations: { hosts: 'a b,\0,*.*,1.2.3.4' } }),
  sampleService('broken-route', { annotations: { ...HOSTS, route: 'apps', cluster: 'A.B.C' } }),
  sampleService('broken-spec', { annotations: { id: '' }, spec: { ports: 'none', clusterIPs: 7, type: {} } }),
  { ...sampleService('broken-all', { annotations: HOSTS }), spec: null } as KubeObject,
];

sourceContract('openServices()', () =>
  kubeWorld({
    open: openServices,
    options: OPTIONS,
    resource: services,
    clusterName: key => `team-a.${key}`,
    object: key => {
      // As users write them: uid and time come from the server.
      const { uid: _, creationTimestamp: __, ...metadata } = sampleService(key).metadata;
      const annotations = { 'causeway.dev/hosts': `${key}.example.com` };
      return { ...sampleService(key), metadata: { ...metadata, annotations } };
    },
    beside: key => [[endpointSlices, sampleSlice(key)]],
    change: { metadata: { annotations: { 'causeway.dev/hosts': 'changed.example.com' } } },
    broken: BROKEN,
  }),
);
