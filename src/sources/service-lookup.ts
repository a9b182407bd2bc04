// Backends of a Service, for all sources in Kubernetes. service-backends.ts follows the API server; tests use a fixed one.

import type { Backend, ServicePort } from '../cluster/cluster.ts';

/** Selects a port of a Service by number or by name; undefined for the only one. */
export type PortChoice = number | string | undefined;

export interface ServiceLookup {
  /**
   * Never throws. As long as nothing about that Service has changed, it returns the same object, so that callers can
   * compare references.
   */
  find(namespace: string, name: string, port: PortChoice, via: 'endpoints' | 'clusterIP'): FoundService;
}

export type FoundService =
  | {
      readonly kind: 'found';
      readonly service: ServicePort;
      /** May be empty. Sorted, so that the order of events does not matter. */
      readonly backends: readonly Backend[];
      /** How many more endpoints there are than are used. */
      readonly leftOut?: number;
    }
  | { readonly kind: 'no-service' }
  /** `ports` as `name (number)`, for the finding. */
  | { readonly kind: 'no-port'; readonly ports: readonly string[] }
  /** ExternalName, or no ClusterIP where one is needed: a sentence fragment such as 'its type is ExternalName'. */
  | { readonly kind: 'unusable'; readonly why: string };
