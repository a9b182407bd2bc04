// The rights that each kind of source and output needs in Kubernetes: a table. rbac-for.ts turns it into objects.

import type { OutputSettings } from '../config/config.ts';
import { followsNamespaces, type KubernetesSource } from './servers-of.ts';

/** One resource and what may be done with it. */
export interface Right {
  readonly group: string;
  readonly resource: string;
  readonly verbs: readonly string[];
  /** Only objects with these names. */
  readonly names?: readonly string[];
  /** Absent: wherever the source looks. */
  readonly where?: 'cluster' | 'lease';
}

const READ = ['get', 'list', 'watch'] as const;
const WRITE = [...READ, 'create', 'patch', 'delete'] as const;

/** A custom resource, with the permission to look at its definition: deletions are believed only after that. */
function custom(resource: string, group: string, verbs: readonly string[], where?: 'cluster'): Right[] {
  return [
    { group, resource, verbs, ...(where && { where }) },
    {
      group: 'apiextensions.k8s.io',
      resource: 'customresourcedefinitions',
      names: [`${resource}.${group}`],
      verbs: ['get'],
      where: 'cluster',
    },
  ];
}

export interface RightsOptions {
  /** `causeway.dev/status` and the condition are written on the objects, or removed from them. */
  readonly annotates: boolean;
  /** See entersTenants(). */
  readonly entersTenants: boolean;
  /** See wantsNodes(). */
  readonly wantsNodes: boolean;
}

export function sourceRights(source: KubernetesSource, options: RightsOptions): readonly Right[] {
  const { kind } = source;
  const objects = kind === 'services' ? undefined : objectsOf[kind];
  const patches = options.annotates || ('fix' in source.options && source.options.fix);
  const objectVerbs = patches ? [...READ, 'patch'] : READ;
  // The Services that belong to its objects are in namespaces that cannot be listed beforehand.
  const where = followsNamespaces(source) ? ({ where: 'cluster' } as const) : {};
  // Events and a status on a Service whose claim is refused.
  const claims = kind === 'services' || kind === 'kubermatic';
  const rights: Right[] = [
    { group: '', resource: 'services', verbs: claims ? objectVerbs : READ, ...where },
    { group: 'events.k8s.io', resource: 'events', verbs: ['create'], ...where },
  ];
  if (claims && options.annotates)
    rights.push({ group: '', resource: 'services/status', verbs: ['patch'], ...where });
  if (objects !== undefined)
    rights.unshift(...custom(...objects, objectVerbs, kind === 'kubermatic' ? 'cluster' : undefined));
  if (kind === 'hypershift') rights.push(...custom('routes', 'route.openshift.io', READ, 'cluster'));
  if (source.options.via === 'endpoints')
    rights.push({ group: 'discovery.k8s.io', resource: 'endpointslices', verbs: READ, ...where });
  const followsNodes = kind === 'kubermatic' && (source.options.zone !== undefined || options.wantsNodes);
  if (options.entersTenants && objects !== undefined)
    rights.push({ group: '', resource: 'secrets', verbs: ['get'], ...where });
  else if (followsNodes)
    rights.push({ group: '', resource: 'secrets', names: ['admin-kubeconfig'], verbs: ['get'], ...where });
  return rights;
}

/** The plural and the API group. */
const objectsOf: Readonly<Record<Exclude<KubernetesSource['kind'], 'services'>, readonly [string, string]>> =
  {
    kamaji: ['tenantcontrolplanes', 'kamaji.clastix.io'],
    steward: ['tenantcontrolplanes', 'steward.butlerlabs.dev'],
    hypershift: ['hostedclusters', 'hypershift.openshift.io'],
    kubermatic: ['clusters', 'kubermatic.k8c.io'],
    clusterApi: ['clusters', 'cluster.x-k8s.io'],
    k0smotron: ['clusters', 'k0smotron.io'],
  };

const ingresses: Right = { group: 'networking.k8s.io', resource: 'ingresses', verbs: WRITE };
const ingressRoutes = custom('ingressroutetcps', 'traefik.io', WRITE);

export function outputRights({ kind, options }: OutputSettings): readonly Right[] {
  switch (kind) {
    case 'ingress':
      // Steward's controllerType may be traefik.
      return options.flavor === 'fromCluster' ? [ingresses, ...ingressRoutes] : [ingresses];
    case 'ingressRouteTCP':
      return ingressRoutes;
    case 'tlsRoute':
      return custom('tlsroutes', 'gateway.networking.k8s.io', WRITE);
    case 'transportServer':
      return custom('transportservers', 'k8s.nginx.org', WRITE);
    case 'dnsEndpoint': {
      const rights = custom('dnsendpoints', 'externaldns.k8s.io', WRITE);
      // Those of clusters that are in no namespace.
      return [
        ...rights,
        { group: 'externaldns.k8s.io', resource: 'dnsendpoints', verbs: WRITE, where: 'lease' },
      ];
    }
    case 'dnsServer':
    case 'tenantAgent':
    case 'tenantEndpoints':
      return [];
  }
}

/** The name of a Lease that does not exist yet cannot be checked, so `create` is for all of that namespace. */
export function leaseRights(name: string): readonly Right[] {
  const lease = { group: 'coordination.k8s.io', resource: 'leases', where: 'lease' } as const;
  return [
    { ...lease, verbs: ['create'] },
    { ...lease, names: [name], verbs: ['get', 'update'] },
  ];
}
