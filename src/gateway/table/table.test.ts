import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Cluster } from '../../cluster/cluster.ts';
import { anyClusters, sampleCluster, sampleRoute } from '../../cluster/clusters.samples.ts';
import { plan } from '../../plan/plan.ts';
import { routeConnect, routeHttp, routeTls } from '../stages/route.ts';
import { compileListener } from './listener-table.ts';
import { Table, type TableRoute } from './table.ts';
import { TableAuthor } from './table-author.ts';

const everything = compileListener({ on: ':1', balancers: [], agents: [], idTlv: [0x20] });

function tableOf(...clusters: Cluster[]): Table {
  const table = new Table();
  table.apply([], new TableAuthor().change(clusters, backend => [backend.host]).put);
  return table;
}

function nameOf(route: TableRoute | string): string {
  return typeof route === 'string' ? route : `${route.cluster.name}/${route.kind}`;
}

const lab = tableOf(
  sampleCluster('a', {
    id: 'id-a',
    routes: [
      sampleRoute({ hosts: ['api.a.lab'], connect: ['a.svc'] }),
      sampleRoute({ kind: 'konnectivity', hosts: ['api.a.lab'], alpn: ['konn'], connect: ['k.a.svc'] }),
      sampleRoute({ kind: 'apps-https', hosts: ['*.apps.lab'] }),
      sampleRoute({ kind: 'apps-http', hosts: ['*.apps.lab'] }),
    ],
  }),
  sampleCluster('b', {
    id: 'ID-B',
    routes: [
      sampleRoute({ hosts: ['*.b.lab', 'x.apps.lab'] }),
      sampleRoute({ kind: 'own', hosts: ['own.b.lab'], alpn: ['own'] }),
    ],
  }),
  sampleCluster('c', { id: 'id-c', routes: [sampleRoute({ kind: 'own', hosts: ['c.lab'] })] }),
);

const tls = (host: string | undefined, alpn: string[] = [], id?: string, listener = everything) =>
  nameOf(routeTls(lab, listener, host, alpn, id));

test('routeTls() prefers the exact host to the wildcard, which matches exactly one label', () => {
  assert.equal(tls('x.apps.lab'), 'b/api');
  assert.equal(tls('y.apps.lab'), 'a/apps-https');
  assert.equal(tls('z.y.apps.lab'), 'unknown-host');
  assert.equal(tls('apps.lab'), 'unknown-host');
  assert.equal(tls('nowhere'), 'unknown-host');
});

test('routeTls() distinguishes routes of one host by ALPN, and falls back to the one without', () => {
  assert.equal(tls('api.a.lab', ['h2', 'konn']), 'a/konnectivity');
  assert.equal(tls('api.a.lab', ['h2']), 'a/api');
  assert.equal(tls('api.a.lab'), 'a/api');
  assert.equal(tls('own.b.lab', ['own']), 'b/own');
  assert.equal(
    tls('own.b.lab', ['h2']),
    'unknown-host',
    'the exact host wins, though the wildcard would fit',
  );
});

test('routeTls() requires a name unless an id is given', () => {
  assert.equal(tls(undefined), 'no-sni');
  assert.equal(tls(undefined, [], 'id-a'), 'a/api');
  assert.equal(tls(undefined, [], 'id-x'), 'unknown-cluster');
  assert.equal(tls(undefined, [], 'id-b'), 'unknown-cluster', 'ids are case-sensitive');
});

test('routeTls() with an id stays among that cluster’s routes', () => {
  assert.equal(tls('y.apps.lab', [], 'id-a'), 'a/apps-https');
  assert.equal(tls('x.apps.lab', [], 'id-a'), 'a/apps-https', 'its own wildcard, not the other’s exact host');
  assert.equal(tls('foo.b.lab', [], 'id-a'), 'a/api', 'a host of another cluster says nothing');
  assert.equal(tls('kubernetes.default.svc', [], 'ID-B'), 'b/api');
  assert.equal(tls(undefined, [], 'id-c'), 'unknown-host', 'it has no api');
});

test('routeTls() finds no route that `only` leaves out', () => {
  const apps = compileListener({ on: ':2', balancers: [], agents: [], idTlv: [], only: ['apps-https'] });
  assert.equal(tls('y.apps.lab', [], undefined, apps), 'a/apps-https');
  assert.equal(tls('x.apps.lab', [], undefined, apps), 'unknown-host', 'the exact host belongs to an api');
  assert.equal(tls('api.a.lab', [], undefined, apps), 'unknown-host');
  assert.equal(tls(undefined, [], 'id-a', apps), 'unknown-host');
});

test('routeConnect() finds ids, cluster names, API hosts and connect names', () => {
  const connect = (name: string) => nameOf(routeConnect(lab, everything, name));
  assert.equal(connect('id-a'), 'a/api');
  assert.equal(connect('id-b'), 'b/api', 'a CONNECT name has no case');
  assert.equal(connect('a'), 'a/api');
  assert.equal(connect('api.a.lab'), 'a/api');
  assert.equal(connect('foo.b.lab'), 'b/api');
  assert.equal(connect('a.svc'), 'a/api');
  assert.equal(connect('k.a.svc'), 'a/konnectivity');
  assert.equal(connect('y.apps.lab'), 'unknown-host', 'not an API host');
  assert.equal(connect('c'), 'unknown-host', 'it has no api');
  assert.equal(connect('192.0.2.1'), 'unknown-host', 'a backend’s address is no name');
});

test('routeHttp() searches the HTTP routes only', () => {
  assert.equal(nameOf(routeHttp(lab, everything, 'x.apps.lab')), 'a/apps-http');
  assert.equal(nameOf(routeHttp(lab, everything, 'api.a.lab')), 'unknown-host');
});

test('routeTls() and routeHttp() send unclaimed hosts to "*", and no others', () => {
  const table = tableOf(
    sampleCluster('a', {
      id: 'id-a',
      routes: [
        sampleRoute({ hosts: ['api.a.lab', '*.a.lab'] }),
        sampleRoute({ kind: 'own', hosts: ['own.a.lab'], alpn: ['own'] }),
        sampleRoute({ kind: 'apps-http', hosts: ['a.lab'] }),
      ],
    }),
    sampleCluster('b', {
      id: 'id-b',
      routes: [
        sampleRoute({ connect: ['b.svc'] }),
        sampleRoute({ kind: 'rest', hosts: ['*', 'rest.lab'] }),
        sampleRoute({ kind: 'h2', hosts: ['*'], alpn: ['h2'] }),
        sampleRoute({ kind: 'apps-http', hosts: ['*'] }),
      ],
    }),
  );
  table.putTunnels(['t.lab', '*.t.lab']);
  const find = (host: string | undefined, alpn: string[] = [], id?: string, listener = everything) =>
    nameOf(routeTls(table, listener, host, alpn, id));
  const others = [
    'x.lab',
    'x.y.a.lab',
    'lab',
    '192.0.2.1',
    '2001:db8::1',
    'a b.lab',
    '*',
    '*.a.lab',
    '',
    undefined,
  ];
  for (const host of others) {
    assert.equal(find(host), 'b/rest', String(host));
    assert.equal(find(host, ['http/1.1', 'h2']), 'b/h2', String(host));
    assert.equal(find(host, [], 'id-a'), 'a/api', `an id means its cluster: ${host}`);
    assert.equal(find(host, [], 'id-b'), 'b/api', `and its api where nothing matches: ${host}`);
  }
  assert.deepEqual(
    ['api.a.lab', 'x.a.lab', 'own.a.lab', 'rest.lab', 't.lab', 'x.t.lab'].map(host => find(host)),
    ['a/api', 'a/api', 'unknown-host', 'b/rest', '/', '/'],
  );
  const api = compileListener({ on: ':2', balancers: [], agents: [], idTlv: [], only: ['api', 'h2'] });
  assert.equal(find('x.lab', [], undefined, api), 'unknown-host');
  assert.equal(find(undefined, [], undefined, api), 'no-sni');
  assert.equal(find('192.0.2.1', [], undefined, api), 'no-sni');
  assert.equal(find('x.lab', ['h2'], undefined, api), 'b/h2');

  const http = (host: string, listener = everything) => nameOf(routeHttp(table, listener, host));
  assert.deepEqual(
    ['a.lab', 'b.lab', '192.0.2.1', '2001:db8::1', 'api.a.lab'].map(host => http(host)),
    ['a/apps-http', 'b/apps-http', 'b/apps-http', 'b/apps-http', 'b/apps-http'],
  );
  assert.equal(http('b.lab', api), 'unknown-host');
  for (const name of ['x.lab', 'rest.lab', '192.0.2.1', '*'])
    assert.equal(nameOf(routeConnect(table, everything, name)), 'unknown-host', name);
});

const probes = [
  '192.0.2.1',
  'v.u.lab',
  'x.lab',
  'y.lab',
  'z.apps.lab',
  'q.apps.lab',
  'w.lab',
  'k.svc',
  'l.svc',
  'a',
  'b',
  'id-1',
  'id-2',
  'id-3',
];

/** Everything a client could learn about the table. */
function answers(table: Table): string[] {
  return probes.flatMap(name => [
    nameOf(routeTls(table, everything, name, [], undefined)),
    nameOf(routeTls(table, everything, name, ['own'], undefined)),
    nameOf(routeTls(table, everything, name, [], 'id-1')),
    nameOf(routeTls(table, everything, undefined, [], undefined)),
    nameOf(routeHttp(table, everything, name)),
    nameOf(routeConnect(table, everything, name)),
  ]);
}

test('Table.apply() step by step gives the same answers as a table built at once', () => {
  fc.assert(
    fc.property(fc.array(anyClusters, { minLength: 1, maxLength: 4 }), steps => {
      const author = new TableAuthor();
      const table = new Table();
      for (const clusters of steps.map(step => plan(step).clusters)) {
        const { removed, put, freed } = author.change(clusters, backend => [backend.host]);
        table.apply(removed, put);
        author.recycle(freed);
        assert.deepEqual(answers(table), answers(tableOf(...clusters)));
      }
    }),
  );
});

test('TableAuthor.change() is empty when nothing changed, and keeps slots while cluster and kind stay', () => {
  fc.assert(
    fc.property(anyClusters, anyClusters, (before, after) => {
      const author = new TableAuthor();
      const slots = new Map<string, number>();
      for (const cluster of author.change(before, () => []).put) {
        for (const route of cluster.routes) slots.set(`${cluster.name}/${route.kind}`, route.slot);
      }
      assert.deepEqual(author.change(before, () => []).put, []);
      const used = new Set<number>(slots.values());
      for (const cluster of author.change(after, () => []).put) {
        for (const route of cluster.routes) {
          const known = slots.get(`${cluster.name}/${route.kind}`);
          if (known === undefined) assert.ok(!used.has(route.slot), 'a slot still in use was given out');
          else assert.equal(route.slot, known);
          used.add(route.slot);
          assert.deepEqual(author.routeAt(route.slot), { cluster: cluster.name, route: route.kind });
        }
      }
    }),
  );
});

test('Table.putTunnels() keeps its own names, which come, go and change sides with clusters in any order', () => {
  const author = new TableAuthor();
  const table = new Table();
  const serve = (...hosts: string[]) => {
    const clusters = hosts.length === 0 ? [] : [sampleCluster('a', { routes: [sampleRoute({ hosts })] })];
    const { removed, put } = author.change(clusters, backend => [backend.host]);
    table.apply(removed, put);
  };
  const find = (host: string) => nameOf(routeTls(table, everything, host, [], undefined));
  serve('api.a.lab', 't.lab');
  table.putTunnels(['*.tunnel.lab']);
  assert.deepEqual(['t.lab', 'x.tunnel.lab', 'y.lab'].map(find), ['a/api', '/', 'unknown-host']);
  // t.lab becomes a tunnel host: workers learn of tunnels before they learn of clusters.
  table.putTunnels(['t.lab']);
  serve('api.a.lab');
  assert.deepEqual(['t.lab', 'x.tunnel.lab'].map(find), ['/', 'unknown-host']);
  // And back.
  table.putTunnels([]);
  serve('api.a.lab', 't.lab');
  assert.deepEqual(['t.lab', 'api.a.lab'].map(find), ['a/api', 'a/api']);
});

test('TableAuthor.rename() finds every backend with that name, whatever changed before', () => {
  const withNames = anyClusters.map(clusters =>
    clusters.map(cluster => ({
      ...cluster,
      routes: cluster.routes.map(route => ({
        ...route,
        pool: {
          ...route.pool,
          backends: route.pool.backends.map(backend => ({ ...backend, host: `n${backend.port}.lab` })),
        },
      })),
    })),
  );
  fc.assert(
    fc.property(fc.array(withNames, { minLength: 1, maxLength: 4 }), steps => {
      const author = new TableAuthor();
      for (const clusters of steps) author.change(clusters, () => []);
      for (const name of ['n1.lab', 'n2.lab', 'n3.lab', 'n4.lab']) {
        const expected = Array.from(author.backends()).filter(({ backend }) =>
          backend.endsWith(`:${name[1]}`),
        );
        const renamed = author.rename(name, () => ['192.0.2.9']);
        assert.deepEqual(
          new Map(renamed),
          new Map(expected.map(({ slot }): [number, string[]] => [slot, ['192.0.2.9']])),
        );
      }
    }),
  );
});
