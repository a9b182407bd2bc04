import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { sampleCluster, sampleOrigin, sampleRoute } from '../cluster/clusters.samples.ts';
import type { Finding } from '../cluster/finding.ts';
import { objectStates } from './object-states.ts';

const origin = sampleOrigin('kamaji', 'tenants', 'a');
const route = sampleRoute({ hosts: ['b.lab', 'a.lab'], backends: ['192.0.2.1:1', '192.0.2.2:2'] });
const cluster = sampleCluster('tenants.a', { origin, routes: [route] });
const finding: Finding = {
  cluster: 'tenants.a',
  severity: 'warning',
  code: 'HostInvalid',
  text: 'text',
  fix: 'fix',
};
const up = () => true;

function statusOf(input: Partial<Parameters<typeof objectStates>[0]>) {
  const [state] = objectStates({ clusters: [cluster], findings: [], isUp: up, ...input });
  return state.status === undefined ? undefined : JSON.parse(state.status);
}

test('objectStates() shows hosts sorted, and findings as the API has them', () => {
  assert.deepEqual(statusOf({ findings: [finding] }), {
    ready: true,
    hosts: ['a.lab', 'b.lab'],
    findings: [{ severity: 'warning', code: 'HostInvalid', text: 'text', fix: 'fix' }],
  });
});

test('objectStates() is ready when every route has a backend that is up', () => {
  assert.equal(statusOf({ isUp: (_, __, backend) => backend === '192.0.2.2:2' }).ready, true);
  assert.equal(statusOf({ isUp: () => false }).ready, false);
  const second = sampleRoute({ kind: 'konnectivity' });
  const both = { ...cluster, routes: [route, second] };
  assert.equal(statusOf({ clusters: [both], isUp: (_, kind) => kind === 'api' }).ready, false);
  const empty = { ...cluster, routes: [sampleRoute({ backends: [] })] };
  assert.equal(statusOf({ clusters: [empty] }).ready, false);
  assert.equal(statusOf({ clusters: [{ ...cluster, routes: [] }] }).ready, false);
  const redirect = { ...cluster, routes: [route, sampleRoute({ redirect: true, backends: [] })] };
  assert.equal(statusOf({ clusters: [redirect] }).ready, true);
});

test('objectStates() does not guess before the first check, and counts what is never checked', () => {
  assert.equal(statusOf({ isUp: () => null }), undefined);
  assert.equal(statusOf({ isUp: (_, __, backend) => (backend === '192.0.2.1:1' ? null : true) }).ready, true);
  assert.equal(statusOf({ isUp: (_, __, backend) => (backend === '192.0.2.1:1' ? null : false) }), undefined);
  const { pool } = route;
  const unchecked = { ...route, pool: { ...pool, health: { ...pool.health, check: 'none' as const } } };
  assert.equal(statusOf({ clusters: [{ ...cluster, routes: [unchecked] }], isUp: () => null }).ready, true);
});

test('objectStates() tells the loser of a claim, not its winner', () => {
  const loser = sampleOrigin('services', 'other', 'b');
  const lost: Finding = { ...finding, origin: loser, severity: 'error', code: 'NameClaimed' };
  const states = objectStates({ clusters: [cluster], findings: [lost], isUp: up });
  assert.deepEqual(
    states.map(({ object, findings }) => [object.name, findings.length]),
    [
      ['a', 0],
      ['b', 1],
    ],
  );
  assert.deepEqual(JSON.parse(states[1].status ?? ''), {
    ready: false,
    hosts: [],
    findings: [{ severity: 'error', code: 'NameClaimed', text: 'text', fix: 'fix' }],
  });
});

test('objectStates() shows a Service that joined a cluster what it serves there', () => {
  const service = { namespace: 'tenants', name: 's', port: 443 };
  const joined = sampleRoute({ kind: 'oauth', hosts: ['o.lab'], service });
  const owner = { ...cluster, routes: [route, joined] };
  const about: Finding = { ...finding, origin: sampleOrigin('services', 'tenants', 's') };
  const [, state] = objectStates({ clusters: [owner], findings: [about], isUp: up });
  assert.deepEqual([state.object.name, JSON.parse(state.status ?? '').hosts], ['s', ['o.lab']]);
  assert.equal(JSON.parse(state.status ?? '').ready, true);
});

test('objectStates() says nothing about clusters and findings without an object', () => {
  const findings: Finding[] = [
    { ...finding, cluster: 'file' },
    { ...finding, origin: { source: 'kamaji' } },
  ];
  const clusters = [sampleCluster('file', { routes: [route] })];
  assert.deepEqual(objectStates({ clusters, findings: findings.slice(0, 1), isUp: up }), []);
  assert.deepEqual(objectStates({ clusters: [], findings, isUp: up }), []);
});

test('objectStates() stays within the room of an annotation', () => {
  const hosts = Array.from({ length: 10_000 }, (_, i) => `host-${i}.${'x'.repeat(60)}.lab`);
  const findings = hosts.map(text => ({ ...finding, text: text + '\u0001'.repeat(500) }));
  const large = { ...cluster, routes: [sampleRoute({ hosts })] };
  const [state] = objectStates({ clusters: [large], findings, isUp: up });
  assert.ok(Buffer.byteLength(state.status ?? '') <= 64 * 1024);
  const status = JSON.parse(state.status ?? '');
  assert.equal(status.truncated, true);
  assert.ok(status.hosts.length > 300 && status.findings.length > 5);
});

test('objectStates() does not depend on the order of findings and hosts', () => {
  const others = ['x', 'y', 'z'].map(text => ({ ...finding, text, severity: 'error' as const }));
  const expected = statusOf({ findings: [...others, finding] });
  fc.assert(
    fc.property(
      fc.shuffledSubarray([...others, finding], { minLength: 4 }),
      fc.shuffledSubarray(['a.lab', 'b.lab'], { minLength: 2 }),
      (findings, hosts) => {
        const clusters = [{ ...cluster, routes: [{ ...route, hosts }] }];
        assert.deepEqual(statusOf({ clusters, findings }), expected);
      },
    ),
  );
});
