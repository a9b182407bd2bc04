// Feature tests are in test/features/limits.test.ts.

import assert from 'node:assert/strict';
import type { Cluster } from '../../cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { parseIp } from '../../wire/ip-address.ts';
import { buildProxyV2 } from '../../wire/proxy-protocol.ts';
import { tlsAlert } from '../../wire/tls-alert.ts';
import { helloFor, type ScriptedPath, scriptedTest } from './scripted-path.samples.ts';

const hello = helloFor('a.lab');
const denied = Buffer.from(tlsAlert('access_denied'));
const noRoom = Buffer.from(tlsAlert('internal_error'));

function serving(cluster: Partial<Cluster>, route: Parameters<typeof sampleRoute>[0] = {}) {
  return [
    sampleCluster('a', { ...cluster, routes: [sampleRoute({ hosts: ['a.lab'], ...route })] }),
    sampleCluster('b', { routes: [sampleRoute({ hosts: ['b.lab'] })] }),
  ];
}

/** Which of these clients reach a backend, each after the other and while all others stay. */
function admitted(it: ScriptedPath, ...sources: string[]): boolean[] {
  return sources.map(from => {
    const before = it.io.dialled.length;
    const client = it.client(hello, from);
    const isServed = it.io.dialled.length > before;
    assert.equal(client.end, isServed ? undefined : 'fin');
    return isServed;
  });
}

scriptedTest(
  "admit() wants the client in the cluster's and in the route's allow list",
  {
    clusters: serving(
      { allow: ['198.51.100.0/24', '2001:db8::/32'] },
      { allow: ['198.51.100.128/25', '::/0'] },
    ),
  },
  it => {
    assert.deepEqual(
      admitted(it, '198.51.100.200', '198.51.100.1', '203.0.113.200', '2001:db8::1', '2001:db9::1'),
      [true, false, false, true, false],
    );
    assert.deepEqual(it.reasons, ['not-allowed', 'not-allowed', 'not-allowed']);
    assert.deepEqual(it.client(hello, '203.0.113.1').received, denied);
    assert.deepEqual([it.open.clusters, it.open.routes, it.open.backends], [2, 2, 2]);
  },
);

scriptedTest(
  'admit() refuses everyone with an empty allow list',
  { clusters: serving({ allow: [] }) },
  it => {
    assert.deepEqual(admitted(it, '198.51.100.7', '2001:db8::1'), [false, false]);
    it.tunnel('b.lab');
  },
);

scriptedTest(
  'admit() looks at the client in a PROXY header, not at the balancer',
  {
    clusters: serving({ allow: ['203.0.113.9/32'], limits: { perSource: 1 } }),
    listener: { balancers: ['198.51.100.0/24'] },
  },
  it => {
    const from = (source: string) => {
      it.source(source);
      const address = parseIp(source) ?? assert.fail();
      const header = buildProxyV2({ source: { address, port: 1 }, destination: { address, port: 2 } });
      return it.client(Buffer.concat([header, hello])).received;
    };
    assert.deepEqual(
      [from('203.0.113.9'), from('198.51.100.7'), from('203.0.113.9')],
      [Buffer.alloc(0), denied, noRoom],
    );
    assert.deepEqual([...it.records[0].client.address.subarray(12)], [198, 51, 100, 7]);
  },
);

scriptedTest(
  'admit() refuses connections beyond `connections` of their cluster',
  { clusters: serving({ limits: { connections: 2 } }) },
  it => {
    assert.deepEqual(admitted(it, '198.51.100.1', '198.51.100.2', '198.51.100.3'), [true, true, false]);
    assert.equal(it.open.clusters, 2);
    it.tunnel('b.lab');
    it.io.dialled[0].resets();
    it.io.settle();
    assert.deepEqual(admitted(it, '198.51.100.3', '198.51.100.1'), [true, false]);
    assert.deepEqual(it.client(hello).received, noRoom);
  },
);

scriptedTest(
  'admit() refuses connections beyond `perSource` of their cluster',
  { clusters: serving({ limits: { perSource: 1 } }) },
  it => {
    assert.deepEqual(admitted(it, '198.51.100.1', '198.51.100.1', '198.51.100.2'), [true, false, true]);
    it.client(helloFor('b.lab'), '198.51.100.1');
    it.io.dialled[0].resets();
    it.io.settle();
    assert.deepEqual(admitted(it, '198.51.100.1', '198.51.100.1'), [true, false]);
  },
);

scriptedTest(
  'admit() refuses connections beyond `newPerSecond` until the bucket fills again',
  { clusters: serving({ limits: { newPerSecond: 2 } }) },
  it => {
    const three = ['198.51.100.1', '198.51.100.2', '198.51.100.3'];
    assert.deepEqual(admitted(it, ...three), [true, true, false]);
    it.io.passes(500);
    assert.deepEqual(admitted(it, ...three), [true, false, false]);
    it.io.passes(60_000);
    assert.deepEqual(admitted(it, ...three), [true, true, false]);
    it.tunnel('b.lab');
  },
);

scriptedTest(
  'admit() gives the places of a refused connection back at once',
  { clusters: serving({ limits: { perSource: 0, connections: 5, newPerSecond: 0 } }) },
  it => {
    assert.deepEqual(admitted(it, '198.51.100.7'), [false]);
    const { connections, routes, clusters, sources, lingering } = it.open;
    assert.deepEqual([connections, routes, clusters, sources, lingering], [0, 0, 0, 0, 1]);
  },
);
