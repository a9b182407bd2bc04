// external-dns' DNSEndpoint (externaldns.k8s.io/v1alpha1): `*.<id>.<zone>` leads to the nodes of a cluster, to this gateway
// or to fixed addresses. One for each cluster with apps, and for each of Kubermatic, whose apps are on its nodes whether or
// not this gateway serves them.

import type { Cluster } from '../cluster/cluster.ts';
import { isWildcard } from '../cluster/hostname.ts';
import { DEFAULT_LEASE, type OutputOptions } from '../config/config.ts';
import { DNS_LABEL } from '../config/names.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf, type Resource, resource } from '../kube/resources.ts';
import { objectName } from './object-name.ts';
import type { Desired, DesiredObject, NewOutput } from './output.ts';
import { perCluster } from './per-cluster.ts';
import { clusterFinding } from './service-rules.ts';

type DnsEndpointOptions = OutputOptions['dnsEndpoint'];

export const dnsEndpoints: Resource<KubeObject> = resource(
  'externaldns.k8s.io/v1alpha1',
  'dnsendpoints',
  'DNSEndpoint',
);

/** external-dns 0.22 renamed its annotations, and older ones read only the old names. */
const TTL_ANNOTATIONS = ['external-dns.alpha.kubernetes.io/ttl', 'external-dns.kubernetes.io/ttl'];
const NOTHING: Desired = { objects: [], findings: [] };

export const newDnsEndpoint: NewOutput<DnsEndpointOptions> = (name, options, context) => {
  const { leaseNamespace = DEFAULT_LEASE.namespace } = context ?? {};
  return {
    name,
    resources: [dnsEndpoints],
    desired: perCluster(cluster => desiredDnsEndpoint(name, cluster, options, leaseNamespace)),
  };
};

function desiredDnsEndpoint(
  output: string,
  cluster: Cluster,
  options: DnsEndpointOptions,
  leaseNamespace: string,
): Desired {
  if (!isWanted(cluster)) return NOTHING;
  const dnsName = `*.${cluster.id?.toLowerCase()}.${options.zone}`;
  const isLabel = cluster.id !== undefined && DNS_LABEL.test(cluster.id.toLowerCase());
  if (!isLabel || !isWildcard(dnsName)) {
    const why = isLabel ? `'${dnsName}' is no host name` : 'its id is no DNS label, or it has none';
    const text = `output '${output}' has no name for it: ${why}`;
    const fix = isLabel ? 'Use a shorter zone' : 'Give it an id of letters, digits and inner hyphens';
    return { objects: [], findings: [clusterFinding(cluster, 'error', 'ZoneInvalid', text, fix)] };
  }
  const targets = targetsOf(cluster, options);
  const object: DesiredObject = {
    resource: dnsEndpoints,
    cluster,
    // Not known yet: what an earlier run has written still leads to its nodes.
    ...(targets.length === 0 && { asItIs: true }),
    object: dnsEndpoint(output, cluster, dnsName, targets, options, leaseNamespace),
  };
  return { objects: [object], findings: targets.length > 0 ? [] : noTargets(output, cluster) };
}

function isWanted({ origin, routes }: Cluster): boolean {
  return isOfKubermatic(origin.object?.apiVersion) || routes.some(({ kind }) => kind.startsWith('apps-http'));
}

function isOfKubermatic(apiVersion = ''): boolean {
  return apiVersion.startsWith('kubermatic.k8c.io/');
}

function targetsOf({ controlPlane }: Cluster, { targets, addresses }: DnsEndpointOptions): readonly string[] {
  if (targets === 'nodes') return controlPlane?.nodes ?? [];
  return targets === 'gateway' ? addresses : targets;
}

function dnsEndpoint(
  output: string,
  { name, origin }: Cluster,
  dnsName: string,
  targets: readonly string[],
  { ttlMs }: DnsEndpointOptions,
  leaseNamespace: string,
): KubeObject {
  const recordTTL = Math.round(ttlMs / 1000);
  const records = [
    { recordType: 'A', targets: targets.filter(address => !address.includes(':')) },
    { recordType: 'AAAA', targets: targets.filter(address => address.includes(':')) },
  ];
  const endpoints = records
    .filter(record => record.targets.length > 0)
    .map(record => ({ dnsName, recordTTL, ...record }));
  const metadata = {
    name: objectName(output, name),
    namespace: origin.object?.namespace || leaseNamespace,
    annotations: Object.fromEntries(TTL_ANNOTATIONS.map(key => [key, String(recordTTL)])),
  };
  const { kind } = dnsEndpoints;
  return { apiVersion: apiVersionOf(dnsEndpoints), kind, metadata, spec: { endpoints } } as KubeObject;
}

/** What is wrong with nodes that are followed is said by their source. */
function noTargets(output: string, cluster: Cluster): Desired['findings'] {
  if (isOfKubermatic(cluster.origin.object?.apiVersion)) return [];
  const text = `output '${output}' has no targets for it: its nodes are not known`;
  const fix = `Use targets: gateway or a list of addresses: nodes are known of Kubermatic's clusters only`;
  return [clusterFinding(cluster, 'warning', 'OutputRejected', text, fix)];
}
