// Which endpoints a tenant's Service `default/kubernetes` should have: the Pods of our agent that run, or one address.
// Pure.

import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { type ServiceEndpoint, serviceEndpoint } from '../kube/service-endpoint.ts';
import { AGENT_PORT, agentLabels } from './tenant-agent-pod.ts';

export interface Pod extends KubeObject {
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly podIPs?: readonly { readonly ip?: string }[];
  };
}
export const pods: Resource<Pod> = resource('v1', 'pods', 'Pod');

export const AGENTS_SELECTOR = Object.entries(agentLabels)
  .map(([key, value]) => `${key}=${value}`)
  .join(',');

/** Those of Pods that run, whatever their node or readiness says: before a network is up, no node is ready. */
export function endpointsOfPods(all: readonly Pod[]): readonly ServiceEndpoint[] {
  const addresses = all
    .filter(({ metadata, status }) => status?.phase === 'Running' && metadata.deletionTimestamp === undefined)
    .flatMap(({ status }) => status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP]);
  return [...new Set(addresses)].toSorted().flatMap(address => endpointsOfAddress(address ?? ''));
}

/** It starts or ends. Pods that failed may stay for long. */
export function isMoving({ metadata, status }: Pod): boolean {
  return status?.phase === 'Pending' || metadata.deletionTimestamp !== undefined;
}

/** Empty for an address that can be no endpoint. */
export function endpointsOfAddress(address: string): readonly ServiceEndpoint[] {
  const parsed = serviceEndpoint(address, AGENT_PORT);
  return 'endpoint' in parsed ? [parsed.endpoint] : [];
}
