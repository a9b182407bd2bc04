import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readClusters } from '../config/read-clusters.ts';
import { readConfig } from '../config/read-config.ts';
import { causewayYaml, type DemoFile, guestYaml } from './causeway-yaml.ts';
import { demoClusters } from './demo-clusters.ts';

const file: DemoFile = {
  port: 6443,
  adminPort: 9440,
  clusters: demoClusters.map((cluster, index) => ({
    cluster,
    ports: { api: [1000 + index, 2000 + index], konnectivity: 3000 + index, https: 4000, http: 5000 },
  })),
};

test('causewayYaml() is a valid file with every route of every cluster', () => {
  const read = readConfig(causewayYaml(file), 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  assert.deepEqual(read.warnings, []);
  const { listen, admin, clusters, identity, tunnel } = read.config;
  assert.deepEqual(
    listen.map(({ host, port, agents }) => ({ host, port, agents })),
    [{ host: '127.0.0.1', port: 6443, agents: ['127.0.0.0/8'] }],
  );
  assert.deepEqual(admin.on, { host: '127.0.0.1', port: 9440 });
  assert.deepEqual(
    clusters.map(({ name, id }) => [name, id]),
    demoClusters.map(({ name, id }) => [name, id]),
  );
  assert.deepEqual(
    clusters.map(({ identityRequired }) => identityRequired),
    demoClusters.map(({ isSigned }) => isSigned),
  );
  assert.equal(identity?.secretFile, './identity.secret');
  assert.deepEqual(tunnel?.hosts, ['tunnel.causeway.test']);
  for (const { routes } of clusters) {
    const kinds = routes.map(({ kind }) => kind).toSorted();
    assert.deepEqual(kinds, ['api', 'apps-http', 'apps-https', 'konnectivity']);
  }
});

test('guestYaml() is a valid file of the folder that causewayYaml() names', () => {
  const read = readClusters(guestYaml(file), 'guest.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  assert.deepEqual(
    read.clusters.map(({ name, routes }) => [name, routes[0].hosts]),
    [['guest', ['api.guest.causeway.test']]],
  );
  const config = readConfig(causewayYaml(file), 'causeway.yaml');
  assert.ok(config.ok);
  assert.deepEqual(
    config.config.sources.map(({ options }) => options),
    [{ path: './clusters' }],
  );
});

test('causewayYaml() supports the edit that --once makes', () => {
  const edited = { ...file, alias: 'kubernetes.default.svc', redirect: 'managed2' };
  const read = readConfig(causewayYaml(edited), 'causeway.yaml');
  assert.ok(read.ok, JSON.stringify(read));
  const [hub, managed1, managed2] = read.config.clusters;
  assert.deepEqual(hub.routes.find(({ kind }) => kind === 'api')?.hosts, [
    'api.hub.causeway.test',
    'kubernetes.default.svc',
  ]);
  const redirects = [hub, managed1, managed2].map(
    ({ routes }) => routes.find(({ kind }) => kind === 'apps-http')?.redirect,
  );
  assert.deepEqual(redirects, [false, false, true]);
});
