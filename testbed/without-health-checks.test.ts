import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../src/config/read-config.ts';
import { withoutHealthChecks } from './without-health-checks.ts';

const file = `listen: [":6443"]
clusters:
  - name: a
    api: { hosts: [a.example.com], backends: ["192.0.2.1:6443"] }
    apps: { hosts: ["*.a.example.com"], https: ["192.0.2.1:443"], http: redirect }
  - name: b
    konnectivity:
      hosts: [b.example.com]
      backends: ["192.0.2.1:6443"]
    apps:
      hosts: ["*.b.example.com"]
      http: { backends: ["192.0.2.1:80"], balance: random }
    routes: { own: { hosts: [own.example.com], backends: ["192.0.2.1:1"] } }
`;

function clustersOf(text: string) {
  const read = readConfig(text, 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  return read.config.clusters;
}

test('withoutHealthChecks() turns off the checks of every route, and changes nothing else', () => {
  const before = clustersOf(file);
  const after = clustersOf(withoutHealthChecks(file));
  const checks = after.flatMap(({ routes }) =>
    routes.filter(({ redirect }) => !redirect).map(({ pool }) => pool.health.check),
  );
  assert.deepEqual(checks, Array(5).fill('none'));
  const rest = (clusters: typeof before) =>
    clusters.map(cluster => ({
      ...cluster,
      routes: cluster.routes.map(route => ({ ...route, pool: { ...route.pool, health: undefined } })),
    }));
  assert.deepEqual(rest(after), rest(before));
});

test('withoutHealthChecks() does not change a file that sets them, or that is invalid', () => {
  for (const text of [
    file.replace('backends:', 'health: { check: tcp }, backends:'),
    `${file}what: is this\n`,
    'listen: [',
  ])
    assert.equal(withoutHealthChecks(text), text);
});
