import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster } from '../cluster/cluster.ts';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import type { OutputOptions } from '../config/config.ts';
import { plan } from '../plan/plan.ts';
import { newDnsEndpoint } from './dns-endpoint.ts';
import { outputContract } from './output.contract.ts';
import { withApps } from './outputs.samples.ts';

const newOutput = (options: Partial<OutputOptions['dnsEndpoint']> = {}) =>
  newDnsEndpoint(
    'dnsEndpoint',
    { zone: 'clusters.example.com', targets: 'nodes', addresses: [], ttlMs: 60_000, ...options },
    { leaseNamespace: 'causeway-system' },
  );

outputContract('dnsEndpoint', () => newOutput({ targets: ['192.0.2.1'] }), undefined, { prepare: withApps });

function kubermatic(id: string, nodes?: readonly string[]): Cluster {
  const object = {
    apiVersion: 'kubermatic.k8c.io/v1',
    kind: 'Cluster',
    namespace: '',
    name: id,
    uid: `uid-${id}`,
    createdAt: '2026-01-01T00:00:00Z',
  };
  const controlPlane = { isPaused: false, ...(nodes && { nodes }) };
  return sampleCluster(id, { id, origin: { source: 'kubermatic', object }, controlPlane });
}

function desired(cluster: Cluster, options: Partial<OutputOptions['dnsEndpoint']> = {}) {
  const { objects, findings } = newOutput(options).desired(plan([cluster]));
  const [one] = objects as readonly {
    object: { spec?: { endpoints: readonly object[] } };
    asItIs?: boolean;
  }[];
  return {
    objects,
    endpoints: one?.object.spec?.endpoints,
    asItIs: one?.asItIs === true,
    codes: findings.map(({ code }) => code),
  };
}

test('newDnsEndpoint() leads the wildcard of a cluster to its nodes, by family', () => {
  const { objects, endpoints, codes } = desired(kubermatic('abc', ['192.0.2.1', '192.0.2.2', '2001:db8::1']));
  assert.deepEqual(codes, []);
  const { metadata, apiVersion, kind } = objects[0].object;
  assert.deepEqual([apiVersion, kind], ['externaldns.k8s.io/v1alpha1', 'DNSEndpoint']);
  assert.match(metadata.name, /^abc-[0-9a-f]{10}$/);
  assert.equal(metadata.namespace, 'causeway-system');
  assert.deepEqual(metadata.annotations, {
    'external-dns.alpha.kubernetes.io/ttl': '60',
    'external-dns.kubernetes.io/ttl': '60',
  });
  const dnsName = '*.abc.clusters.example.com';
  assert.deepEqual(endpoints, [
    { dnsName, recordTTL: 60, recordType: 'A', targets: ['192.0.2.1', '192.0.2.2'] },
    { dnsName, recordTTL: 60, recordType: 'AAAA', targets: ['2001:db8::1'] },
  ]);
});

test('newDnsEndpoint() leads it to the gateway or to fixed addresses', () => {
  const addresses = ['203.0.113.10'];
  for (const options of [{ targets: 'gateway', addresses } as const, { targets: addresses }]) {
    const { endpoints } = desired(kubermatic('abc', ['192.0.2.1']), { ...options, ttlMs: 5000 });
    assert.deepEqual(endpoints, [
      { dnsName: '*.abc.clusters.example.com', recordTTL: 5, recordType: 'A', targets: addresses },
    ]);
  }
});

test('newDnsEndpoint() leaves what is there as it is while nodes are not known', () => {
  const { objects, asItIs, codes } = desired(kubermatic('abc'));
  assert.deepEqual([objects.length, asItIs, codes], [1, true, []]);
});

test('newDnsEndpoint() is for clusters with apps too, in the namespace of their object', () => {
  const routes = [sampleRoute({ kind: 'apps-https', hosts: ['*.apps.lab'] })];
  const cluster = sampleCluster('n.web', { id: 'Web', origin: sampleOrigin('services', 'n', 'web'), routes });
  const { objects, endpoints } = desired(cluster, { targets: ['192.0.2.1'] });
  assert.equal(objects[0].object.metadata.namespace, 'n');
  assert.deepEqual(endpoints, [
    { dnsName: '*.web.clusters.example.com', recordTTL: 60, recordType: 'A', targets: ['192.0.2.1'] },
  ]);
  assert.deepEqual(desired(cluster).codes, ['OutputRejected']);
  assert.deepEqual(desired({ ...cluster, routes: [sampleRoute({ hosts: ['api.lab'] })] }).objects, []);
});

test('newDnsEndpoint() refuses an id that is no label, such as one below that of another cluster', () => {
  for (const id of ['x.abc', '-x', 'a_b', 'x'.repeat(64)]) {
    const { objects, codes } = desired({ ...kubermatic('abc', ['192.0.2.1']), id });
    assert.deepEqual([objects, codes], [[], ['ZoneInvalid']], id);
  }
  const { id: _, ...withoutId } = kubermatic('abc', ['192.0.2.1']);
  assert.deepEqual(desired(withoutId).codes, ['ZoneInvalid']);
});
