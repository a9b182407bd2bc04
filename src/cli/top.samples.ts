// Answers of the admin API for tests of `causeway top`.

import type { ClusterAnswer, RouteAnswer } from '../admin/clusters.ts';
import type { StatusAnswer } from '../admin/status.ts';
import type { Sample } from './top-figures.ts';

const recent = { opened: 0, bytesIn: 0, bytesOut: 0, reasons: {} };

export function sampleRoute(route: Partial<RouteAnswer> = {}): RouteAnswer {
  return {
    kind: 'api',
    hosts: ['api.lab'],
    balance: 'source',
    backends: [{ address: '192.0.2.1:6443', up: true, health: 'tls', connections: 0 }],
    connections: 0,
    bytesIn: 0,
    bytesOut: 0,
    reasons: {},
    recent,
    ...route,
  };
}

export function sampleCluster(name: string, routes: readonly RouteAnswer[] = [sampleRoute()]): ClusterAnswer {
  return { name, id: null, source: 'file', object: null, routes, findings: [] };
}

/** Its total is the sum of its routes. */
export function sample(
  at: number,
  clusters: readonly ClusterAnswer[],
  status: Partial<StatusAnswer> = {},
): Sample {
  const routes = clusters.flatMap(cluster => cluster.routes);
  const sum = (figure: (route: RouteAnswer) => number) =>
    routes.reduce((total, route) => total + figure(route), 0);
  const ended = sum(({ reasons }) => Object.values(reasons).reduce((total, count) => total + count, 0));
  const traffic = {
    connections: ended,
    bytesIn: sum(({ bytesIn }) => bytesIn),
    bytesOut: sum(({ bytesOut }) => bytesOut),
    reasons: {},
    recent: {
      opened: sum(route => route.recent.opened),
      bytesIn: sum(route => route.recent.bytesIn),
      bytesOut: sum(route => route.recent.bytesOut),
      reasons: {},
    },
  };
  return {
    at,
    clusters,
    status: {
      version: '0.1.0',
      engine: 'epoll',
      workers: 2,
      uptimeSeconds: 600 + at / 1000,
      generation: 1,
      listeners: [],
      config: { ok: true, error: null, restartNeeded: [] },
      sources: [],
      leader: false,
      findings: [],
      counts: {
        clusters: clusters.length,
        routes: routes.length,
        hosts: 0,
        connections: sum(route => route.connections),
        draining: 0,
      },
      health: { backends: 0, down: 0, stretch: 1 },
      traffic: { ...traffic, unrouted: traffic },
      ...status,
    },
  };
}
