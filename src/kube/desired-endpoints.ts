// Computes the endpoints of a tenant's Service `default/kubernetes` from the endpoints that live: agents, or whatever
// else leads to its API server. Pure: all agents that see the same leases compute the same result, so it does not matter
// which of them writes it.
//
//   slice `kubernetes`         the Service's first family
//   slice `kubernetes-ipv6`    its second family, if any (or `kubernetes-ipv4`)
//   Endpoints `kubernetes`     only the first family: Endpoints support no second one

import { CLUSTER_LABEL, CLUSTER_NAME_ANNOTATION, MANAGER, ownLabels } from './cluster-label.ts';
import type { EndpointSlice, Endpoints, ObjectMeta } from './kube-object.ts';
import type { Family, ServiceEndpoint } from './service-endpoint.ts';

const SERVICE = 'kubernetes';
/** The limit that Kubernetes enforces per slice. */
const MAX_ENDPOINTS = 1000;

export const SLICE_MANAGER_LABEL = 'endpointslice.kubernetes.io/managed-by';
/** Every name that our slices can have. */
export const sliceNames = [SERVICE, `${SERVICE}-ipv4`, `${SERVICE}-ipv6`] as const;

export interface DesiredEndpoints {
  readonly slices: readonly EndpointSlice[];
  readonly endpoints: Endpoints;
  /** Agents that are left out: a slice has one port, and they listen on another one than most agents. */
  readonly otherPorts: readonly ServiceEndpoint[];
}

/** `families` in the Service's order. */
export function desiredEndpoints(
  cluster: string,
  families: readonly Family[],
  living: readonly ServiceEndpoint[],
): DesiredEndpoints {
  const served = living.filter(({ family }) => families.includes(family));
  const port = commonestPort(served);
  const addresses = (family: Family) => {
    const chosen = served.filter(each => each.family === family && each.port === port);
    return [...new Set(chosen.map(each => each.address))].toSorted().slice(0, MAX_ENDPOINTS);
  };
  const ports = port === undefined ? [] : [{ name: 'https', port, protocol: 'TCP' }];
  const { labels, annotations } = ownLabels(cluster);
  return {
    slices: families.map((family, i) => ({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: i === 0 ? SERVICE : `${SERVICE}-${family.toLowerCase()}`,
        namespace: 'default',
        labels: { ...labels, 'kubernetes.io/service-name': SERVICE, [SLICE_MANAGER_LABEL]: MANAGER },
        annotations,
      },
      addressType: family,
      endpoints: addresses(family).map(address => ({ addresses: [address], conditions: { ready: true } })),
      ports,
    })),
    endpoints: {
      apiVersion: 'v1',
      kind: 'Endpoints',
      metadata: {
        name: SERVICE,
        namespace: 'default',
        // Otherwise the controller that mirrors Endpoints to slices would add one besides ours.
        labels: { ...labels, 'endpointslice.kubernetes.io/skip-mirror': 'true' },
        annotations,
      },
      subsets:
        families.length === 0 || addresses(families[0]).length === 0
          ? []
          : [{ addresses: addresses(families[0]).map(ip => ({ ip })), ports }],
    },
    otherPorts: served.filter(each => each.port !== port),
  };
}

/** The lower port on a tie, so that all agents agree. */
function commonestPort(endpoints: readonly ServiceEndpoint[]): number | undefined {
  const counts = new Map<number, number>();
  for (const { port } of endpoints) counts.set(port, (counts.get(port) ?? 0) + 1);
  return [...counts].toSorted(([a, m], [b, n]) => n - m || a - b)[0]?.[0];
}

export function addressesOf(object: EndpointSlice | Endpoints): string[] {
  return 'subsets' in object || object.kind === 'Endpoints'
    ? ((object as Endpoints).subsets ?? []).flatMap(subset => subset.addresses?.map(({ ip }) => ip) ?? [])
    : ((object as EndpointSlice).endpoints ?? []).flatMap(endpoint => endpoint.addresses);
}

/** Whether an object has the desired content. Ignores what others have added, such as labels. */
export function isAsDesired<T extends EndpointSlice | Endpoints>(existing: T, desired: T): boolean {
  return (
    essence(existing) === essence(desired) &&
    has(existing.metadata.labels, desired.metadata.labels) &&
    has(existing.metadata.annotations, desired.metadata.annotations)
  );
}

/** The existing object with the desired content. */
export function corrected<T extends EndpointSlice | Endpoints>(existing: T, desired: T): T {
  const metadata: ObjectMeta = {
    ...existing.metadata,
    labels: { ...existing.metadata.labels, ...desired.metadata.labels },
    annotations: { ...existing.metadata.annotations, ...desired.metadata.annotations },
  };
  return { ...existing, ...desired, metadata };
}

/** Only the fields that we write, without defaults of the API server; empty lists equal absent ones. */
function essence(object: EndpointSlice | Endpoints): string {
  const portsOf = (ports: EndpointSlice['ports']) =>
    (ports ?? []).map(({ name, port, protocol }) => [name, port, protocol]);
  if (object.kind === 'Endpoints') {
    return JSON.stringify(
      ((object as Endpoints).subsets ?? []).map(({ addresses, notReadyAddresses, ports }) => [
        addresses?.map(({ ip }) => ip),
        notReadyAddresses?.length ?? 0,
        portsOf(ports),
      ]),
    );
  }
  const { addressType, endpoints, ports } = object as EndpointSlice;
  return JSON.stringify([
    addressType,
    (endpoints ?? []).map(({ addresses, conditions }) => [addresses, conditions?.ready]),
    portsOf(ports),
  ]);
}

/** Ignores the cluster's name: agents that use different cluster names would otherwise overwrite each other forever. */
function has(
  existing: Readonly<Record<string, string>> | undefined,
  wanted: Readonly<Record<string, string>> | undefined,
): boolean {
  return Object.entries(wanted ?? {}).every(
    ([key, value]) => key === CLUSTER_LABEL || key === CLUSTER_NAME_ANNOTATION || existing?.[key] === value,
  );
}
