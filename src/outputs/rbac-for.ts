// `causeway render rbac`: the least that the ServiceAccount needs for the sources and outputs of a file, as Roles and
// ClusterRoles with their bindings. Pure. Sources may be in several API servers; each gets objects of its own.

import { type Config, DEFAULT_LEASE, type Lease } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { leaseRights, outputRights, type Right, type RightsOptions, sourceRights } from './rbac-rights.ts';
import {
  entersTenants,
  type KubernetesSource,
  type ServerSources,
  serversOf,
  wantsNodes,
} from './servers-of.ts';

const SERVICE_ACCOUNT = 'causeway';
const API_GROUP = 'rbac.authorization.k8s.io';
const API_VERSION = `${API_GROUP}/v1`;

export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

export interface RbacObject extends KubeObject {
  readonly rules?: readonly PolicyRule[];
  readonly roleRef?: { readonly apiGroup: string; readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly kind: string; readonly name: string; readonly namespace: string }[];
}

/** What one API server needs. */
export interface ServerRbac {
  /** Lines for people: which API server it is, and what RBAC cannot narrow. */
  readonly notes: readonly string[];
  readonly objects: readonly RbacObject[];
}

/** Empty where nothing in Kubernetes is read or written. The pod's own API server comes first. */
export function rbacFor(config: Config): readonly ServerRbac[] {
  const { outputs, lease = DEFAULT_LEASE } = config;
  const servers: readonly Pick<ServerSources, 'sources' | 'namespaces'>[] = serversOf(config);
  const writesObjects = outputs.some(output => outputRights(output).length > 0);
  if (servers.length === 0 && !writesObjects) return [];
  const options = {
    annotates: config.statusAnnotation !== false,
    entersTenants: entersTenants(outputs),
    wantsNodes: wantsNodes(outputs),
  };
  const nowhere = { sources: [], namespaces: [lease.namespace] };
  return (servers.length === 0 ? [nowhere] : servers)
    .toSorted((a, b) => Number(isElsewhere(a.sources)) - Number(isElsewhere(b.sources)))
    .map(({ sources: group, namespaces }, index) => {
      const name = `${SERVICE_ACCOUNT}:${lease.namespace}.${lease.name}${index === 0 ? '' : `:${index + 1}`}`;
      const scopes = scopesOf(group, namespaces, outputs.flatMap(outputRights), lease, options);
      return {
        notes: [...serverNote(group), ...secretNotes(scopes)],
        objects: scopes.flatMap(({ namespace, rules }) => role(name, namespace, rules, lease)),
      };
    });
}

function isElsewhere([source]: readonly KubernetesSource[]): boolean {
  return source?.options.kubeconfig !== undefined;
}

interface Scope {
  /** Absent: the whole cluster. */
  readonly namespace?: string;
  readonly rules: readonly PolicyRule[];
}

function scopesOf(
  sources: readonly KubernetesSource[],
  namespaces: readonly string[] | undefined,
  outputs: readonly Right[],
  lease: Lease,
  options: RightsOptions,
): readonly Scope[] {
  const granted = new GrantedRights();
  for (const right of leaseRights(lease.name)) granted.add(right, [lease.namespace]);
  for (const source of sources) {
    const own = source.options.namespaces;
    for (const right of sourceRights(source, options)) granted.add(right, placesOf(right, own, lease));
  }
  for (const right of outputs) granted.add(right, placesOf(right, namespaces, lease));
  return granted.scopes();
}

const EVERYWHERE = [undefined] as const;

function placesOf(
  { where }: Right,
  namespaces: readonly string[] | undefined,
  lease: Lease,
): readonly (string | undefined)[] {
  if (where === 'lease') return [lease.namespace];
  return where === 'cluster' ? EVERYWHERE : (namespaces ?? EVERYWHERE);
}

/** Rights by namespace, joined: what is granted for the whole cluster is not granted again in a namespace. */
class GrantedRights {
  readonly #verbs = new Map<string | undefined, Map<string, { right: Right; verbs: Set<string> }>>();

  add(right: Right, places: readonly (string | undefined)[]): void {
    const { group, resource, names = [], verbs } = right;
    const key = [group, resource, ...names].join('/');
    for (const place of places) {
      const rights = this.#verbs.get(place) ?? new Map();
      this.#verbs.set(place, rights);
      const known = rights.get(key) ?? { right, verbs: new Set() };
      rights.set(key, known);
      for (const verb of verbs) known.verbs.add(verb);
    }
  }

  scopes(): readonly Scope[] {
    const everywhere = this.#verbs.get(undefined);
    return [...this.#verbs]
      .toSorted(([a = ''], [b = '']) => (a < b ? -1 : a > b ? 1 : 0))
      .map(([namespace, rights]) => {
        const rules = [...rights].flatMap(([key, { right, verbs }]) => {
          const has = namespace === undefined ? undefined : everywhere?.get(key)?.verbs;
          const left = [...verbs].filter(verb => !has?.has(verb));
          return left.length === 0 ? [] : [ruleOf(right, left)];
        });
        return { ...(namespace !== undefined && { namespace }), rules };
      })
      .filter(({ rules }) => rules.length > 0);
  }
}

function ruleOf({ group, resource, names }: Right, verbs: readonly string[]): PolicyRule {
  return {
    apiGroups: [group],
    resources: [resource],
    ...(names && { resourceNames: names }),
    verbs,
  };
}

function role(
  name: string,
  namespace: string | undefined,
  rules: readonly PolicyRule[],
  lease: Lease,
): readonly RbacObject[] {
  const prefix = namespace === undefined ? 'Cluster' : '';
  const metadata = {
    name,
    ...(namespace !== undefined && { namespace }),
    labels: { 'app.kubernetes.io/name': SERVICE_ACCOUNT },
  };
  const kind = `${prefix}Role`;
  return [
    { apiVersion: API_VERSION, kind, metadata, rules },
    {
      apiVersion: API_VERSION,
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: API_GROUP, kind, name },
      subjects: [{ kind: 'ServiceAccount', name: SERVICE_ACCOUNT, namespace: lease.namespace }],
    },
  ];
}

function serverNote([source]: readonly KubernetesSource[]): readonly string[] {
  const { kubeconfig, context } = source?.options ?? {};
  if (kubeconfig === undefined) return [];
  const which = context === undefined ? '' : `, context ${JSON.stringify(context)}`;
  return [
    `For the API server of kubeconfig ${JSON.stringify(kubeconfig)}${which}. If its user is not this ServiceAccount,`,
    'replace the subjects.',
  ];
}

function secretNotes(scopes: readonly Scope[]): readonly string[] {
  const has = ({ rules }: Scope) => rules.some(({ resources }) => resources.includes('secrets'));
  const reading = scopes.filter(has);
  if (reading.length === 0) return [];
  const where = reading.some(({ namespace }) => namespace === undefined) ? 'the cluster' : 'its namespaces';
  return [
    `secrets: get covers every Secret of ${where}. Each tenant's admin kubeconfig has a name of its own, and RBAC`,
    'knows no patterns. To narrow it, list `namespaces` in the source and keep nothing else in them.',
  ];
}
