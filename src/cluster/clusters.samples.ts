// Clusters for tests: a test states only what matters to it, and gets complete objects.

import * as fc from 'fast-check';
import type { Cluster, Origin, Route } from './cluster.ts';

export function sampleRoute(
  route: Partial<Omit<Route, 'pool'>> & { backends?: readonly string[] } = {},
): Route {
  const { backends = ['192.0.2.1:6443'], ...rest } = route;
  return {
    kind: 'api',
    hosts: [],
    connect: [],
    alpn: [],
    proxyProtocol: 'none',
    redirect: false,
    ...rest,
    pool: {
      balance: 'source',
      health: { check: 'tcp', everyMs: 5000, timeoutMs: 2000, rise: 2, fall: 3 },
      backends: backends.map(text => {
        const colon = text.lastIndexOf(':');
        return { text, host: text.slice(0, colon), port: Number(text.slice(colon + 1)) };
      }),
    },
  };
}

export function sampleCluster(name: string, cluster: Partial<Cluster> = {}): Cluster {
  return { name, origin: { source: 'file' }, limits: {}, identityRequired: false, routes: [], ...cluster };
}

/** Of an object in Kubernetes: `age` counts down to older ones. */
export function sampleOrigin(source: string, namespace: string, name: string, age = 0): Origin {
  return {
    source,
    object: {
      apiVersion: 'v1',
      kind: 'Service',
      namespace,
      name,
      uid: `uid-${namespace}-${name}`,
      createdAt: new Date(Date.UTC(2026, 0, 1) - age * 1000).toISOString(),
    },
  };
}

const names = fc.constantFrom('a', 'b', 'c', 'd');
const hosts = fc.constantFrom('x.lab', 'y.lab', '*.lab', '*.apps.lab', 'z.apps.lab', 'w.lab', '*');

const anyRoute = fc
  .record({
    kind: fc.constantFrom('api', 'konnectivity', 'apps-https', 'apps-http', 'oauth'),
    hosts: fc.uniqueArray(hosts, { maxLength: 3 }),
    connect: fc.uniqueArray(fc.constantFrom('k.svc', 'l.svc', 'a', 'id-1'), { maxLength: 2 }),
    alpn: fc.uniqueArray(fc.constantFrom('h2', 'own'), { maxLength: 1 }),
    backends: fc.uniqueArray(fc.constantFrom('192.0.2.1:1', '192.0.2.2:2', '192.0.2.3:3'), { maxLength: 3 }),
  })
  .map(sampleRoute);

/** Few names, so that clusters often conflict. */
export const anyClusters = fc.uniqueArray(
  fc
    .record({
      name: names,
      id: fc.option(fc.constantFrom('id-1', 'id-2', 'ID-3', 'b'), { nil: undefined }),
      routes: fc.uniqueArray(anyRoute, { maxLength: 4, selector: route => route.kind }),
    })
    .map(({ name, id, routes }) => sampleCluster(name, { routes, ...(id !== undefined && { id }) })),
  { maxLength: 4, selector: cluster => cluster.name },
);
