// Services for the backends of files, for `causeway render`. What outputs write leads to Services, and clusters of files
// have none: each route gets one without a selector, and EndpointSlices with its addresses. Pure.
//
// The Service has a cluster IP and is not headless: ingress-nginx passes TLS through to the cluster IP, and the others
// accept either.

import type { Backend, Cluster, Route } from '../cluster/cluster.ts';
import { beginningAndHash, CLUSTER_LABEL, clusterLabel, MANAGED_BY_LABEL } from '../kube/cluster-label.ts';
import { SLICE_MANAGER_LABEL } from '../kube/desired-endpoints.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf, endpointSlices, services } from '../kube/resources.ts';
import { type ServiceEndpoint, serviceEndpoint } from '../kube/service-endpoint.ts';

/**
 * Not `causeway`: a running gateway takes objects with that value and its instance for its own, and would remove them,
 * since no output of its file wants them.
 */
const RENDERED = 'causeway-render';
/** The same in Service and EndpointSlices: by the name of the port controllers match the two. */
const PORT_NAME = 'tls';
const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';
const MAX_NAME = 63;
/** The limit that Kubernetes enforces per slice. */
const MAX_ENDPOINTS = 1000;

/** What the controller that reads the objects does with a Service of type ExternalName. */
export interface ExternalNames {
  readonly isServed: boolean;
  /** What it needs for that, or why it does not. */
  readonly note: string;
}

export interface ServiceOptions {
  /** Empty: that of whoever applies the objects. */
  readonly namespace: string;
  readonly externalNames: ExternalNames;
  /** The controller takes only endpoints whose port is the Service's targetPort. */
  readonly onePort: boolean;
}

export interface RenderedServices {
  /** Each route with its Service. Routes without one, and those that carry no TLS, are left out. */
  readonly clusters: readonly Cluster[];
  readonly objects: ReadonlyMap<Cluster['name'], readonly KubeObject[]>;
  /** What of the backends is not in the objects. */
  readonly notes: readonly string[];
}

export function renderServices(given: readonly Cluster[], options: ServiceOptions): RenderedServices {
  const taken = new Set<string>();
  const notes: string[] = [];
  const objects = new Map<string, readonly KubeObject[]>();
  const clusters = given.map(cluster => {
    const routes: Route[] = [];
    const ofCluster: KubeObject[] = [];
    for (const route of cluster.routes) {
      if (route.kind === 'apps-http' || route.hosts.length === 0) continue;
      const note = (text: string) => void notes.push(`cluster '${cluster.name}', ${route.kind}: ${text}`);
      const backing = backingOf(route, options, note);
      if (backing === undefined) continue;
      const name = serviceName(cluster.name, route.kind, taken);
      ofCluster.push(...objectsOf(name, cluster.name, backing, options.namespace));
      routes.push({ ...route, service: { namespace: options.namespace, name, port: backing.port } });
    }
    objects.set(cluster.name, ofCluster);
    return { ...cluster, routes };
  });
  return { clusters, objects, notes };
}

/** Name and labels of an object that somebody applies by hand. */
export function renderedMetadata(name: string, cluster: string | undefined, namespace: string) {
  return {
    name,
    ...(namespace !== '' && { namespace }),
    labels: {
      [MANAGED_BY_LABEL]: RENDERED,
      ...(cluster !== undefined && { [CLUSTER_LABEL]: clusterLabel(cluster) }),
    },
  };
}

/** A legal name for any object: as it is, or with a hash where it is too long or `taken`. */
export function uniqueName(text: string, hashed: string, taken: Set<string>): string {
  const name = text.length > MAX_NAME || taken.has(text) ? beginningAndHash(text, hashed) : text;
  taken.add(name);
  return name;
}

interface Backing {
  /** Of the Service. */
  readonly port: number;
  readonly endpoints: readonly ServiceEndpoint[];
  /** Instead of endpoints. */
  readonly externalName?: string;
}

function backingOf(
  { pool }: Route,
  { externalNames, onePort }: ServiceOptions,
  note: (text: string) => void,
): Backing | undefined {
  const endpoints: ServiceEndpoint[] = [];
  const names: Backend[] = [];
  for (const backend of pool.backends) {
    const parsed = serviceEndpoint(backend.host, backend.port);
    if ('endpoint' in parsed) endpoints.push(parsed.endpoint);
    else if (parsed.refused === 'not an IP address') names.push(backend);
    else
      note(`backend ${backend.text} is left out: Kubernetes refuses ${parsed.refused} in an EndpointSlice`);
  }
  const [first] = endpoints;
  if (first === undefined) return externalBacking(names, externalNames, note);
  for (const { text } of names) {
    note(`backend ${text} is left out: an EndpointSlice has addresses, not names; give its addresses`);
  }
  const kept = onePort ? endpoints.filter(({ port }) => port === first.port) : endpoints;
  if (kept.length < endpoints.length) {
    const others = endpoints
      .filter(({ port }) => port !== first.port)
      .map(({ address, port }) => `${address} port ${port}`);
    note(`left out: ${others.join(', ')}: the controller takes one port for all backends, ${first.port}`);
  }
  for (const address of addressesWithSeveralPorts(kept)) {
    note(`${address} has several ports: some controllers, such as Traefik, use one port of an address`);
  }
  return { port: first.port, endpoints: kept };
}

function addressesWithSeveralPorts(endpoints: readonly ServiceEndpoint[]): readonly string[] {
  const byAddress = Map.groupBy(endpoints, ({ address }) => address);
  return [...byAddress].filter(([, same]) => same.length > 1).map(([address]) => address);
}

function externalBacking(
  names: readonly Backend[],
  { isServed, note: why }: ExternalNames,
  note: (text: string) => void,
): Backing | undefined {
  const [first, ...others] = names;
  if (first === undefined || !isServed) {
    const reason =
      first === undefined ? 'it has no backend' : `${first.text} is a name, and ${why}; give its addresses`;
    note(`its hosts are left out: ${reason}`);
    return undefined;
  }
  for (const { text } of others) note(`backend ${text} is left out: an ExternalName Service has one name`);
  note(`${first.text} becomes a Service of type ExternalName: ${why}`);
  return { port: first.port, endpoints: [], externalName: first.host };
}

/** RFC 1035: begins with a letter, at most 63 characters. */
function serviceName(cluster: string, kind: string, taken: Set<string>): string {
  const plain = `${cluster}-${kind}`;
  return uniqueName(/^[a-z]/.test(plain) ? plain : `c-${plain}`, `${cluster} ${kind}`, taken);
}

function objectsOf(
  name: string,
  cluster: string,
  { port, endpoints, externalName }: Backing,
  namespace: string,
): readonly KubeObject[] {
  const ports = [{ name: PORT_NAME, port, protocol: 'TCP' }];
  const metadata = renderedMetadata(name, cluster, namespace);
  const hasIpv6 = endpoints.some(({ family }) => family === 'IPv6');
  const service = {
    apiVersion: apiVersionOf(services),
    kind: services.kind,
    metadata,
    spec: {
      ...(externalName !== undefined && { type: 'ExternalName', externalName }),
      // Only a cluster IP of the same family leads to an endpoint.
      ...(hasIpv6 && { ipFamilyPolicy: 'PreferDualStack' }),
      ports,
    },
  };
  return [service, ...slicesOf(name, metadata, endpoints)];
}

/** A slice has one family and one port. */
function slicesOf(
  service: string,
  metadata: ReturnType<typeof renderedMetadata>,
  endpoints: readonly ServiceEndpoint[],
): readonly KubeObject[] {
  const main = endpoints[0]?.port;
  const groups = Map.groupBy(endpoints, ({ family, port }) => {
    const suffix = port === main ? '' : `-${port}`;
    return `${service}-${family.toLowerCase()}${suffix}`;
  });
  return [...groups].flatMap(([name, group]) => {
    const [{ family, port }] = group;
    const addresses = [...new Set(group.map(({ address }) => address))];
    const parts = Array.from({ length: Math.ceil(addresses.length / MAX_ENDPOINTS) }, (_, i) =>
      addresses.slice(i * MAX_ENDPOINTS, (i + 1) * MAX_ENDPOINTS),
    );
    return parts.map((part, i) => ({
      apiVersion: apiVersionOf(endpointSlices),
      kind: endpointSlices.kind,
      metadata: {
        ...metadata,
        name: i === 0 ? name : `${name}-part${i + 1}`,
        labels: { ...metadata.labels, [SERVICE_NAME_LABEL]: service, [SLICE_MANAGER_LABEL]: RENDERED },
      },
      addressType: family,
      ports: [{ name: PORT_NAME, port, protocol: 'TCP' }],
      endpoints: part.map(address => ({ addresses: [address], conditions: { ready: true } })),
    }));
  });
}
