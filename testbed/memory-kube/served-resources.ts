// Which resources an API server in memory serves: some of Kubernetes' own, and those of its CustomResourceDefinitions.

import type { ApiGroup, ApiResource } from '../../src/kube/kube-api.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { isBuiltIn, type Resource } from '../../src/kube/resources.ts';

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
/** What is left while a CustomResourceDefinition is being deleted. */
const LAST_VERBS = ['delete', 'deletecollection', 'get', 'list', 'watch'];

/** For discovery, and which have a status of their own. Others of Kubernetes' own groups are served nevertheless. */
const BUILT_IN = `
v1 configmaps ConfigMap, v1 endpoints Endpoints, v1 namespaces Namespace cluster status, v1 nodes Node cluster status,
v1 pods Pod status, v1 secrets Secret, v1 serviceaccounts ServiceAccount, v1 services Service status,
apps/v1 daemonsets DaemonSet status, apps/v1 deployments Deployment status,
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition cluster status,
coordination.k8s.io/v1 leases Lease, discovery.k8s.io/v1 endpointslices EndpointSlice, events.k8s.io/v1 events Event,
networking.k8s.io/v1 ingresses Ingress status, networking.k8s.io/v1 servicecidrs ServiceCIDR cluster status,
rbac.authorization.k8s.io/v1 clusterroles ClusterRole cluster,
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding cluster,
rbac.authorization.k8s.io/v1 roles Role, rbac.authorization.k8s.io/v1 rolebindings RoleBinding`;

export interface Definition extends KubeObject {
  readonly spec: {
    readonly group: string;
    readonly scope: 'Namespaced' | 'Cluster';
    readonly names: { readonly plural: string; readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly subresources?: { readonly status?: object };
    }[];
  };
}

interface Served extends ApiResource {
  readonly group: string;
  readonly version: string;
  readonly hasStatus: boolean;
}

const builtIn: readonly Served[] = BUILT_IN.split(',').map(line => {
  const [apiVersion, plural, kind, ...flags] = line.trim().split(/\s+/);
  const [version, group = ''] = apiVersion.split('/').toReversed();
  const namespaced = !flags.includes('cluster');
  return { group, version, plural, kind, namespaced, verbs: VERBS, hasStatus: flags.includes('status') };
});

export function isServed(resource: Resource<KubeObject>, definitions: readonly Definition[]): boolean {
  return isBuiltIn(resource) || find(resource, definitions) !== undefined;
}

export function hasStatus(resource: Resource<KubeObject>, definitions: readonly Definition[]): boolean {
  return find(resource, definitions)?.hasStatus ?? false;
}

/** Undefined where there is no such group. */
export function discovered(group: string, definitions: readonly Definition[]): ApiGroup | undefined {
  const resources = allServed(definitions).filter(each => each.group === group);
  const versions = [...new Set(resources.map(({ version }) => version))].toSorted(byPreference);
  if (versions.length === 0) return undefined;
  return {
    versions: versions.map(version => ({
      version,
      resources: resources
        .filter(each => each.version === version)
        .map(({ plural, kind, namespaced, verbs }) => ({ plural, kind, namespaced, verbs })),
    })),
  };
}

function find({ group, version, plural }: Resource<KubeObject>, definitions: readonly Definition[]) {
  return allServed(definitions).find(
    each => each.group === group && each.version === version && each.plural === plural,
  );
}

function allServed(definitions: readonly Definition[]): readonly Served[] {
  const custom = definitions.flatMap(({ metadata, spec: { group, scope, names, versions } }) =>
    versions
      .filter(({ served }) => served)
      .map(({ name, subresources }) => ({
        group,
        version: name,
        plural: names.plural,
        kind: names.kind,
        namespaced: scope === 'Namespaced',
        verbs: metadata.deletionTimestamp === undefined ? VERBS : LAST_VERBS,
        hasStatus: subresources?.status !== undefined,
      })),
  );
  return [...builtIn, ...custom];
}

/** Kubernetes' own order: stable before beta before alpha, then the higher number. */
function byPreference(a: string, b: string): number {
  const rank = (version: string) => {
    const [, major = '0', stage = 'stable', minor = '0'] =
      /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(version) ?? [];
    return [['alpha', 'beta', 'stable'].indexOf(stage), Number(major), Number(minor)];
  };
  const [x, y] = [rank(a), rank(b)];
  return y[0] - x[0] || y[1] - x[1] || y[2] - x[2];
}
