import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster, Route } from '../cluster/cluster.ts';
import { nextSerial, type ServedNamesOptions, servedNames, servedZones } from './served-zones.ts';

const OPTIONS: ServedNamesOptions = {
  addresses: ['203.0.113.10'],
  targets: 'gateway',
  hosts: [],
  zones: [],
  nameServers: [],
  isPartial: false,
  ttl: 60,
  serial: 1,
};
const zonesFor = (clusters: readonly Cluster[], options: Partial<ServedNamesOptions> = {}) =>
  servedZones(servedNames(clusters, { ...OPTIONS, ...options })).zones;

function cluster(
  name: string,
  routes: Readonly<Record<string, readonly string[]>>,
  nodes?: string[],
): Cluster {
  return {
    name,
    routes: Object.entries(routes).map(([kind, hosts]) => ({ kind, hosts }) as Route),
    ...(nodes !== undefined && { controlPlane: { isPaused: false, nodes } }),
  } as unknown as Cluster;
}

/** Names without name servers, as `name address,address`. */
function served(clusters: readonly Cluster[], options: Partial<ServedNamesOptions> = {}) {
  return zonesFor(clusters, options).map(zone => [
    zone.name,
    ...zone.names
      .filter(({ name }) => !zone.nameServers.includes(name))
      .map(({ name, addresses }) => `${name} ${addresses.join()}`),
  ]);
}

const CLUSTERS = [
  cluster('one', { api: ['api.one.lab'], 'apps-https': ['*.one.lab'], 'apps-http': ['*.one.lab'] }, [
    '192.0.2.1',
    '2001:db8::1',
  ]),
  cluster('two', { api: ['api.two.lab'], 'apps-https': ['*.two.lab'] }, []),
  cluster('three', { api: ['*.three.lab'], 'apps-https': ['*.three.lab'] }, ['192.0.2.3']),
];

test('servedZones() leads every host to the gateway', () => {
  assert.deepEqual(served(CLUSTERS, { hosts: ['tunnel.lab'] }), [
    ['one.lab', '*.one.lab 203.0.113.10', 'api.one.lab 203.0.113.10'],
    ['three.lab', '*.three.lab 203.0.113.10'],
    ['tunnel.lab', 'tunnel.lab 203.0.113.10'],
    ['two.lab', '*.two.lab 203.0.113.10', 'api.two.lab 203.0.113.10'],
  ]);
});

test('servedZones() leads apps to the nodes of their cluster where they are known', () => {
  assert.deepEqual(served(CLUSTERS, { targets: 'nodes' }), [
    ['one.lab', '*.one.lab 192.0.2.1,2001:db8::1', 'api.one.lab 203.0.113.10'],
    ['three.lab', '*.three.lab 203.0.113.10'],
    ['two.lab', '*.two.lab 203.0.113.10', 'api.two.lab 203.0.113.10'],
  ]);
});

test('servedZones() has the zones and name servers that it is given', () => {
  const zones = zonesFor(CLUSTERS, {
    zones: ['lab', 'two.lab', 'empty.test'],
    nameServers: ['ns1.example.com'],
  });
  assert.deepEqual(
    zones.map(({ name, names, nameServers }) => [name, names.length, ...nameServers]),
    [
      ['empty.test', 0, 'ns1.example.com'],
      ['lab', 3, 'ns1.example.com'],
      ['two.lab', 2, 'ns1.example.com'],
    ],
  );
});

test('servedZones() names a server for each zone, unless it is a host', () => {
  const [zone] = zonesFor([cluster('x', { api: ['ns.x.lab', 'api.x.lab', '*'] })]);
  assert.deepEqual(zone.nameServers, ['ns.x.lab']);
  assert.deepEqual(zone.names.map(({ name }) => name).toSorted(), ['api.x.lab', 'ns.x.lab']);
});

test('nextSerial() grows, also within a second', () => {
  const now = nextSerial(0);
  assert.ok(now > 1_700_000_000 && nextSerial(now) > now);
  assert.equal(nextSerial(4_000_000_000), 4_000_000_001);
});
