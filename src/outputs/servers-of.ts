// The API servers that sources name, each with its sources: rights are granted, and objects written, per server. Clusters of
// files are in none. An output that writes objects for them writes to the first server in the file, or to the pod's own.

import { type Config, DEFAULT_LEASE, type OutputSettings, type SourceSettings } from '../config/config.ts';
import { type KubeServer, serverKey } from '../kube/kube-servers.ts';

export type KubernetesSource = Exclude<SourceSettings, { kind: 'directory' }>;

export interface ServerSources {
  /** The same for the same server. */
  readonly key: string;
  readonly server: KubeServer;
  readonly sources: readonly KubernetesSource[];
  /** Where clusters and so their objects can be. Absent: everywhere. */
  readonly namespaces?: readonly string[];
  /** The objects of clusters of files are written here, in the namespace of the lease. */
  readonly hasFiles?: boolean;
}

/** In the order of the file. */
export function serversOf(config: Pick<Config, 'sources' | 'outputs' | 'lease'>): readonly ServerSources[] {
  const { sources, outputs, lease = DEFAULT_LEASE } = config;
  const servers = serversOfSources(sources);
  if (!outputs.some(({ kind }) => kind === 'dnsEndpoint')) return servers;
  const [first = OWN_SERVER, ...others] = servers;
  const namespaces = first.namespaces && [...new Set([...first.namespaces, lease.namespace])];
  return [{ ...first, ...(namespaces && { namespaces }), hasFiles: true }, ...others];
}

/** Of the pod. */
const OWN_SERVER: ServerSources = { key: serverKey({}), server: {}, sources: [], namespaces: [] };

function serversOfSources(sources: readonly SourceSettings[]): readonly ServerSources[] {
  const inKubernetes = sources.filter((source): source is KubernetesSource => source.kind !== 'directory');
  const groups = Map.groupBy(inKubernetes, ({ options }) => serverKey(options));
  return [...groups].map(([key, group]) => {
    const { kubeconfig, context } = group[0].options;
    const namespaces = namespacesOf(group);
    return { key, server: { kubeconfig, context }, sources: group, ...(namespaces && { namespaces }) };
  });
}

/** `namespaces` are those of its objects only; what belongs to an object is in a namespace of its own. */
export function followsNamespaces({ kind }: KubernetesSource): boolean {
  return kind === 'hypershift' || kind === 'kubermatic';
}

function namespacesOf(sources: readonly KubernetesSource[]): readonly string[] | undefined {
  const all = new Set<string>();
  for (const source of sources) {
    const { namespaces } = source.options;
    if (namespaces === undefined || followsNamespaces(source)) return undefined;
    for (const namespace of namespaces) all.add(namespace);
  }
  return [...all];
}

/** Whether an output works inside the clusters, with the admin kubeconfigs in the management cluster's Secrets. */
export function entersTenants(outputs: readonly OutputSettings[]): boolean {
  return outputs.some(({ kind }) => kind === 'tenantAgent' || kind === 'tenantEndpoints');
}

/** Whether an output needs the addresses of clusters' nodes. */
export function wantsNodes(outputs: readonly OutputSettings[]): boolean {
  return outputs.some(
    ({ kind, options }) => (kind === 'dnsEndpoint' || kind === 'dnsServer') && options.targets === 'nodes',
  );
}
