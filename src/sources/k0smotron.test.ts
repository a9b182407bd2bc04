// Feature tests of k0smotron: given a Cluster, then its cluster and findings.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { definitionOf } from '../kube/definition.samples.ts';
import {
  controlPlaneObjects,
  lookupOf,
  NAMESPACE,
  type SampleControlPlane,
  type SampleObject,
  sampleObject,
  summaryOf,
} from './cluster-object.samples.ts';
import { kubeWorld } from './contract/kube-world.ts';
import { k0smotronCluster, k0smotronClusters, keepK0smotronCluster, openK0smotron } from './k0smotron.ts';
import { sourceContract } from './source.contract.ts';
import { UID } from './tenant.samples.ts';

const PORTS = { api: 30_443, konnectivity: 30_132 };
const PLANE: SampleControlPlane = { name: 'kmc-a', ports: PORTS };
const HOSTS = { apiHost: 'api.example.com', konnectivityHost: 'konnectivity.example.com' };
const API = 'api.example.com → 10.244.0.7:30443';
const KONNECTIVITY = 'konnectivity.example.com → 10.244.0.7:30132';

function made(
  object: SampleObject,
  planes: readonly SampleControlPlane[] = [PLANE],
  via: 'endpoints' | 'clusterIP' = 'endpoints',
) {
  const kept = keepK0smotronCluster(sampleObject(k0smotronClusters, object));
  return summaryOf(k0smotronCluster(kept, lookupOf(...planes), { source: 'k0smotron', via }));
}

test('a Cluster gives the hosts of its ingress, and the backends of its Service', () => {
  const ingress = { ...HOSTS, deploy: false, port: 443, className: 'nginx', annotations: { a: 'b', c: 7 } };
  const service = { type: 'ClusterIP', apiPort: 30_443, konnectivityPort: 30_132 };
  const { cluster, routes, findings } = made({ spec: { ingress, service, replicas: 3 } });
  assert.deepEqual(findings, []);
  assert.deepEqual(routes, { api: API, konnectivity: KONNECTIVITY });
  assert.deepEqual([cluster?.name, cluster?.id], ['tenants.a', UID]);
  assert.equal(cluster?.origin.object?.apiVersion, 'k0smotron.io/v1beta2');
  assert.deepEqual(
    cluster?.routes.map(({ service, pool }) => [service, pool.health.check]),
    [
      [{ namespace: NAMESPACE, name: 'kmc-a', port: 30_443 }, 'tls'],
      [{ namespace: NAMESPACE, name: 'kmc-a', port: 30_132 }, 'tcp'],
    ],
  );
  assert.deepEqual(cluster?.controlPlane, {
    isPaused: false,
    ingress: { className: 'nginx', annotations: { a: 'b' } },
    kubeconfig: { namespace: NAMESPACE, secret: 'a-kubeconfig', keys: ['value'] },
  });
});

interface Case {
  readonly given: string;
  readonly object: SampleObject;
  readonly planes?: readonly SampleControlPlane[];
  readonly via?: 'clusterIP';
  readonly expected: Record<string, string> | undefined;
  readonly codes?: readonly string[];
}

const LONG = 'l'.repeat(63);
const cases: readonly Case[] = [
  {
    given: 'via: clusterIP',
    object: { spec: { ingress: HOSTS } },
    via: 'clusterIP',
    expected: {
      api: 'api.example.com → 10.96.0.9:30443',
      konnectivity: 'konnectivity.example.com → 10.96.0.9:30132',
    },
  },
  {
    given: 'other ports, without names',
    object: { spec: { ingress: HOSTS, service: { apiPort: 6443, konnectivityPort: 8132 } } },
    planes: [{ ...PLANE, ports: { x: 6443, y: 8132 } }],
    expected: {
      api: 'api.example.com → 10.244.0.7:6443',
      konnectivity: 'konnectivity.example.com → 10.244.0.7:8132',
    },
  },
  {
    given: 'type: NodePort, whose Service has another name',
    object: { spec: { ingress: HOSTS, service: { type: 'NodePort' } } },
    planes: [{ name: 'kmc-a-nodeport', ports: PORTS }],
    expected: { api: API, konnectivity: KONNECTIVITY },
  },
  {
    given: 'type: LoadBalancer, whose Service has another name',
    object: { spec: { ingress: HOSTS, service: { type: 'LoadBalancer' } } },
    planes: [{ name: 'kmc-a-lb', ports: PORTS }],
    expected: { api: API, konnectivity: KONNECTIVITY },
  },
  {
    given: 'a name so long that k0smotron shortens that of the Service',
    object: { name: LONG, spec: { ingress: HOSTS } },
    planes: [{ name: `kmc-${'l'.repeat(53)}-7b8f7`, ports: PORTS }],
    expected: { api: API, konnectivity: KONNECTIVITY },
  },
  {
    given: 'no Service',
    object: { spec: { ingress: HOSTS } },
    planes: [],
    expected: { api: 'api.example.com → ', konnectivity: 'konnectivity.example.com → ' },
    codes: ['error ServiceMissing'],
  },
  {
    given: 'a Service without the port of konnectivity',
    object: { spec: { ingress: HOSTS } },
    planes: [{ ...PLANE, ports: { api: 30_443 } }],
    expected: { api: API, konnectivity: 'konnectivity.example.com → ' },
    codes: ['error PortMissing'],
  },
  {
    given: 'no ingress',
    object: { spec: { replicas: 1 } },
    expected: { api: ' → 10.244.0.7:30443' },
    codes: ['warning HostMissing'],
  },
  { given: 'no spec', object: {}, expected: { api: ' → 10.244.0.7:30443' }, codes: ['warning HostMissing'] },
  {
    given: 'no host for konnectivity',
    object: { spec: { ingress: { apiHost: 'api.example.com', konnectivityHost: '' } } },
    expected: { api: API },
    codes: ['error KonnectivityHostMissing'],
  },
  {
    given: 'the same host twice',
    object: { spec: { ingress: { apiHost: 'api.example.com', konnectivityHost: 'API.example.com.' } } },
    expected: { api: API },
    codes: ['error HostInvalid'],
  },
  {
    given: 'hosts that are none',
    object: { spec: { ingress: { apiHost: '192.0.2.1', konnectivityHost: 'a b\0' } } },
    expected: { api: ' → 10.244.0.7:30443' },
    codes: ['error HostInvalid', 'error HostInvalid'],
  },
  {
    given: 'fields of wrong types',
    object: {
      spec: {
        ingress: { apiHost: [7], konnectivityHost: {}, annotations: 'x', className: {} },
        service: { type: 7, apiPort: 'x', konnectivityPort: 1e9 },
      },
    },
    expected: { api: ' → 10.244.0.7:30443' },
    codes: ['error HostInvalid', 'error HostInvalid'],
  },
  {
    given: 'a name that no Service can have',
    object: { name: 'a.b', spec: { ingress: HOSTS } },
    expected: undefined,
    codes: ['error ServiceMissing'],
  },
];

for (const { given, object, planes, via, expected, codes = [] } of cases) {
  test(`given ${given}`, () => {
    const found = made(object, planes, via);
    assert.deepEqual(found.routes, expected);
    assert.deepEqual(found.codes, codes);
    for (const { origin } of found.findings) assert.equal(origin?.object?.uid, UID);
  });
}

test('annotations allow and paused count', () => {
  const annotations = { 'causeway.dev/allow': '10.0.0.0/8', 'causeway.dev/paused': 'true' };
  const { cluster } = made({ spec: { ingress: HOSTS }, annotations });
  assert.deepEqual(cluster?.allow, ['10.0.0.0/8']);
  assert.equal(cluster?.controlPlane?.isPaused, true);
});

sourceContract('k0smotron', () =>
  kubeWorld({
    open: openK0smotron,
    options: { via: 'endpoints' },
    resource: k0smotronClusters,
    definition: definitionOf(k0smotronClusters, ['v1beta2', 'v1beta1']),
    clusterName: key => `${NAMESPACE}.${key}`,
    object: key =>
      sampleObject(k0smotronClusters, {
        name: key,
        uid: `uid-${key}`,
        spec: { ingress: { apiHost: `api.${key}.test`, konnectivityHost: `k.${key}.test` } },
      }),
    beside: key => controlPlaneObjects({ name: `kmc-${key}`, ports: PORTS }),
    change: { spec: { ingress: { apiHost: 'other.test' } } },
    broken: [
      sampleObject(k0smotronClusters, { name: 'no-service', uid: 'uid-1', spec: { ingress: HOSTS } }),
      sampleObject(k0smotronClusters, {
        name: 'bad-host',
        uid: 'uid-2',
        spec: { ingress: { apiHost: 'a b' } },
      }),
      sampleObject(k0smotronClusters, { name: 'no-spec', uid: 'uid-3' }),
    ],
  }),
);
