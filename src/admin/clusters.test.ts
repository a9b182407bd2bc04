import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleCluster, sampleRoute } from '../cluster/clusters.samples.ts';
import { plan } from '../plan/plan.ts';
import { clusterAnswers, clusterNamed } from './clusters.ts';
import type { Counted } from './recent-traffic.ts';

const backends = ['192.0.2.1:6443', '192.0.2.2:6443'];
const route = sampleRoute({ hosts: ['api.a.lab'], backends });
const view = {
  plan: plan([
    sampleCluster('a', { id: 'id-a', routes: [route] }),
    sampleCluster('b', { routes: [sampleRoute({ hosts: ['api.a.lab', 'api.b.lab'], backends: [] })] }),
  ]),
  gateway: {
    figuresOf: (cluster: string, kind: string) =>
      cluster === 'a' && kind === 'api'
        ? {
            connections: 3,
            bytesIn: 10,
            bytesOut: 20,
            reasons: { done: 5 },
            backends: new Map([[backends[0], 3]]),
          }
        : undefined,
    backendHealth: (_cluster: string, _kind: string, backend: string) =>
      backend === backends[0]
        ? { up: null }
        : { up: false, since: Date.UTC(2026, 10, 15, 9), why: 'connection refused' },
  },
  recent: {
    ofRoute: (_cluster: string, _kind: string, { open, bytesIn, bytesOut }: Counted) => ({
      opened: open,
      bytesIn,
      bytesOut,
      reasons: {},
    }),
  },
};

test('clusterAnswers() has what the plan has, with figures and findings', () => {
  const [a, b] = clusterAnswers(view);
  const { check } = route.pool.health;
  assert.deepEqual(a, {
    name: 'a',
    id: 'id-a',
    source: 'file',
    object: null,
    routes: [
      {
        kind: 'api',
        hosts: ['api.a.lab'],
        balance: route.pool.balance,
        backends: [
          { address: backends[0], up: null, health: check, connections: 3 },
          {
            address: backends[1],
            up: false,
            health: check,
            since: '2026-11-15T09:00:00.000Z',
            why: 'connection refused',
            connections: 0,
          },
        ],
        connections: 3,
        bytesIn: 10,
        bytesOut: 20,
        reasons: { done: 5 },
        recent: { opened: 3, bytesIn: 10, bytesOut: 20, reasons: {} },
      },
    ],
    findings: [],
  });
  assert.equal(b.id, null);
  assert.deepEqual(b.routes[0].hosts, ['api.b.lab']);
  assert.deepEqual([b.routes[0].connections, b.routes[0].reasons], [0, {}]);
  assert.deepEqual(
    b.findings.map(finding => [Object.keys(finding), finding.code]),
    [[['severity', 'code', 'text', 'fix'], 'HostClaimed']],
  );
});

test('clusterNamed() is that one of them, or none', () => {
  for (const answer of clusterAnswers(view)) assert.deepEqual(clusterNamed(view, answer.name), answer);
  assert.equal(clusterNamed(view, 'c'), undefined);
});
