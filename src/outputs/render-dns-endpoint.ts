// `causeway render dns-endpoint`: the hosts of a file as DNSEndpoints, which external-dns writes to a DNS server. One for
// each cluster, with a record for each of its hosts, and `*.<id>.<zone>` where the file has an output dnsEndpoint. Pure.

import type { Config } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf } from '../kube/resources.ts';
import { plan } from '../plan/plan.ts';
import { dnsEndpoints, newDnsEndpoint } from './dns-endpoint.ts';
import { entry, type Rendered } from './render-objects.ts';
import { renderedMetadata } from './render-services.ts';

const DEFAULT_TTL_SECONDS = 60;
/** Of the object for the hosts of `tunnel`, which no cluster has. A cluster's name has no dot. */
const TUNNEL = 'causeway.tunnel';

export interface DnsEndpointRequest {
  /** Empty: that of whoever applies the objects. */
  readonly namespace: string;
  /** Of the gateway. Empty: not known. */
  readonly addresses: readonly string[];
  /** Names that need a record besides the hosts, with the reason. */
  readonly hidden: readonly { readonly name: string; readonly because: string }[];
}

interface Endpoint {
  readonly dnsName: string;
  readonly recordTTL: number;
  readonly recordType: string;
  readonly targets: readonly string[];
}

export function renderDnsEndpoints(
  config: Config,
  { namespace, addresses, hidden }: DnsEndpointRequest,
): Rendered {
  const { options, notes: several } = entry(config, 'dnsEndpoint');
  const ttl = options === undefined ? DEFAULT_TTL_SECONDS : Math.round(options.ttlMs / 1000);
  const notes = [...several];
  const byZone = new Map<string, readonly Endpoint[]>();
  if (options !== undefined) {
    const targets = options.targets === 'gateway' && addresses.length > 0 ? addresses : options.targets;
    const { objects, findings } = newDnsEndpoint('dns-endpoint', { ...options, targets }).desired(
      plan(config.clusters),
    );
    for (const { cluster, object } of objects) byZone.set(cluster.name, endpointsOf(object));
    for (const { cluster, text } of findings) notes.push(`cluster '${cluster}': ${text}`);
  }
  if (addresses.length === 0) {
    notes.push('hosts of the file are left out: give the addresses of the gateway with --address');
  }
  const groups = config.clusters.flatMap(({ name, routes }) => {
    const hosts = new Set(routes.flatMap(route => route.hosts).filter(host => host !== '*'));
    const covered = hidden.filter(each => hosts.has(`*.${each.name.slice(each.name.indexOf('.') + 1)}`));
    for (const each of covered)
      notes.push(`cluster '${name}': '${each.name}' has a record too: ${each.because}`);
    const names = [...hosts, ...covered.map(each => each.name)];
    const own = names.flatMap(dnsName => records(dnsName, addresses, ttl));
    const zone = (byZone.get(name) ?? []).filter(
      ({ dnsName }) => own.length === 0 || !names.includes(dnsName),
    );
    const endpoints = [...own, ...zone];
    return endpoints.length === 0
      ? []
      : [{ cluster: name, objects: [dnsEndpoint(name, name, namespace, endpoints)] }];
  });
  const tunnel = (config.tunnel?.hosts ?? []).flatMap(host => records(host, addresses, ttl));
  if (config.sources.length > 0)
    notes.push('hosts of clusters that its sources bring are not among these objects');
  return {
    groups:
      tunnel.length === 0
        ? groups
        : [...groups, { objects: [dnsEndpoint(TUNNEL, undefined, namespace, tunnel)] }],
    notes,
  };
}

function endpointsOf(object: KubeObject): readonly Endpoint[] {
  return (object as KubeObject & { readonly spec: { readonly endpoints: readonly Endpoint[] } }).spec
    .endpoints;
}

function records(dnsName: string, addresses: readonly string[], recordTTL: number): readonly Endpoint[] {
  const ofType = (recordType: string, targets: readonly string[]) =>
    targets.length === 0 ? [] : [{ dnsName, recordTTL, recordType, targets }];
  return [
    ...ofType(
      'A',
      addresses.filter(address => !address.includes(':')),
    ),
    ...ofType(
      'AAAA',
      addresses.filter(address => address.includes(':')),
    ),
  ];
}

function dnsEndpoint(
  name: string,
  cluster: string | undefined,
  namespace: string,
  endpoints: readonly Endpoint[],
): KubeObject {
  return {
    apiVersion: apiVersionOf(dnsEndpoints),
    kind: dnsEndpoints.kind,
    metadata: renderedMetadata(name, cluster, namespace),
    spec: { endpoints },
  } as KubeObject;
}
