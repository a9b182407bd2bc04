import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { zonesOf } from './zones.ts';

test('zonesOf() finds the zones that do not reach beyond the hosts', () => {
  const hosts = [
    'api.hub.linuxera.lab',
    '*.apps.hub.linuxera.lab',
    'api.managed1.linuxera.lab',
    '*.k8s.example.com',
    '*.konnectivity.example.com',
    'one.k8s.example.org',
    'two.k8s.example.org',
    'lab.test',
    '*',
  ];
  assert.deepEqual(
    zonesOf(hosts).map(({ name, names }) => [name, names.map(({ owner }) => owner)]),
    [
      ['example.com', ['*.k8s', '*.konnectivity']],
      ['k8s.example.org', ['one', 'two']],
      ['lab.test', ['@']],
      ['linuxera.lab', ['api.hub', '*.apps.hub', 'api.managed1']],
    ],
  );
});

test('zonesOf() adds names that a host below hides from a wildcard (RFC 4592)', () => {
  const [{ names }] = zonesOf([
    '*.apps.lab.test',
    'a.b.apps.lab.test',
    'c.apps.lab.test',
    '*.d.apps.lab.test',
  ]);
  assert.deepEqual(
    names.map(({ name, because }) => [name, because]),
    [
      ['*.apps.lab.test', undefined],
      ['b.apps.lab.test', 'a.b.apps.lab.test hides it from *.apps.lab.test'],
      ['a.b.apps.lab.test', undefined],
      ['c.apps.lab.test', undefined],
      ['d.apps.lab.test', '*.d.apps.lab.test hides it from *.apps.lab.test'],
      ['*.d.apps.lab.test', undefined],
    ],
  );
});

test('every host is in exactly one zone, as owner and zone say', () => {
  const label = fc.constantFrom('a', 'b', 'api', 'apps');
  const host = fc
    .tuple(fc.boolean(), fc.array(label, { minLength: 2, maxLength: 5 }))
    .map(([isWildcard, labels]) => (isWildcard ? `*.${labels.join('.')}` : labels.join('.')));
  fc.assert(
    fc.property(fc.array(host, { maxLength: 12 }), hosts => {
      const zones = zonesOf(hosts);
      const named = zones.flatMap(zone =>
        zone.names.map(({ name, owner }) => {
          assert.equal(owner === '@' ? zone.name : `${owner}.${zone.name}`, name);
          return name;
        }),
      );
      assert.equal(new Set(named).size, named.length);
      for (const each of hosts) assert.ok(named.includes(each), each);
    }),
  );
});

test('zonesOf() puts hosts into the nearest of the zones that it is given', () => {
  const zones = zonesOf(
    ['api.a.lab.test', '*.lab.test', 'lab.test', 'x.other.test', 'xlab.test'],
    ['lab.test', 'a.lab.test', 'empty.test'],
  );
  assert.deepEqual(
    zones.map(({ name, names }) => [name, ...names.map(({ owner }) => owner)]),
    [['a.lab.test', 'api'], ['empty.test'], ['lab.test', '@', '*'], ['other.test', 'x'], ['xlab.test', '@']],
  );
});

test('zonesOf() never begins a zone with a wildcard', () => {
  assert.deepEqual(
    zonesOf(['*.lab']).map(({ name, names }) => [name, names[0].owner]),
    [['lab', '*']],
  );
});
