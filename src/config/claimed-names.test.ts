// ClaimedNames finds a conflict wherever claims.ts does, however the clusters came to be what they are.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Cluster } from '../cluster/cluster.ts';
import { ClaimedNames } from './claimed-names.ts';
import { checkClaims } from './claims.ts';
import { claimsOfCluster } from './claims-of-cluster.ts';

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
const host = fc.constantFrom(
  'a',
  'b',
  'a.test',
  'b.test',
  'c.test',
  'd.test',
  'e.test',
  '*.test',
  '*.a.test',
);
const hosts = fc.uniqueArray(host, { maxLength: 2 });
const route = (kind: string) =>
  fc.record({
    kind: fc.constant(kind),
    hosts,
    connect: kind === 'api' ? fc.uniqueArray(name, { maxLength: 1 }) : fc.constant([]),
    alpn: fc.constantFrom([], [], ['h2'], ['x']),
  });
/** Routes of apps have the same hosts. */
const apps = fc
  .tuple(hosts, fc.subarray(['apps-https', 'apps-http']))
  .map(([own, kinds]) => kinds.map(kind => ({ kind, hosts: own, connect: [], alpn: [] })));
const cluster = fc
  .tuple(
    name,
    fc.option(fc.constantFrom('A', 'b', 'id', 'other'), { nil: undefined }),
    fc.subarray(['api', 'konnectivity', 'own']).chain(kinds => fc.tuple(...kinds.map(route))),
    apps,
  )
  .map(
    ([own, id, routes, ofApps]) =>
      ({ name: own, id, identityRequired: false, routes: [...routes, ...ofApps] }) as unknown as Cluster,
  );

function isRefused(clusters: readonly Cluster[], reserved: readonly string[]): boolean {
  let found = false;
  checkClaims(
    { tunnel: { hosts: reserved }, clusters: clusters.map(claimsOfCluster) },
    () => '',
    () => {
      found = true;
    },
  );
  return found;
}

test('ClaimedNames finds a conflict exactly where claims.ts does, after any sequence of changes', () => {
  const seen = { conflict: 0, none: 0 };
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(), fc.nat({ max: 2 }), fc.array(cluster, { maxLength: 2 })), {
        maxLength: 12,
      }),
      fc.array(host, { maxLength: 1 }),
      (changes, reserved) => {
        const names = new ClaimedNames();
        let clusters: readonly Cluster[] = [];
        for (const [place, cut, added] of changes) {
          const at = place % (clusters.length + 1);
          const next = clusters.toSpliced(at, cut, ...added);
          const removed = clusters.slice(at, at + cut);
          const expected = isRefused(next, reserved);
          assert.equal(names.hasConflict(removed, added, reserved), expected);
          seen[expected ? 'conflict' : 'none']++;
          if (expected) continue;
          names.replace(removed, added);
          clusters = next;
        }
      },
    ),
    { numRuns: 3000 },
  );
  assert.ok(seen.conflict > 1000 && seen.none > 1000, JSON.stringify(seen));
});

test('ClaimedNames takes the same cluster twice for a conflict', () => {
  const [one] = fc.sample(cluster, 1);
  assert.equal(new ClaimedNames().hasConflict([], [one, one], []), true);
});
