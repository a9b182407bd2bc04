// HyperShift's HostedCluster, and the Routes of OpenShift in its control plane namespace: what is kept of them, and their
// fields as we read them. A field that cannot be read counts as absent, except where that would hide a mistake (host
// names) or let more clients in (allow lists): those are passed on as they are.

import type { SourceObject } from '../cluster/cluster.ts';
import { isRecord } from '../config/fields.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import { at, objectNameAt, pick, recordAt, type Shape, textAt } from './json-fields.ts';

export interface HostedCluster extends KubeObject {
  readonly spec?: unknown;
  readonly status?: unknown;
}

export interface OpenShiftRoute extends KubeObject {
  readonly spec?: unknown;
}

export const hostedClusters: Resource<HostedCluster> = resource(
  'hypershift.openshift.io/v1beta1',
  'hostedclusters',
  'HostedCluster',
);
export const openShiftRoutes: Resource<OpenShiftRoute> = resource('route.openshift.io/v1', 'routes', 'Route');

/** Routes without this label are for the ingress controller of the management cluster. */
export const HOSTED_ROUTES = 'hypershift.openshift.io/hosted-control-plane';

const ALLOW = 'causeway.dev/allow';
const PAUSED = 'causeway.dev/paused';
const ANNOTATIONS: Shape = { [ALLOW]: true, [PAUSED]: true };

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

/** Drops the fields that we never read: an object has hundreds. */
export function keepHostedCluster(object: HostedCluster): HostedCluster {
  const { apiVersion, kind, metadata, spec, status } = object;
  const { name, namespace, uid, creationTimestamp, annotations } = metadata;
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
      annotations: (pick(annotations, ANNOTATIONS) ?? {}) as Record<string, string>,
    },
    spec: pick(spec, SPEC),
    status: pick(status, STATUS),
  };
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
export interface HostedClusterFields {
  readonly object: SourceObject;
  readonly clusterId: unknown;
  readonly dnsName: unknown;
  readonly allowedCidrBlocks: unknown;
  /** Annotation `causeway.dev/allow`. */
  readonly allow: unknown;
  readonly isPaused: boolean;
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

export function readHostedCluster(given: HostedCluster): HostedClusterFields {
  const { apiVersion, kind, metadata, spec, status } = given;
  const annotations: Readonly<Record<string, unknown>> = metadata.annotations ?? {};
  const services = at(spec, 'services');
  return {
    object: {
      apiVersion,
      kind,
      namespace: metadata.namespace ?? '',
      name: metadata.name,
      uid: metadata.uid ?? '',
      createdAt: metadata.creationTimestamp ?? '',
    },
    clusterId: at(spec, 'clusterID'),
    dnsName: at(spec, 'kubeAPIServerDNSName'),
    allowedCidrBlocks: at(spec, 'networking.apiServer.allowedCIDRBlocks'),
    allow: annotations[ALLOW],
    isPaused: annotations[PAUSED] === 'true',
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
