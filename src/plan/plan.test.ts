import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { anyClusters, sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { plan } from './plan.ts';

test('plan() does not change clusters without conflicts', () => {
  const clusters = [
    sampleCluster('a', { id: '1', routes: [sampleRoute({ hosts: ['a.lab'] })] }),
    sampleCluster('b', { id: '2', routes: [sampleRoute({ hosts: ['b.lab', '*.b.lab'] })] }),
  ];
  assert.deepEqual(plan(clusters), {
    clusters,
    findings: [],
    counts: { clusters: 2, routes: 2, hosts: 3 },
  });
});

test('plan() gives a host to the first claimant, and the other a finding', () => {
  const { clusters, findings } = plan([
    sampleCluster('old', { routes: [sampleRoute({ hosts: ['x.lab'] })] }),
    sampleCluster('new', { routes: [sampleRoute({ hosts: ['x.lab', 'y.lab'] })] }),
  ]);
  assert.deepEqual(clusters[1].routes[0].hosts, ['y.lab']);
  assert.deepEqual(findings, [
    {
      cluster: 'new',
      severity: 'error',
      code: 'HostClaimed',
      text: "'x.lab' belongs to cluster 'old', which claimed it first",
      fix: "Give cluster 'new' a different name, or remove this one from 'old'",
    },
  ]);
});

test('plan() lets one cluster use a host for TLS and HTTP, and on two routes with different ALPN', () => {
  const { findings } = plan([
    sampleCluster('a', {
      routes: [
        sampleRoute({ kind: 'apps-https', hosts: ['*.apps.lab'] }),
        sampleRoute({ kind: 'apps-http', hosts: ['*.apps.lab'] }),
        sampleRoute({ kind: 'own', hosts: ['*.apps.lab'], alpn: ['own'] }),
      ],
    }),
  ]);
  assert.deepEqual(findings, []);
});

test('plan() gives "*" to one cluster for TLS and one for HTTP, and only to clusters in the file', () => {
  const all = (kind: string) => sampleRoute({ kind, hosts: ['*', `${kind}.lab`] });
  const { clusters, findings, counts } = plan([
    sampleCluster('foreign', { source: 'services', routes: [all('own')] }),
    sampleCluster('a', { routes: [all('own')] }),
    sampleCluster('b', { routes: [all('apps-https'), all('apps-http')] }),
    sampleCluster('c', { routes: [all('apps-http')] }),
  ]);
  assert.deepEqual(
    clusters.map(({ routes }) => routes.map(({ hosts }) => hosts.includes('*'))),
    [[false], [true], [false, true], [false]],
  );
  assert.deepEqual(
    findings.map(({ cluster, code }) => `${cluster} ${code}`),
    ['foreign HostInvalid', 'a HostClaimed', 'b HostClaimed', 'c HostClaimed', 'c HostClaimed'],
  );
  assert.equal(counts.hosts, 4);
});

test('plan() refuses an id or a CONNECT name that is the name of another cluster', () => {
  const { clusters, findings } = plan([
    sampleCluster('a', { id: 'b', routes: [sampleRoute({ connect: ['b'] })] }),
    sampleCluster('b'),
  ]);
  assert.equal(clusters[0].id, undefined);
  assert.deepEqual(clusters[0].routes[0].connect, []);
  assert.deepEqual(
    findings.map(finding => finding.code),
    ['IdClaimed', 'ConnectNameClaimed'],
  );
});

test('plan() never gives two clusters the same name, id, host or CONNECT name', () => {
  fc.assert(
    fc.property(anyClusters, claimants => {
      const { clusters } = plan(claimants);
      const owners = new Map<string, string>();
      const own = (what: string, cluster: string) => {
        assert.equal(owners.get(what) ?? cluster, cluster, what);
        owners.set(what, cluster);
      };
      for (const { name, id, routes } of clusters) {
        own(`connect ${name}`, name);
        if (id !== undefined) own(`connect ${id.toLowerCase()}`, name);
        for (const route of routes) {
          for (const host of route.hosts) own(`${route.kind === 'apps-http' ? 'http' : 'tls'} ${host}`, name);
          for (const connect of route.connect) own(`connect ${connect}`, name);
        }
      }
    }),
  );
});

test('plan() reports a finding for every claim it removes, and is idempotent', () => {
  fc.assert(
    fc.property(anyClusters, claimants => {
      const first = plan(claimants);
      const claims = (clusters: typeof claimants) =>
        clusters.flatMap(({ id, routes }) => [
          ...(id === undefined ? [] : [id]),
          ...routes.flatMap(route => [...route.hosts, ...route.connect]),
        ]).length;
      assert.equal(claims(claimants) - claims([...first.clusters]), first.findings.length);
      assert.deepEqual(plan(first.clusters).findings, []);
    }),
  );
});
