// HostedClusters, their Routes and Services for tests: a test states only what matters to it.

import { definitionOf } from '../kube/definition.samples.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { ClusterObject } from './cluster-object.ts';
import { HOSTED_ROUTES, hostedClusters, type OpenShiftRoute, openShiftRoutes } from './hosted-cluster.ts';

export const CLUSTER_ID = '4954e6da-fc87-4e74-9861-05895fe9549d';
export const CREATED = '2026-01-01T00:00:00Z';

export interface SampleHostedCluster {
  readonly namespace?: string;
  readonly name?: string;
  readonly uid?: string;
  readonly createdAt?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
  readonly status?: unknown;
}

export function sampleHostedCluster(given: SampleHostedCluster = {}): ClusterObject {
  const { namespace = 'clusters', name = 'a', uid = `uid-${name}`, createdAt = CREATED } = given;
  const { labels, annotations, spec, status } = given;
  return {
    apiVersion: 'hypershift.openshift.io/v1beta1',
    kind: 'HostedCluster',
    metadata: {
      name,
      namespace,
      uid,
      creationTimestamp: createdAt,
      ...(labels && { labels }),
      ...(annotations && { annotations }),
    },
    ...(spec !== undefined && { spec }),
    ...(status !== undefined && { status }),
  };
}

/** The spec of a cluster that is published as on ARO: every service by a Route, all under one domain. */
export function publishedSpec(domain: string, rest: object = {}) {
  const byRoute = (service: string, host: string) => ({
    service,
    servicePublishingStrategy: { type: 'Route', route: { hostname: `${host}.${domain}` } },
  });
  return {
    clusterID: CLUSTER_ID,
    services: [
      byRoute('APIServer', 'api'),
      byRoute('OAuthServer', 'oauth'),
      byRoute('Konnectivity', 'konnectivity'),
      byRoute('Ignition', 'ignition'),
    ],
    ...rest,
  };
}

/** Of the Service that HyperShift's Route of that name leads to. */
const routeServices: Readonly<Record<string, readonly [service: string, port: number]>> = {
  'kube-apiserver': ['kube-apiserver', 6443],
  'konnectivity-server': ['konnectivity-server', 8091],
  oauth: ['oauth-openshift', 6443],
  'ignition-server': ['ignition-server-proxy', 443],
  'metrics-proxy': ['metrics-proxy', 443],
};

export function sampleRoute(namespace: string, name: string, host: unknown, service?: unknown) {
  const to = { kind: 'Service', name: service ?? routeServices[name]?.[0] ?? name };
  const route: OpenShiftRoute = {
    apiVersion: 'route.openshift.io/v1',
    kind: 'Route',
    metadata: { name, namespace, labels: { [HOSTED_ROUTES]: namespace } },
    spec: { ...(host !== undefined && { host }), to, tls: { termination: 'passthrough' } },
  };
  return route;
}

/** The Routes of HyperShift for a cluster under one domain. */
export function sampleRoutes(namespace: string, domain: string): readonly OpenShiftRoute[] {
  const host = { 'kube-apiserver': 'api', 'konnectivity-server': 'konnectivity', oauth: 'oauth' };
  const others = { 'ignition-server': 'ignition', 'metrics-proxy': 'metrics' };
  return Object.entries({ ...host, ...others }).map(([name, label]) =>
    sampleRoute(namespace, name, `${label}.${domain}`),
  );
}

export function sampleService(namespace: string, name: string, port: number, ip = '172.31.0.9'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, uid: `uid-${namespace}-${name}`, creationTimestamp: CREATED },
    spec: { type: 'ClusterIP', clusterIP: ip, clusterIPs: [ip], ports: [{ port, protocol: 'TCP' }] },
  } as KubeObject;
}

/** All Services of a control plane. */
export function sampleServices(namespace: string): readonly KubeObject[] {
  return Object.values(routeServices).map(([name, port]) => sampleService(namespace, name, port));
}

export const definitions = {
  hostedClusters: definitionOf(hostedClusters),
  routes: definitionOf(openShiftRoutes),
};
