// Joins each HostedCluster with the Routes of its control plane namespace. Nothing is made anew that has not changed, so
// that rememberClusters() can compare references.

import type { ClusterObject } from './cluster-object.ts';
import type { KeptRoute } from './hosted-cluster.ts';
import { controlPlaneNamespace } from './hosted-cluster.ts';

export interface HostedControlPlane {
  readonly object: ClusterObject;
  readonly namespace: string;
  /** Sorted by name. */
  readonly routes: readonly KeptRoute[];
  /**
   * An older HostedCluster with the same control plane namespace, as `<namespace>/<name>`: `a-b/c` and `a/b-c` both have
   * `a-b-c`. Whoever may create the younger one must not get at the control plane of the older.
   */
  readonly owner: string | undefined;
}

type ControlPlanes = ReadonlyMap<string, HostedControlPlane>;

const NO_ROUTES: readonly KeptRoute[] = [];

export function joinControlPlanes(
  objects: ReadonlyMap<string, ClusterObject>,
  routes: ReadonlyMap<string, KeptRoute>,
  before: ControlPlanes,
): ControlPlanes {
  const routesOf = Map.groupBy(routes.values(), ({ namespace }) => namespace);
  const owners = new Map<string, readonly [string, ClusterObject]>();
  for (const [key, object] of objects) {
    const namespace = namespaceOf(object);
    const owner = owners.get(namespace);
    if (owner === undefined || isOlder(object, owner[1])) owners.set(namespace, [key, object]);
  }
  const joined = new Map<string, HostedControlPlane>();
  for (const [key, object] of objects) {
    const namespace = namespaceOf(object);
    const [owner] = owners.get(namespace) ?? [key];
    const found = routesOf.get(namespace)?.toSorted((a, b) => (a.name < b.name ? -1 : 1)) ?? NO_ROUTES;
    const now = { object, namespace, routes: found, owner: owner === key ? undefined : owner };
    const known = before.get(key);
    joined.set(key, known !== undefined && isSame(known, now) ? known : now);
  }
  return joined;
}

function namespaceOf({ metadata: { namespace = '', name } }: ClusterObject): string {
  return controlPlaneNamespace({ namespace, name });
}

function isOlder(a: ClusterObject, b: ClusterObject): boolean {
  const ageOf = ({ metadata: { creationTimestamp = '', uid = '' } }: ClusterObject) =>
    `${creationTimestamp} ${uid}`;
  return ageOf(a) < ageOf(b);
}

function isSame(a: HostedControlPlane, b: HostedControlPlane): boolean {
  return (
    a.object === b.object &&
    a.owner === b.owner &&
    a.routes.length === b.routes.length &&
    a.routes.every((route, i) => route === b.routes[i])
  );
}
