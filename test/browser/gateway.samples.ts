// Sample answers of a gateway: three clusters of a lab, one with a backend that is down; or hundreds. They have the types
// of the admin side: if the dashboard's own types (dashboard/api.ts) disagree, its tests do not compile.

import type { Connection } from '../../dashboard/api.ts';
import type { ClusterAnswer, RouteAnswer } from '../../src/admin/clusters.ts';
import type { StatusAnswer } from '../../src/admin/status.ts';
import type { Balance, HealthCheck } from '../../src/cluster/cluster.ts';
import type { ConnectionFields } from '../../src/gateway/control/connection-fields.ts';

export type ConnectionAnswer = ConnectionFields & { readonly id: string };

export function sampleStatus(change: Partial<StatusAnswer> = {}): StatusAnswer {
  return {
    version: '0.1.0',
    engine: 'epoll',
    workers: 4,
    uptimeSeconds: 273_845.2,
    generation: 17,
    listeners: [
      { on: ':6443', address: '[::]:6443' },
      { on: ':443', address: '[::]:443' },
    ],
    config: { ok: true, error: null, restartNeeded: [] },
    sources: [{ name: 'file', up: true, synced: true, error: null }],
    leader: false,
    findings: [],
    counts: { clusters: 3, routes: 9, hosts: 12, connections: 412, draining: 0 },
    traffic: {
      connections: 184_220,
      bytesIn: 48_211_000_000,
      bytesOut: 913_400_000_000,
      reasons: {
        done: 171_008,
        'client-reset': 9_120,
        'no-data': 2_210,
        'unknown-host': 904,
        'no-sni': 512,
        'connect-failed': 311,
        'not-allowed': 118,
        'backend-reset': 37,
      },
      recent: {
        opened: 902,
        bytesIn: 161_000_000,
        bytesOut: 2_940_000_000,
        reasons: { done: 840, 'client-reset': 31, 'no-data': 12, 'unknown-host': 9, 'connect-failed': 4 },
      },
      unrouted: {
        connections: 3_626,
        bytesIn: 790_000,
        bytesOut: 12_000,
        reasons: { 'no-data': 2_210, 'unknown-host': 904, 'no-sni': 512 },
        recent: {
          opened: 21,
          bytesIn: 4_700,
          bytesOut: 63,
          reasons: { 'no-data': 12, 'unknown-host': 9 },
        },
      },
    },
    health: { backends: 14, down: 1, stretch: 1 },
    ...change,
  };
}

export function sampleClusters(): readonly ClusterAnswer[] {
  return [
    {
      name: 'blue',
      id: '0b9c7c0e-6d2c-4d7b-9d5c-2f3f0a2f8f11',
      source: 'file',
      object: null,
      routes: [
        route(
          'api',
          ['api.blue.example.com'],
          ['10.10.1.11:6443', '10.10.1.12:6443', '10.10.1.13:6443'],
          132,
          'tls',
        ),
        route(
          'konnectivity',
          ['konnectivity.blue.example.com'],
          ['10.10.1.11:8132', '10.10.1.12:8132'],
          24,
          'tcp',
          'round-robin',
        ),
        route(
          'apps-https',
          ['*.apps.blue.example.com', 'shop.example.com'],
          ['10.10.1.20:443', '10.10.1.21:443'],
          88,
          'tls',
        ),
      ],
      findings: [],
    },
    {
      name: 'green',
      id: null,
      source: 'file',
      object: null,
      routes: [
        {
          ...route(
            'api',
            ['api.green.example.com'],
            ['10.10.2.11:6443', '10.10.2.12:6443', '10.10.2.13:6443'],
            61,
            'tls',
          ),
          backends: [
            { address: '10.10.2.11:6443', up: true, connections: 34, health: 'tls' },
            {
              address: '10.10.2.12:6443',
              up: false,
              health: 'tls',
              since: '2026-11-15T09:10:30.601Z',
              why: 'connection refused',
              connections: 0,
            },
            { address: '10.10.2.13:6443', up: true, connections: 27, health: 'tls' },
          ],
          reasons: { done: 20_931, 'connect-failed': 311, 'client-reset': 1_204, 'not-allowed': 118 },
          recent: {
            opened: 96,
            bytesIn: 8_300_000,
            bytesOut: 230_000_000,
            reasons: { done: 88, 'connect-failed': 4 },
          },
        },
        route(
          'konnectivity',
          ['konnectivity.green.example.com'],
          ['10.10.2.11:8132'],
          12,
          'tcp',
          'round-robin',
        ),
        route('apps-https', ['*.apps.green.example.com'], ['10.10.2.20:443'], 40, 'tls'),
      ],
      findings: [],
    },
    {
      name: 'red',
      id: 'red-cluster',
      source: 'kamaji',
      object: null,
      routes: [
        route('api', ['api.red.example.com', 'api.red.internal'], ['cp.red.internal:6443'], 31, 'https'),
        route('apps-https', ['*.apps.red.example.com'], ['10.10.3.20:443'], 20, 'tls'),
        route('apps-http', ['*.apps.red.example.com'], ['10.10.3.20:80'], 4, 'http', 'host'),
      ],
      findings: [
        {
          severity: 'warning',
          code: 'HostClaimed',
          text: "Host 'shop.example.com' belongs to cluster 'blue', which claimed it first",
          fix: 'Take it out of one of the two',
        },
      ],
    },
  ];
}

/** Many clusters; every 23rd has a backend that is down. */
export function manyClusters(count: number): readonly ClusterAnswer[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `tenant-${String(index + 1).padStart(3, '0')}`;
    const net = `10.${20 + Math.floor(index / 250)}.${index % 250}`;
    const api = route(
      'api',
      [`api.${name}.example.com`],
      [`${net}.11:6443`, `${net}.12:6443`],
      (index * 37) % 211,
      'tls',
    );
    const backends = api.backends.map((backend, place) => ({
      ...backend,
      up: index % 23 !== 7 || place > 0,
    }));
    return {
      name,
      id: null,
      source: 'kamaji',
      object: null,
      routes: [
        { ...api, backends },
        route(
          'konnectivity',
          [`konnectivity.${name}.example.com`],
          [`${net}.11:8132`],
          (index * 7) % 13,
          'tcp',
        ),
        route('apps-https', [`*.apps.${name}.example.com`], [`${net}.20:443`], (index * 13) % 61, 'tls'),
      ],
      findings: [],
    };
  });
}

export function sampleConnections(): readonly ConnectionAnswer[] {
  const clusters = ['blue', 'green', 'red'];
  return Array.from({ length: 8 }, (_, index) => {
    const cluster = clusters[index % 3];
    return {
      id: `0-${40 + index}-3`,
      listener: ':6443',
      peer: `198.51.100.${20 + index}:5${index}123`,
      client: `198.51.100.${20 + index}:5${index}123`,
      origin: null,
      protocol: 'tls',
      host: `api.${cluster}.example.com`,
      clusterId: null,
      cluster,
      route: 'api',
      backend: `10.10.${(index % 3) + 1}.11:6443`,
      error: null,
      in: 18_204 * (index + 1),
      out: 1_204_882 * (index + 3),
      ms: 61_000 * (index + 1) ** 2,
      dialMs: 1.2,
    };
  }) satisfies readonly Connection[];
}

function route(
  kind: string,
  hosts: readonly string[],
  addresses: readonly string[],
  connections: number,
  health: HealthCheck,
  balance: Balance = 'source',
): RouteAnswer {
  return {
    kind,
    hosts,
    backends: addresses.map((address, index) => ({
      address,
      up: true,
      connections: share(connections, addresses.length, index),
      health,
    })),
    connections,
    bytesIn: connections * 41_000_000,
    bytesOut: connections * 1_130_000_000,
    reasons: connections === 0 ? {} : { done: connections * 411, 'client-reset': connections * 3 },
    recent: {
      opened: connections * 2,
      bytesIn: connections * 137_000,
      bytesOut: connections * 3_766_000,
      reasons: connections === 0 ? {} : { done: connections * 2 },
    },
    balance,
  };
}

/** The first gets the remainder. */
function share(total: number, parts: number, index: number): number {
  return Math.floor(total / parts) + (index === 0 ? total % parts : 0);
}
