// The source of Clusters of Cluster API (cluster.x-k8s.io).
//
// Their controlPlaneEndpoint says how clients reach them, and clients should come to this gateway: it gives the host and
// never a backend. Backends are those of the Service that the option `service` names.

import type { Finding } from '../cluster/finding.ts';
import type { SourceOptions } from '../config/config.ts';
import { readHost } from '../config/host.ts';
import { quote } from '../config/reading.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { parseIp } from '../wire/ip-address.ts';
import { readRangeText } from './allow-ranges.ts';
import {
  type ClusterObject,
  clusterNameOf,
  commonFields,
  hasServiceName,
  keepClusterObject,
  toCluster,
} from './cluster-object.ts';
import { at, isSet, portAt } from './json-fields.ts';
import type { MadeCluster } from './made-cluster.ts';
import { openObjectSource } from './object-source.ts';
import { acceptedHost, type Report, reportTo } from './report.ts';
import type { ServiceLookup } from './service-lookup.ts';
import { serviceRoute } from './service-route.ts';
import type { OpenSource } from './source.ts';

type ClusterApiOptions = SourceOptions['clusterApi'];

export const clusterApiClusters: Resource<ClusterObject> = resource(
  'cluster.x-k8s.io/v1beta2',
  'clusters',
  'Cluster',
);
/** Both have the fields that we read. */
const VERSIONS = ['v1beta2', 'v1beta1'];
const ENDPOINT = 'spec.controlPlaneEndpoint';
const HOST = `${ENDPOINT}.host`;
const API_PORT = 6443;

export const openClusterApi: OpenSource<ClusterApiOptions> = (options, context, changed) => {
  const { service, via } = options;
  const { name: source } = context;
  return openObjectSource(
    {
      what: 'Clusters of Cluster API',
      resource: clusterApiClusters,
      versions: VERSIONS,
      keep: keepClusterApiCluster,
      make: (object, lookup) => clusterApiCluster(object, lookup, { source, service, via }),
    },
    options,
    context,
    changed,
  );
};

export function keepClusterApiCluster(object: ClusterObject): ClusterObject {
  return keepClusterObject(object, { spec: { controlPlaneEndpoint: { host: true, port: true } } });
}

export function clusterApiCluster(
  given: ClusterObject,
  lookup: ServiceLookup,
  options: Pick<ClusterApiOptions, 'service' | 'via'> & { readonly source: string },
): MadeCluster {
  const { source, via } = options;
  const fields = commonFields(given);
  const { object, isPaused } = fields;
  const { namespace, name } = object;
  const findings: Finding[] = [];
  const report = reportTo(findings, clusterNameOf(object), { source, object });
  if (!hasServiceName(fields, report)) return { findings };

  const host = hostOf(at(given.spec, 'controlPlaneEndpoint.host'), report);
  const allow = readRangeText(fields.allow, 'annotation causeway.dev/allow', report);
  const target = {
    namespace,
    names: [serviceName(options.service, name, namespace)] as const,
    // The endpoint's port is that of the gateway where clients come through it, so it is the last to try.
    ports: [undefined, 'kube-apiserver', API_PORT, portAt(given.spec, 'controlPlaneEndpoint.port')] as const,
    number: API_PORT,
    missingFix: `Create it, or say with service on the source what the Services of control planes are called: it is ${quote(options.service)}`,
    portFix: `Call the port of the API server https or kube-apiserver, or give it the number ${API_PORT}`,
  };
  const hosts = host === undefined ? [] : [host];
  const routes = [serviceRoute('api', hosts, target, { lookup, via, report })];
  const kubeconfig = { namespace, secret: `${name}-kubeconfig`, keys: ['value'] };
  return {
    cluster: toCluster(fields, source, { allow, routes, controlPlane: { isPaused, kubeconfig } }),
    findings,
  };
}

function serviceName(template: string, name: string, namespace: string): string {
  return template.replaceAll('{name}', () => name).replaceAll('{namespace}', () => namespace);
}

/** The infrastructure's controller sets it, at first there is none; for many it is an address. */
function hostOf(value: unknown, report: Report): string | undefined {
  const isAddress = typeof value === 'string' && parseIp(value.replace(/^\[|\]$/g, '')) !== undefined;
  if (isSet(value) && !isAddress) return acceptedHost(readHost(value), HOST, report);
  const why = isAddress ? `is the address ${value}, for which clients send no server name` : 'is not set';
  const yaml = 'spec: { controlPlaneEndpoint: { host: "api.example.com", port: 443 } }';
  report(
    'warning',
    'HostMissing',
    `${HOST} ${why}, so only the cluster's id leads to it`,
    `Use a host name that leads to this gateway: ${yaml}`,
  );
  return undefined;
}
