// HyperShift's HostedCluster, and the Routes of OpenShift in its control plane namespace: what is kept of them, and their
// fields as we read them. A field that cannot be read counts as absent, except where that would hide a mistake (host
// names) or let more clients in (allow lists): those are passed on as they are.

import type { SourceObject } from '../cluster/cluster.ts';
import { isRecord } from '../config/is-record.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { type ClusterObject, type CommonFields, commonFields, keepClusterObject } from './cluster-object.ts';
import { at, objectNameAt, recordAt, type Shape, textAt } from './json-fields.ts';

export interface OpenShiftRoute extends KubeObject {
  readonly spec?: unknown;
}

export const hostedClusters: Resource<ClusterObject> = resource(
  'hypershift.openshift.io/v1beta1',
  'hostedclusters',
  'HostedCluster',
);
export const openShiftRoutes: Resource<OpenShiftRoute> = resource('route.openshift.io/v1', 'routes', 'Route');

/** Routes without this label are for the ingress controller of the management cluster. */
export const HOSTED_ROUTES = 'hypershift.openshift.io/hosted-control-plane';

/** Where each platform says who can reach the endpoints: `Public`, `PublicAndPrivate` or `Private`. */
const ENDPOINT_ACCESS = ['aws.endpointAccess', 'azure.topology', 'gcp.endpointAccess'];
/** Strategies with a hostname. */
const HOSTNAMES: ReadonlyMap<string | undefined, string> = new Map([
  ['Route', 'route.hostname'],
  ['LoadBalancer', 'loadBalancer.hostname'],
]);
/** The definition admits 6. */
const MAX_SERVICES = 20;

const SPEC: Shape = {
  clusterID: true,
  kubeAPIServerDNSName: true,
  networking: { apiServer: { allowedCIDRBlocks: true } },
  services: true,
  platform: { aws: { endpointAccess: true }, azure: { topology: true }, gcp: { endpointAccess: true } },
};
const STATUS: Shape = { kubeconfig: { name: true } };

export function keepHostedCluster(object: ClusterObject): ClusterObject {
  return keepClusterObject(object, { spec: SPEC, status: STATUS });
}

export interface KeptRoute {
  readonly namespace: string;
  readonly name: string;
  /** Still to be checked. */
  readonly host: unknown;
  /** The Service that it leads to. */
  readonly service: string | undefined;
}

export function keepRoute({ metadata, spec }: OpenShiftRoute): KeptRoute {
  const isService = (textAt(spec, 'to.kind') ?? 'Service') === 'Service';
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    host: at(spec, 'host'),
    service: isService ? objectNameAt(spec, 'to.name') : undefined,
  };
}

/** The fields of an object. `unknown` ones are still to be checked. */
export interface HostedClusterFields extends CommonFields {
  readonly clusterId: unknown;
  readonly dnsName: unknown;
  readonly allowedCidrBlocks: unknown;
  /** Its endpoints are for clients in private networks only. */
  readonly isPrivate: boolean;
  readonly publishing: readonly Publishing[];
  readonly adminSecret: string | undefined;
}

/** An entry of `spec.services`. */
export interface Publishing {
  /** `APIServer`, `OAuthServer`, … */
  readonly service: string | undefined;
  readonly isRoute: boolean;
  readonly hostname: unknown;
}

export function readHostedCluster(given: ClusterObject): HostedClusterFields {
  const { spec, status } = given;
  const services = at(spec, 'services');
  return {
    ...commonFields(given),
    clusterId: at(spec, 'clusterID'),
    dnsName: at(spec, 'kubeAPIServerDNSName'),
    allowedCidrBlocks: at(spec, 'networking.apiServer.allowedCIDRBlocks'),
    isPrivate: ENDPOINT_ACCESS.some(path => at(spec, `platform.${path}`) === 'Private'),
    publishing: (Array.isArray(services) ? services : [])
      .slice(0, MAX_SERVICES)
      .filter(isRecord)
      .map(publishingOf),
    adminSecret: objectNameAt(status, 'kubeconfig.name'),
  };
}

/** The address of a NodePort is no host: it is that of a node, the same for all clusters. */
function publishingOf(entry: Readonly<Record<string, unknown>>): Publishing {
  const strategy = recordAt(entry, 'servicePublishingStrategy');
  const type = textAt(strategy, 'type');
  const path = HOSTNAMES.get(type);
  return {
    service: textAt(entry, 'service'),
    isRoute: type === 'Route',
    hostname: path === undefined ? undefined : at(strategy, path),
  };
}

/** HyperShift's own rule. */
export function controlPlaneNamespace({ namespace, name }: Pick<SourceObject, 'namespace' | 'name'>): string {
  return `${namespace}-${name.replaceAll('.', '-')}`;
}
