// A new table and the connections that are open. Feature tests are in test/features/reload.test.ts.

import assert from 'node:assert/strict';
import type { Cluster } from '../../cluster/cluster.ts';
import { sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { REFUSED } from '../io/reactor.ts';
import type { ScriptedPeer } from '../io/scripted-peer.samples.ts';
import { revokeOne } from './revoke.ts';
import { helloFor, oneBackend, type ScriptedPath, scriptedTest } from './scripted-path.samples.ts';

const api = sampleRoute({ hosts: ['a.lab'] });
const konnectivity = sampleRoute({ kind: 'konnectivity', hosts: ['k.lab'] });
const a = sampleCluster('a', { routes: [api, konnectivity] });
const b = sampleCluster('b', { routes: [sampleRoute({ hosts: ['b.lab'], backends: ['192.0.2.9:6443'] })] });

/** Tunnels of two clients to each host. */
function tunnels(it: ScriptedPath) {
  return ['a.lab', 'k.lab', 'b.lab'].flatMap(host =>
    ['198.51.100.1', '203.0.113.1'].map(from => {
      const client = it.client(helloFor(host), from);
      return { name: `${host} ${from}`, client, backend: it.backend() };
    }),
  );
}

/** Bytes pass in both directions. */
function isServed({ client, backend }: { client: ScriptedPeer; backend: ScriptedPeer }, it: ScriptedPath) {
  client.sends('ping');
  backend.sends('pong');
  it.io.settle();
  return backend.text.endsWith('ping') && client.text.endsWith('pong');
}

for (const [what, clusters, gone] of [
  ['nothing changes', [a, b], []],
  [
    'limits and backends change',
    [{ ...a, limits: { connections: 1 }, routes: [{ ...api, pool: b.routes[0].pool }, konnectivity] }, b],
    [],
  ],
  [
    'a cluster is gone',
    [b],
    ['a.lab 198.51.100.1', 'a.lab 203.0.113.1', 'k.lab 198.51.100.1', 'k.lab 203.0.113.1'],
  ],
  ['a route is gone', [{ ...a, routes: [api] }, b], ['k.lab 198.51.100.1', 'k.lab 203.0.113.1']],
  [
    'a cluster allows fewer',
    [{ ...a, allow: ['198.51.100.0/24'] }, b],
    ['a.lab 203.0.113.1', 'k.lab 203.0.113.1'],
  ],
  [
    'a route allows fewer',
    [{ ...a, routes: [api, { ...konnectivity, allow: ['203.0.113.0/24'] }] }, b],
    ['k.lab 198.51.100.1'],
  ],
  [
    'everything is gone',
    [],
    [
      'a.lab 198.51.100.1',
      'a.lab 203.0.113.1',
      'k.lab 198.51.100.1',
      'k.lab 203.0.113.1',
      'b.lab 198.51.100.1',
      'b.lab 203.0.113.1',
    ],
  ],
] as const satisfies readonly (readonly [string, readonly Cluster[], readonly string[]])[]) {
  scriptedTest(`revoke() resets only the connections concerned when ${what}`, { clusters: [a, b] }, it => {
    const all = tunnels(it);
    it.serves(clusters);
    const revoked = all.filter(({ client }) => client.end === 'reset');
    assert.deepEqual(
      revoked.map(({ name }) => name),
      gone,
    );
    assert.ok(revoked.every(({ backend }) => backend.end === 'reset'));
    assert.deepEqual(
      it.reasons,
      gone.map(() => 'revoked'),
    );
    assert.ok(all.every(tunnel => isServed(tunnel, it) !== revoked.includes(tunnel)));
    assert.equal(it.open.clusters, all.length - gone.length);
  });
}

scriptedTest('revoke() ends connections that are still dialling or wait for their next attempt', {}, it => {
  it.io.answer = () => 'silence';
  const dialling = it.client(helloFor('a.lab'));
  it.io.answer = () => REFUSED;
  const waiting = it.client(helloFor('a.lab'));
  it.serves([]);
  assert.deepEqual([dialling.end, waiting.end, it.backend().end], ['reset', 'reset', 'reset']);
  assert.deepEqual([it.reasons, it.io.open, it.open.dialOrders], [['revoked', 'revoked'], [], 0]);
});

scriptedTest('revoke() ends connections with bytes that a side has not taken', {}, it => {
  const { client, backend } = it.tunnel();
  client.stalls();
  backend.sends(Buffer.alloc(200_000));
  it.io.settle();
  assert.ok(it.open.kept > 0);
  it.serves([]);
  assert.deepEqual([client.end, backend.end, it.open.kept], ['reset', 'reset', 0]);
});

scriptedTest('revoke() leaves connections whose destination is unknown, and those refused', {}, it => {
  const hello = helloFor('a.lab');
  const early = it.client(hello.subarray(0, 20));
  const refused = it.client(helloFor('unknown.lab'));
  it.serves([b]);
  it.serves([oneBackend]);
  early.sends(hello.subarray(20));
  it.io.settle();
  assert.deepEqual(it.backend().received, hello);
  assert.deepEqual([refused.end, it.open.lingering], ['fin', 1]);
});

scriptedTest('revokeOne() ends the connection of that generation, and no later one', {}, it => {
  const { client } = it.tunnel();
  const handle = it.io.open[0];
  const generation = it.path.rows.generation[handle];
  assert.equal(revokeOne(it.path, it.io.open[1], it.path.rows.generation[it.io.open[1]]), false, 'a backend');
  assert.equal(revokeOne(it.path, handle, generation), true);
  assert.deepEqual([client.end, it.reasons], ['reset', ['revoked']]);
  const next = it.tunnel();
  assert.equal(it.io.open[0], handle);
  assert.equal(revokeOne(it.path, handle, generation), false);
  assert.equal(next.client.end, undefined);
});
