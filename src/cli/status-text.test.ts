import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClusterAnswer, RouteAnswer } from '../admin/clusters.ts';
import type { StatusAnswer } from '../admin/status.ts';
import { statusText } from './status-text.ts';

const recent = { opened: 0, bytesIn: 0, bytesOut: 0, reasons: {} };
const status: StatusAnswer = {
  version: '0.1.0',
  engine: 'epoll',
  workers: 2,
  uptimeSeconds: 93_784.5,
  generation: 4,
  listeners: [{ on: ':6443', address: '[::]:6443' }],
  config: { ok: true, error: null, restartNeeded: [] },
  sources: [{ name: 'file', up: true, synced: true, error: null }],
  leader: false,
  findings: [],
  counts: { clusters: 2, routes: 2, hosts: 3, connections: 3, draining: 0 },
  health: { backends: 3, down: 1, stretch: 1 },
  traffic: {
    connections: 120,
    bytesIn: 2048,
    bytesOut: 3 * 2 ** 30,
    reasons: { done: 100, 'unknown-host': 7, 'not-allowed': 13 },
    recent,
    unrouted: { connections: 7, bytesIn: 0, bytesOut: 0, reasons: { 'unknown-host': 7 }, recent },
  },
};

const api: RouteAnswer = {
  kind: 'api',
  hosts: ['api.blue.lab'],
  balance: 'source',
  backends: [
    { address: '192.0.2.1:6443', up: true, health: 'tls', connections: 3 },
    { address: '192.0.2.2:6443', up: false, health: 'tls', connections: 0 },
  ],
  connections: 3,
  bytesIn: 2048,
  bytesOut: 3 * 2 ** 30,
  reasons: { done: 100, 'not-allowed': 13 },
  recent,
};

const clusters: ClusterAnswer[] = [
  { name: 'blue', id: null, source: 'file', object: null, routes: [api], findings: [] },
  {
    name: 'a-longer-name',
    id: 'x',
    source: 'file',
    object: null,
    routes: [
      { ...api, backends: [], connections: 0, bytesIn: 0, bytesOut: 0, reasons: {} },
      { ...api, kind: 'konnectivity', backends: [], connections: 0, bytesIn: 0, bytesOut: 0, reasons: {} },
    ],
    findings: [],
  },
];

const plain = (_: string, text: string) => text;

test('statusText() shows the overall state, then one line per route', () => {
  assert.equal(
    statusText({ status, all: clusters }, plain),
    `causeway 0.1.0  epoll, 2 workers, up 1 d 2 h
listen    :6443 ([::]:6443)
file      ✓ valid and served, generation 4
serves    2 clusters, 2 routes, 3 hosts, 2 backends, 1 down
traffic   3 open, 120 ended, in 2.0 KiB, out 3.0 GiB
refused   not-allowed 13, unknown-host 7

cluster        route         open       in      out  refused  backends
blue           api              3  2.0 KiB  3.0 GiB       13  ✗ 192.0.2.2:6443  ✓ 192.0.2.1:6443 (3)
a-longer-name  api              0      0 B      0 B        0  none
               konnectivity     0      0 B      0 B        0  none
`,
  );
});

test('statusText() shows a drain, a refused file, a needed restart, and findings', () => {
  const text = statusText(
    {
      status: {
        ...status,
        config: {
          ok: false,
          error: 'a.yaml:1:2: no\na.yaml:3:4: nor this',
          restartNeeded: ['engine', 'admin'],
        },
        counts: { clusters: 0, routes: 0, hosts: 0, connections: 0, draining: 0 },
        traffic: { ...status.traffic, connections: 0, bytesIn: 0, bytesOut: 0, reasons: {} },
        uptimeSeconds: 0.4,
      },
      all: [
        {
          name: 'blue',
          id: null,
          source: 'file',
          object: null,
          routes: [],
          findings: [{ severity: 'error', code: 'HostClaimed', text: "'a' is taken", fix: 'Take another' }],
        },
      ],
      notReady: 'draining',
    },
    plain,
  );
  assert.match(text, /up 400 ms$/m);
  assert.match(
    text,
    /^file {6}✗ refused, still serving the last good one: a\.yaml:1:2: no; a\.yaml:3:4: nor this, restart needed for engine, admin, generation 4$/m,
  );
  assert.match(text, /^refused {3}none$/m);
  assert.match(text, /^ready {5}✗ draining$/m);
  assert.match(text, /^error blue: 'a' is taken\. Take another$/m);
});

test('statusText() shows backends that are down first, and only a few', () => {
  const backends = Array.from({ length: 9 }, (_, i) => ({
    address: `192.0.2.${i}:1`,
    up: i !== 8,
    health: 'tcp' as const,
    connections: 0,
  }));
  const text = statusText({ status, all: [{ ...clusters[0], routes: [{ ...api, backends }] }] }, plain);
  assert.match(
    text,
    /✗ 192\.0\.2\.8:1 {2}✓ 192\.0\.2\.0:1 {2}✓ 192\.0\.2\.1:1 {2}✓ 192\.0\.2\.2:1 {2}and 5 more$/m,
  );
});

test('statusText() shows why a backend is down, redirects, and stretched check intervals', () => {
  const down = { ...api.backends[1], since: '2026-11-15T09:00:00.000Z', why: 'connection refused' };
  const redirect = { ...api, kind: 'apps-http', backends: [], redirect: true };
  const text = statusText(
    {
      status: { ...status, health: { backends: 1, down: 1, stretch: 2.5 } },
      all: [{ ...clusters[0], routes: [{ ...api, backends: [down] }, redirect] }],
    },
    plain,
  );
  assert.match(text, /1 backend, 1 down, checked 2\.5 times less often than configured$/m);
  assert.match(text, /^blue .* ✗ 192\.0\.2\.2:6443 connection refused$/m);
  assert.match(text, /^ +apps-http .* redirect to https$/m);
});

test('statusText() shows unchecked backends as ?', () => {
  const backends = [
    { ...api.backends[0], address: '192.0.2.1:1' },
    { ...api.backends[0], address: '192.0.2.2:1', up: null, connections: 0 },
    { ...api.backends[0], address: '192.0.2.3:1', up: null, health: 'none' as const, connections: 0 },
  ];
  const text = statusText({ status, all: [{ ...clusters[0], routes: [{ ...api, backends }] }] }, plain);
  assert.match(text, /^serves .*, 3 backends, 1 not checked yet$/m);
  assert.match(text, /\? 192\.0\.2\.2:1 {2}\? 192\.0\.2\.3:1 {2}✓ 192\.0\.2\.1:1 \(3\)$/m);
});

test('statusText() shows every host and backend of one cluster, and an empty list of problems', () => {
  const backends = Array.from({ length: 9 }, (_, i) => ({ ...api.backends[0], address: `192.0.2.${i}:1` }));
  const one = [{ ...clusters[0], routes: [{ ...api, backends }] }];
  const text = statusText({ status, all: clusters, shown: one, isWhole: true }, plain);
  assert.match(text, /^serves .* 2 backends, 1 down$/m, 'counts all clusters');
  assert.match(text, /192\.0\.2\.8:1 \(3\)$/m);
  assert.match(text, /\n\nroute {2}host\napi {4}api\.blue\.lab\n$/);
  const none = statusText({ status, all: clusters, shown: [], problems: true }, plain);
  assert.match(none, /\nproblems {2}none\n$/);
});

test('statusText() escapes control characters from the gateway', () => {
  const evil = 'evil\x1b]0;title\x07\x1b[2J\nnext';
  const text = statusText(
    {
      status: { ...status, version: evil, engine: evil, listeners: [{ on: evil, address: evil }] },
      all: [
        {
          ...clusters[0],
          name: evil,
          routes: [{ ...api, kind: evil, backends: [{ ...api.backends[1], address: evil, why: evil }] }],
        },
      ],
      notReady: evil,
    },
    plain,
  );
  assert.ok(!/[^\P{Cc}\n]/u.test(text), JSON.stringify(text));
});

test('statusText() shows sources, findings of no cluster, and the object that a cluster came from', () => {
  const sources = [
    ...status.sources,
    { name: 'kamaji', up: true, synced: true, error: null },
    { name: 'directory', up: false, synced: true, error: "Cannot read '/etc/x': ENOENT" },
  ];
  const finding = {
    severity: 'error' as const,
    code: 'HostInvalid' as const,
    text: "'a b' is not a host",
    fix: 'Correct it',
    source: 'services',
    object: 'Service team/web',
  };
  const text = statusText(
    { status: { ...status, sources, leader: true, findings: [finding] }, all: clusters },
    plain,
  );
  assert.match(
    text,
    /^sources {3}✓ kamaji, ✗ directory: Cannot read '\/etc\/x': ENOENT, this replica writes$/m,
  );
  assert.match(text, /^error Service team\/web: 'a b' is not a host\. Correct it$/m);
  const object = { apiVersion: 'v1', kind: 'Service', namespace: 'team', name: 'web', uid: 'u' };
  const shown = [{ ...clusters[0], source: 'services', object }];
  assert.match(
    statusText({ status, all: clusters, shown, isWhole: true }, plain),
    /^from {6}services, Service team\/web$/m,
  );
});
