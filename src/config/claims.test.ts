// mistakes.test.ts covers each conflict with its message and position; this file covers scale and properties.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { checkClaims } from './claims.ts';
import { formatPath, type Path } from './mistake.ts';

function conflicts(data: unknown): readonly string[] {
  const found: string[] = [];
  checkClaims(data, formatPath, (path: Path, text: string) => found.push(`${formatPath(path)}: ${text}`));
  return found;
}

// Comparing all pairs would take minutes.
test('checkClaims() finds the one conflict among 100,000 hosts', { timeout: 30_000 }, () => {
  const clusters = Array.from({ length: 10_000 }, (_, i) => ({
    name: `c${i}`,
    id: `id-${i}`,
    api: { hosts: Array.from({ length: 10 }, (_, j) => `h${j}.c${i}.example.com`), backends: [] },
  }));
  assert.deepEqual(conflicts({ clusters }), []);
  clusters[9999].api.hosts[9] = 'H0.c0.example.com.';
  assert.deepEqual(conflicts({ clusters }), [
    'clusters[9999].api.hosts[9]: "H0.c0.example.com." is already claimed at clusters[0].api.hosts[0] by cluster "c0"',
  ]);
});

test('checkClaims() reports every claim to a host except the first, for every kind of route', () => {
  const kind = fc.constantFrom('api', 'konnectivity', 'apps', 'own');
  const claim = fc.tuple(kind, fc.constantFrom('a.example.com', 'b.example.com', '*.example.com', '*'));
  // A "*" that the schema refuses claims nothing.
  const isClaim = ([kind, host]: [string, string]) => host !== '*' || kind === 'apps' || kind === 'own';
  fc.assert(
    fc.property(fc.array(claim.filter(isClaim), { maxLength: 8 }), claims => {
      const clusters = claims.map(([kind, host], i) => clusterWith(`c${i}`, kind, host));
      const hosts = new Set(claims.map(([, host]) => host));
      assert.equal(conflicts({ clusters }).length, claims.length - hosts.size);
    }),
  );
});

function clusterWith(name: string, kind: string, host: string): object {
  const route = { hosts: [host], backends: [] };
  if (kind === 'apps') return { name, apps: { hosts: [host], https: [] } };
  return kind === 'own' ? { name, routes: { own: route } } : { name, [kind]: route };
}

test('checkClaims() accepts data of any shape', () => {
  const key = fc.constantFrom(
    'clusters',
    'name',
    'id',
    'api',
    'apps',
    'hosts',
    'https',
    'http',
    'routes',
    'connect',
    'alpn',
  );
  const { value } = fc.letrec(tie => ({
    value: fc.oneof(
      { maxDepth: 6 },
      fc.constantFrom<unknown>(null, undefined, 0, '', 'a.b', 'A.b.'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(key, tie('value'), { maxKeys: 5 }),
    ),
  }));
  fc.assert(fc.property(value, clusters => Array.isArray(conflicts({ clusters, tunnel: clusters }))));
});
