// Objects of Cluster API and k0smotron with their Services for tests: a test states only what matters to it.

import { keyOf } from '../kube/kept-objects.ts';
import { apiVersionOf, endpointSlices, type Resource, services } from '../kube/resources.ts';
import type { ClusterObject } from './cluster-object.ts';
import { keepService } from './kept-service.ts';
import { keepSlice } from './kept-slice.ts';
import type { MadeCluster } from './made-cluster.ts';
import { ServiceIndex } from './service-index.ts';
import type { ServiceLookup } from './service-lookup.ts';
import { sampleService, sampleSlice } from './services.samples.ts';
import { CREATED, routesOf, UID } from './tenant.samples.ts';

export const NAMESPACE = 'tenants';

export interface SampleObject {
  readonly name?: string;
  readonly uid?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
}

/** `tenants/a`. */
export function sampleObject(resource: Resource<ClusterObject>, given: SampleObject = {}): ClusterObject {
  const { name = 'a', uid = UID, annotations, spec } = given;
  return {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    metadata: {
      name,
      namespace: NAMESPACE,
      uid,
      creationTimestamp: CREATED,
      ...(annotations && { annotations }),
    },
    ...(spec !== undefined && { spec }),
  };
}

/** A Service with these ports, and one endpoint that has the same. */
export interface SampleControlPlane {
  readonly name: string;
  readonly ports: Readonly<Record<string, number>>;
  readonly spec?: Readonly<Record<string, unknown>>;
}

export function controlPlaneObjects({ name, ports: given, spec = {} }: SampleControlPlane) {
  const ports = Object.entries(given).map(([port, number]) => ({
    name: port,
    port: number,
    protocol: 'TCP',
  }));
  const address = { namespace: NAMESPACE, ready: ['10.244.0.7'], ports };
  return [
    [
      services,
      sampleService(name, { namespace: NAMESPACE, spec: { clusterIPs: ['10.96.0.9'], ports, ...spec } }),
    ],
    [endpointSlices, sampleSlice(name, address)],
  ] as const;
}

export function lookupOf(...planes: readonly SampleControlPlane[]): ServiceLookup {
  const index = new ServiceIndex();
  const objects = planes.map(controlPlaneObjects);
  index.update(
    new Map(objects.map(([[, service]]) => [keyOf(service), keepService(service)])),
    new Map(objects.map(([, [, slice]]) => [keyOf(slice), keepSlice(slice)])),
  );
  return index;
}

/** What a test looks at: hosts and backends by kind, and findings as `severity code`. */
export function summaryOf({ cluster, findings }: MadeCluster) {
  return {
    cluster,
    findings,
    routes: cluster && routesOf(cluster),
    codes: findings.map(({ severity, code }) => `${severity} ${code}`).toSorted(),
  };
}
