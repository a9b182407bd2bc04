import assert from 'node:assert/strict';
import { test } from 'node:test';
import { httpEntries } from './http-entries.ts';
import type { ClusterEntry, RouteEntry } from './table.ts';

function routeOf(kind: string, slot: number): RouteEntry {
  const backends = [{ slot, text: '192.0.2.1:80', port: 80, addresses: ['192.0.2.1'] }];
  const names = { hosts: ['a.test'], connect: [], alpn: [] };
  return { slot, kind, ...names, proxyProtocol: 'none', redirect: false, balance: 'host', backends };
}

test('httpEntries() keeps every route, and the backends of HTTP routes only', () => {
  const entry: ClusterEntry = {
    slot: 1,
    name: 'a',
    limits: { connections: 5 },
    routes: [routeOf('apps-https', 1), routeOf('apps-http', 2)],
  };
  const [tls, http] = entry.routes;
  assert.deepEqual(httpEntries([entry]), [{ ...entry, routes: [{ ...tls, backends: [] }, http] }]);
});
