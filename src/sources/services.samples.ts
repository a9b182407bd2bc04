// Services and EndpointSlices for tests: a test states only what matters to it.

import type { EndpointSlice, KubeObject } from '../kube/kube-object.ts';

export interface SampleService {
  readonly namespace?: string;
  /** By their names after `causeway.dev/`. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly uid?: string;
}

/** With one port, 443, called https. */
export function sampleService(
  name: string,
  given: SampleService = {},
): KubeObject & { readonly spec: object } {
  const { namespace = 'team-a', annotations = {}, labels = {}, spec = {}, uid = `uid-${name}` } = given;
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace,
      uid,
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels,
      annotations: Object.fromEntries(
        Object.entries(annotations).map(([key, value]) => [`causeway.dev/${key}`, value]),
      ),
    },
    spec: {
      type: 'ClusterIP',
      clusterIPs: ['10.96.0.1'],
      ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 6443 }],
      ...spec,
    },
  };
}

export interface SampleSlice {
  readonly namespace?: string;
  readonly name?: string;
  readonly ready?: readonly string[];
  readonly notReady?: readonly string[];
  readonly addressType?: string;
  readonly ports?: readonly Readonly<Record<string, unknown>>[];
}

/** Of that Service, with one ready endpoint at port 6443. */
export function sampleSlice(service: string, given: SampleSlice = {}): EndpointSlice {
  const { namespace = 'team-a', name = `${service}-x`, ready = ['10.0.0.1'], notReady = [] } = given;
  const { addressType = 'IPv4', ports = [{ name: 'https', port: 6443, protocol: 'TCP' }] } = given;
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace, labels: { 'kubernetes.io/service-name': service } },
    addressType,
    endpoints: [
      ...ready.map(address => ({ addresses: [address], conditions: { ready: true } })),
      ...notReady.map(address => ({ addresses: [address], conditions: { ready: false } })),
    ],
    ports,
  } as EndpointSlice;
}
