import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BackendAnswer, ClusterAnswer, RouteAnswer } from '../admin/clusters.ts';
import { type Choice, chooseClusters } from './choose-clusters.ts';

const backend = (up: boolean | null): BackendAnswer => ({
  address: '192.0.2.1:1',
  up,
  health: 'tcp',
  connections: 0,
});

const route = (kind: string, more: Partial<RouteAnswer>): RouteAnswer => ({
  kind,
  hosts: [],
  balance: 'source',
  backends: [backend(true)],
  connections: 0,
  bytesIn: 0,
  bytesOut: 0,
  reasons: {},
  recent: { opened: 0, bytesIn: 0, bytesOut: 0, reasons: {} },
  ...more,
});

const cluster = (name: string, ...routes: readonly RouteAnswer[]): ClusterAnswer => ({
  name,
  id: null,
  source: 'file',
  object: null,
  routes,
  findings: [],
});

const finding = (severity: 'info' | 'error') =>
  ({ severity, code: 'HostClaimed', text: '', fix: '' }) as const;

const clusters: ClusterAnswer[] = [
  cluster(
    'tenant-10',
    route('api', { connections: 1, bytesIn: 30, reasons: { done: 99 } }),
    route('web', { bytesOut: 5 }),
  ),
  cluster(
    'tenant-9',
    route('api', { backends: [backend(false), backend(true)], reasons: { 'not-allowed': 2 } }),
    route('web', { backends: [backend(null)], connections: 7 }),
  ),
  cluster('redirects', route('web', { backends: [], redirect: true })),
  cluster('empty', route('api', { backends: [] })),
  { ...cluster('noted', route('api', {})), findings: [finding('info')] },
  { ...cluster('found', route('api', {})), findings: [finding('error')] },
];

const choose = (choice: Partial<Choice>) =>
  chooseClusters(clusters, { problems: false, cluster: undefined, sort: undefined, ...choice });
const names = (choice: Partial<Choice>) => choose(choice).map(({ name }) => name);

test('chooseClusters() keeps all clusters in order by default', () => {
  assert.deepEqual(choose({}), clusters);
});

test('chooseClusters() with problems keeps only clusters and routes that need attention', () => {
  const chosen = choose({ problems: true });
  assert.deepEqual(
    chosen.map(({ name, routes }) => [name, routes.map(({ kind }) => kind)]),
    [
      ['tenant-9', ['api']],
      ['empty', ['api']],
      ['found', []],
    ],
  );
});

test('chooseClusters() selects a cluster by name', () => {
  assert.deepEqual(choose({ cluster: 'tenant-9' }), [clusters[1]]);
  assert.deepEqual(names({ cluster: 'redirects', problems: true }), []);
});

test('chooseClusters() sorts names ascending and figures descending', () => {
  assert.deepEqual(names({ sort: 'name' }), [
    'empty',
    'found',
    'noted',
    'redirects',
    'tenant-9',
    'tenant-10',
  ]);
  for (const [sort, first] of [
    ['open', 'tenant-9'],
    ['in', 'tenant-10'],
    ['out', 'tenant-10'],
    ['refused', 'tenant-9'],
    ['down', 'tenant-9'],
  ] as const) {
    assert.equal(names({ sort })[0], first, sort);
    const others = names({ sort }).filter(name => !name.startsWith('tenant'));
    assert.deepEqual(others, ['empty', 'found', 'noted', 'redirects'], 'ties by name');
  }
});
