// TenantControlPlanes and a lookup of Services for tests: a test states only what matters to it.

import type { Cluster } from '../cluster/cluster.ts';
import { apiVersionOf } from '../kube/resources.ts';
import type { FoundService, ServiceLookup } from './service-lookup.ts';
import { type TenantOptions, tenantCluster } from './tenant-cluster.ts';
import { kamaji, type TenantControlPlane, type TenantSystem } from './tenant-control-plane.ts';

export const UID = '592ee7b8-cd07-48cf-b754-76f370c3f87c';
export const CREATED = '2026-01-01T00:00:00Z';
export const DOMAIN = 'kamaji.clastix.io/ingress.domain';

export interface SampleTenant {
  readonly system?: TenantSystem;
  readonly namespace?: string;
  readonly name?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
  readonly status?: unknown;
}

export function sampleTenant(tenant: SampleTenant = {}): TenantControlPlane {
  const { system = kamaji, namespace = 'apezzuto', name = 'tenant-00', annotations, spec, status } = tenant;
  const { resource } = system;
  return {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    metadata: {
      name,
      namespace,
      uid: UID,
      creationTimestamp: CREATED,
      resourceVersion: '7',
      ...(annotations && { annotations }),
    },
    ...(spec !== undefined && { spec }),
    ...(status !== undefined && { status }),
  };
}

/** The object of Kamaji's own guide, with everything that it asks people to add. */
export function documentedTenant(
  namespace = 'apezzuto',
  name = 'tenant-00',
  domain = 'clastix.cloud',
): TenantControlPlane {
  const [api, konnectivity] = ['k8s', 'konnectivity'].map(kind => `${namespace}-${name}.${kind}.${domain}`);
  return sampleTenant({
    namespace,
    name,
    annotations: { [DOMAIN]: domain },
    spec: {
      kubernetes: { version: 'v1.31.0', kubelet: { cgroupfs: 'systemd' } },
      networkProfile: { certSANs: [api, konnectivity], port: 6443 },
      controlPlane: {
        deployment: { replicas: 2, extraArgs: { apiServer: ['--endpoint-reconciler-type=none'] } },
        service: { serviceType: 'ClusterIP' },
        ingress: { hostname: `${api}:443`, ingressClassName: 'unhandled' },
      },
      addons: {
        konnectivity: {
          server: { port: 8132 },
          agent: { extraArgs: [`--proxy-server-host=${konnectivity}`, '--proxy-server-port=443'] },
        },
      },
    },
  });
}

/** Finds a Service with both ports for every object, or what is given instead; always the same object for the same question. */
export function fixedLookup(
  instead?: FoundService,
  ports: readonly (number | string)[] = PORTS,
): ServiceLookup {
  const known = new Map<string, FoundService>();
  return {
    find(namespace, name, port, via) {
      const key = JSON.stringify([namespace, name, port, via]);
      const found = known.get(key) ?? instead ?? foundAt(namespace, name, port, via, ports);
      known.set(key, found);
      return found;
    },
  };
}

const PORTS: readonly (number | string)[] = ['kube-apiserver', 'konnectivity-server'];
const NUMBERS: Readonly<Record<string, number>> = { 'kube-apiserver': 6443, 'konnectivity-server': 8132 };

function foundAt(
  namespace: string,
  name: string,
  port: number | string | undefined,
  via: 'endpoints' | 'clusterIP',
  ports: readonly (number | string)[],
): FoundService {
  if (port === undefined || !ports.includes(port)) {
    return { kind: 'no-port', ports: ports.map(each => `${each} (${NUMBERS[each] ?? each})`) };
  }
  const number = typeof port === 'number' ? port : NUMBERS[port];
  const host = via === 'endpoints' ? '10.244.0.7' : '10.96.0.9';
  return {
    kind: 'found',
    service: { namespace, name, port: number },
    backends: [{ text: `${host}:${number}`, host, port: number }],
  };
}

/** What a test looks at: hosts and backends by kind, and findings as `severity code`. */
export function madeOf(
  object: TenantControlPlane,
  options: Partial<TenantOptions> = {},
  lookup: ServiceLookup = fixedLookup(),
) {
  const settings = { source: 'kamaji', system: kamaji, expose: 'annotated', via: 'endpoints' } as const;
  const { cluster, findings } = tenantCluster(object, lookup, { ...settings, ...options });
  return {
    cluster,
    findings,
    routes: cluster && routesOf(cluster),
    codes: findings.map(({ severity, code }) => `${severity} ${code}`).toSorted(),
  };
}

export function routesOf({ routes }: Cluster): Record<string, string> {
  return Object.fromEntries(
    routes.map(({ kind, hosts, pool: { backends } }) => [
      kind,
      `${hosts.join(' ')} → ${backends.map(({ text }) => text).join(' ')}`,
    ]),
  );
}
