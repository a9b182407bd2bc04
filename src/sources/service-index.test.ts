import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { EndpointSlice, KubeObject } from '../kube/kube-object.ts';
import { keepService } from './kept-service.ts';
import { keepSlice } from './kept-slice.ts';
import { serviceFinding } from './service-finding.ts';
import { ServiceIndex } from './service-index.ts';
import type { FoundService, PortChoice } from './service-lookup.ts';
import { type SampleService, type SampleSlice, sampleService, sampleSlice } from './services.samples.ts';

/** Both by their names. */
function kept(services: readonly KubeObject[], slices: readonly EndpointSlice[]) {
  const key = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`;
  return [
    new Map(services.map(service => [key(service), keepService(service)])),
    new Map(slices.map(slice => [key(slice), keepSlice(slice)])),
  ] as const;
}

function find(
  service: SampleService['spec'],
  slices: readonly SampleSlice[],
  port: PortChoice = undefined,
  via: 'endpoints' | 'clusterIP' = 'endpoints',
): FoundService {
  const index = new ServiceIndex();
  const named = slices.map((slice, i) => sampleSlice('x', { name: `x-${i}`, ...slice }));
  index.update(...kept([sampleService('x', service === undefined ? {} : { spec: service })], named));
  return index.find('team-a', 'x', port, via);
}

function texts(found: FoundService): readonly string[] | string {
  return found.kind === 'found' ? found.backends.map(({ text }) => text) : found.kind;
}

test('ServiceIndex.find() has the ready endpoints of all slices, each once, sorted', () => {
  const found = find(undefined, [
    { ready: ['10.0.0.9', '10.0.0.10'], notReady: ['10.0.0.3'] },
    { ready: ['10.0.0.10', '10.0.0.2'] },
    { addressType: 'IPv6', ready: ['2001:DB8:0::1'] },
  ]);
  assert.deepEqual(texts(found), ['10.0.0.10:6443', '10.0.0.2:6443', '10.0.0.9:6443', '[2001:db8::1]:6443']);
  assert.ok(found.kind === 'found');
  assert.deepEqual(found.service, { namespace: 'team-a', name: 'x', port: 443 });
  assert.deepEqual(found.backends[3], { text: '[2001:db8::1]:6443', host: '2001:db8::1', port: 6443 });
});

test('ServiceIndex.find() uses a thousand endpoints of a Service, and a finding counts the rest', () => {
  const slices = Array.from({ length: 11 }, (_, i) => ({
    ready: Array.from({ length: 100 }, (__, j) => `10.0.${i}.${j}`),
  }));
  const found = find(undefined, slices);
  assert.ok(found.kind === 'found');
  assert.deepEqual([found.backends.length, found.leftOut], [1000, 100]);
  const finding = serviceFinding(found, { namespace: 'team-a', name: 'x', port: undefined, portFix: '' });
  assert.equal(finding?.code, 'TooManyEndpoints');
  assert.match(finding.text, /has 1100 endpoints, of which the first 1000 are used/);
});

test('ServiceIndex.find() has endpoints that are not ready only where none is', () => {
  const down = { ready: [], notReady: ['10.0.0.1', '10.0.0.2'] };
  assert.deepEqual(texts(find(undefined, [down])), ['10.0.0.1:6443', '10.0.0.2:6443']);
  assert.deepEqual(texts(find(undefined, [down, { ready: ['10.0.0.3'] }])), ['10.0.0.3:6443']);
  // Its Pod moves from one slice to another.
  assert.deepEqual(texts(find(undefined, [down, { ready: ['10.0.0.1'] }])), ['10.0.0.1:6443']);
});

test('ServiceIndex.find() counts an endpoint without conditions as ready', () => {
  const slice = {
    ...sampleSlice('x'),
    endpoints: [{ addresses: ['10.0.0.7'] }, { addresses: ['10.0.0.8'], conditions: { ready: true } }],
  };
  const index = new ServiceIndex();
  index.update(...kept([sampleService('x')], [slice]));
  assert.deepEqual(texts(index.find('team-a', 'x', 443, 'endpoints')), ['10.0.0.7:6443', '10.0.0.8:6443']);
});

test('ServiceIndex.find() ignores slices of names, of other Services and of other namespaces', () => {
  const index = new ServiceIndex();
  const { labels: _, ...metadata } = sampleSlice('x', { name: 'unlabelled' }).metadata;
  const slices = [
    sampleSlice('x', { name: 'fqdn', addressType: 'FQDN', ready: ['evil.example.com'] }),
    sampleSlice('x', { name: 'fqdn-with-address', addressType: 'FQDN', ready: ['10.0.0.1'] }),
    sampleSlice('x', { name: 'foreign', namespace: 'team-b' }),
    sampleSlice('y', { name: 'other' }),
    { ...sampleSlice('x'), metadata },
  ];
  index.update(...kept([sampleService('x')], slices));
  assert.deepEqual(texts(index.find('team-a', 'x', undefined, 'endpoints')), []);
});

test('ServiceIndex.find() takes the port of each slice by the name of the port of the Service', () => {
  const ports = [
    { name: 'a', port: 443 },
    { name: 'b', port: 8443 },
    { name: 'c', port: 8443, protocol: 'UDP' },
  ];
  const slices: SampleSlice[] = [
    {
      ready: ['10.0.0.1'],
      ports: [
        { name: 'b', port: 1001 },
        { name: 'a', port: 1000 },
      ],
    },
    // A named targetPort may differ from Pod to Pod.
    { ready: ['10.0.0.2'], ports: [{ name: 'b', port: 2001 }] },
    { ready: ['10.0.0.3'], ports: [{ name: 'b', port: 3001, protocol: 'UDP' }, { name: 'b' }] },
  ];
  assert.deepEqual(texts(find({ ports }, slices, 'b')), ['10.0.0.1:1001', '10.0.0.2:2001']);
  assert.deepEqual(texts(find({ ports }, slices, 443)), ['10.0.0.1:1000']);
});

test('ServiceIndex.find() chooses the port: as asked, the only one, https, api', () => {
  const named = (...names: readonly string[]) => ({ ports: names.map((name, i) => ({ name, port: i + 1 })) });
  const port = (spec: object, choice?: PortChoice) => {
    const found = find(spec as SampleService['spec'], [], choice);
    return found.kind === 'found' ? found.service.port : found;
  };
  assert.equal(port({ ports: [{ port: 6443 }] }), 6443);
  assert.equal(port({ ports: [{ port: 53, protocol: 'UDP' }, { port: 80 }] }), 80);
  assert.equal(port(named('x', 'api', 'https')), 3);
  assert.equal(port(named('x', 'api')), 2);
  assert.equal(port(named('x', 'y'), 'y'), 2);
  assert.equal(port(named('x', 'y'), 1), 1);
  assert.deepEqual(port(named('x', 'y')), { kind: 'no-port', ports: ['x (1)', 'y (2)'] });
  assert.deepEqual(port(named('x'), 'y'), { kind: 'no-port', ports: ['x (1)'] });
  assert.deepEqual(port({ ports: [{ port: 80 }] }, 443), { kind: 'no-port', ports: ['80'] });
  assert.deepEqual(port({ ports: [{ port: 53, protocol: 'UDP' }] }), { kind: 'no-port', ports: [] });
});

test('ServiceIndex.find() serves headless Services and Services without selector by their endpoints', () => {
  for (const spec of [{ clusterIPs: ['None'], clusterIP: 'None' }, { clusterIPs: [] }]) {
    assert.deepEqual(texts(find(spec, [{}])), ['10.0.0.1:6443']);
  }
});

test('ServiceIndex.find() has the ClusterIPs with the port of the Service', () => {
  const by = (spec: object) => find(spec as SampleService['spec'], [{}], undefined, 'clusterIP');
  assert.deepEqual(texts(by({ clusterIPs: ['10.96.0.1', 'fd00:0::1'] })), ['10.96.0.1:443', '[fd00::1]:443']);
  assert.deepEqual(texts(by({ clusterIPs: undefined, clusterIP: '10.96.0.2' })), ['10.96.0.2:443']);
  const headless = by({ clusterIPs: ['None'] });
  assert.ok(headless.kind === 'unusable');
  assert.match(headless.why, /headless.*via: endpoints/);
  for (const clusterIPs of [[], [''], ['nonsense'], 7]) {
    assert.deepEqual(by({ clusterIPs }), { kind: 'unusable', why: 'it has no ClusterIP' });
  }
});

test('ServiceIndex.find() refuses ExternalName, whatever slices and addresses it has', () => {
  const spec = { type: 'ExternalName', externalName: 'evil.example.com' };
  for (const via of ['endpoints', 'clusterIP'] as const) {
    assert.deepEqual(find(spec, [{}], undefined, via), { kind: 'unusable', why: 'its type is ExternalName' });
  }
});

test('ServiceIndex.find() gives the same object until the Service or its slices change in what counts', () => {
  const index = new ServiceIndex();
  const services = [sampleService('x'), sampleService('y')];
  const slices = [sampleSlice('x'), sampleSlice('y')];
  const ask = (name = 'x') => index.find('team-a', name, undefined, 'endpoints');
  index.update(...kept(services, slices));
  const [x, y] = [ask(), ask('y')];
  assert.equal(ask(), x);
  assert.notEqual(index.find('team-a', 'x', 443, 'clusterIP'), x);
  // Other references, the same content.
  index.update(...kept([sampleService('x', { labels: { a: 'b' } }), services[1]], slices));
  assert.equal(ask(), x);
  index.update(...kept(services, [sampleSlice('x', { ready: ['10.0.0.2'] }), slices[1]]));
  assert.deepEqual(texts(ask()), ['10.0.0.2:6443']);
  assert.equal(ask('y'), y);
  // The slice passes to another Service.
  index.update(...kept(services, [sampleSlice('y', { name: 'x-x', ready: ['10.0.0.3'] }), slices[1]]));
  assert.deepEqual([texts(ask()), texts(ask('y'))], [[], ['10.0.0.1:6443', '10.0.0.3:6443']]);
  index.update(...kept([], slices));
  assert.deepEqual(ask(), { kind: 'no-service' });
  index.update(...kept(services, []));
  assert.deepEqual(texts(ask()), []);
});

test('ServiceIndex.find() does not keep an answer for every port that was ever asked for', () => {
  const index = new ServiceIndex();
  index.update(...kept([sampleService('x')], [sampleSlice('x')]));
  const first = index.find('team-a', 'x', 443, 'endpoints');
  for (let port = 1000; port < 2000; port++) index.find('team-a', 'x', port, 'endpoints');
  const again = index.find('team-a', 'x', 443, 'endpoints');
  assert.deepEqual(again, first);
  assert.notEqual(again, first);
});

test('ServiceIndex.find() never throws, whatever the objects have', () => {
  const anything = fc.oneof(
    fc.anything(),
    fc.constantFrom('10.0.0.1', 'None', 443, 'TCP', 'IPv4', [], [null]),
  );
  const spec = fc.record({ type: anything, clusterIP: anything, clusterIPs: anything, ports: anything });
  const slice = fc.record({
    addressType: fc.oneof(anything, fc.constant('IPv4')),
    endpoints: fc.oneof(anything, fc.array(fc.record({ addresses: anything, conditions: anything }))),
    ports: fc.oneof(anything, fc.array(fc.record({ name: anything, port: anything, protocol: anything }))),
  });
  fc.assert(
    fc.property(fc.oneof(anything, spec), slice, anything, (given, sliced, labels) => {
      const service = { ...sampleService('x'), spec: given } as KubeObject;
      const own = { ...sampleSlice('x'), ...sliced } as EndpointSlice;
      const other = { ...own, metadata: { ...own.metadata, name: 'other', labels } } as EndpointSlice;
      const index = new ServiceIndex();
      index.update(...kept([service], [own, other]));
      for (const via of ['endpoints', 'clusterIP'] as const) index.find('team-a', 'x', undefined, via);
    }),
  );
});

test('ServiceIndex.find() depends on what is there, not on how it came about', () => {
  const names = fc.constantFrom('x', 'y');
  const address = fc.constantFrom('10.0.0.1', '10.0.0.2', '2001:db8::1');
  const sample = fc.record({
    services: fc.uniqueArray(names),
    slices: fc.uniqueArray(
      fc.tuple(names, fc.constantFrom('p', 'q', 'r'), fc.array(address), fc.array(address)),
      { selector: ([, name]) => name },
    ),
  });
  fc.assert(
    fc.property(fc.array(sample, { minLength: 1, maxLength: 6 }), steps => {
      const index = new ServiceIndex();
      const ask = (one: ServiceIndex) =>
        ['x', 'y'].map(name => one.find('team-a', name, undefined, 'endpoints'));
      for (const { services, slices } of steps) {
        const objects = kept(
          services.map(name => sampleService(name)),
          slices.map(([service, name, ready, notReady]) => sampleSlice(service, { name, ready, notReady })),
        );
        index.update(...objects);
        const fresh = new ServiceIndex();
        fresh.update(...objects);
        assert.deepEqual(ask(index), ask(fresh));
      }
    }),
  );
});
