// What is reported back on the objects that clusters come from: findings, for Events, and a status, for the annotation
// `causeway.dev/status`. Pure; event-writer.ts and status-writer.ts write it.

import type { Cluster, Route, SourceObject } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';

/** Kubernetes allows 256 KiB for all annotations of an object; others need room too. */
const MAX_STATUS = 64 * 1024;

export interface ObjectState {
  readonly object: SourceObject;
  /** The annotation's value. Absent while health checks have not told yet whether the cluster is ready. */
  readonly status?: string;
  readonly ready?: boolean;
  readonly findings: readonly Finding[];
}

export interface StatesInput {
  readonly clusters: readonly Cluster[];
  /** Of sources, plan and outputs. */
  readonly findings: readonly Finding[];
  /** Health of a backend; null until its first check. */
  readonly isUp: (cluster: string, kind: string, backend: string) => boolean | null;
}

/** One for each object that gives a cluster or has a finding. The order of clusters and findings does not matter. */
export function objectStates({ clusters, findings, isUp }: StatesInput): readonly ObjectState[] {
  let byName: ReadonlyMap<string, Cluster> | undefined;
  const clusterOf = ({ cluster = '' }: Finding) => {
    byName ??= new Map(clusters.map(each => [each.name, each]));
    return byName.get(cluster);
  };
  const objects = new Map<string, SourceObject>();
  const found = new Map<string, Finding[]>();
  for (const finding of findings) {
    const object = finding.origin?.object ?? clusterOf(finding)?.origin.object;
    if (object === undefined) continue;
    objects.set(object.uid, object);
    const list = found.get(object.uid);
    if (list === undefined) found.set(object.uid, [finding]);
    else list.push(finding);
  }
  const states: ObjectState[] = [];
  for (const cluster of clusters) {
    const { object } = cluster.origin;
    if (object === undefined) continue;
    objects.delete(object.uid);
    const ready = isReady(cluster.name, cluster.routes, isUp);
    const own = found.get(object.uid);
    states.push(
      own === undefined ? plainState(cluster, object, ready) : stateOf(cluster, object, ready, sorted(own)),
    );
  }
  // Objects that give no cluster, or only routes of another object's cluster.
  for (const object of objects.values()) {
    const own = sorted(found.get(object.uid) ?? []);
    const joined = joinedRoutes(object, clusters);
    const ready =
      joined.length > 0 && joined.every(({ cluster, route }) => isReady(cluster, [route], isUp) === true);
    const hosts = joined.flatMap(({ route }) => route.hosts);
    states.push({ object, status: statusText(ready, hosts, own), ready, findings: own });
  }
  return states;
}

/** Whether every route has a backend that is up; undefined while that is not known. */
function isReady(cluster: string, routes: readonly Route[], isUp: StatesInput['isUp']): boolean | undefined {
  let isKnown = true;
  for (const { kind, pool, redirect } of routes) {
    if (redirect) continue;
    if (pool.backends.length === 0) return false;
    if (pool.health.check === 'none') continue;
    let best: boolean | null = false;
    for (const { text } of pool.backends) {
      const up = isUp(cluster, kind, text);
      if (up !== false) best = up;
      if (up === true) break;
    }
    if (best === false) return false;
    if (best === null) isKnown = false;
  }
  return isKnown ? routes.length > 0 : undefined;
}

/** Routes of a Service that joined the cluster of another object. */
function joinedRoutes({ kind, namespace, name }: SourceObject, clusters: readonly Cluster[]) {
  if (kind !== 'Service') return [];
  return clusters.flatMap(({ name: cluster, routes }) =>
    routes
      .filter(({ service }) => service?.namespace === namespace && service.name === name)
      .map(route => ({ cluster, route })),
  );
}

/** A cluster that has not changed is the same object, so most states are made once: there may be ten thousand. */
const plainStates = new WeakMap<
  Cluster,
  { readonly ready: boolean | undefined; readonly state: ObjectState }
>();

function plainState(cluster: Cluster, object: SourceObject, ready: boolean | undefined): ObjectState {
  const known = plainStates.get(cluster);
  if (known !== undefined && known.ready === ready) return known.state;
  const state = stateOf(cluster, object, ready, []);
  plainStates.set(cluster, { ready, state });
  return state;
}

function stateOf(
  { routes }: Cluster,
  object: SourceObject,
  ready: boolean | undefined,
  findings: readonly Finding[],
): ObjectState {
  if (ready === undefined) return { object, findings };
  const hosts = routes.flatMap(route => route.hosts);
  return { object, status: statusText(ready, hosts, findings), ready, findings };
}

/** Sorted, so that only a real change is written. */
function statusText(ready: boolean, hosts: readonly string[], findings: readonly Finding[]): string {
  const all = [...new Set(hosts)].toSorted();
  const shown = findings.map(({ severity, code, text, fix }) => ({ severity, code, text, fix }));
  const whole = JSON.stringify({ ready, hosts: all, findings: shown });
  if (Buffer.byteLength(whole) <= MAX_STATUS) return whole;
  // Half of the room for each.
  const parts = { ready, hosts: fitting(all), findings: fitting(shown), truncated: true };
  return JSON.stringify(parts);
}

function fitting<T>(items: readonly T[]): readonly T[] {
  let left = MAX_STATUS / 2 - 64;
  const end = items.findIndex(item => {
    left -= Buffer.byteLength(JSON.stringify(item)) + 1;
    return left < 0;
  });
  return end < 0 ? items : items.slice(0, end);
}

const severities: readonly Finding['severity'][] = ['error', 'warning', 'info'];

function sorted(findings: readonly Finding[]): readonly Finding[] {
  const keys = new Map(
    findings.map(finding => {
      const { severity, code, text } = finding;
      return [finding, `${severities.indexOf(severity)} ${code} ${text}`];
    }),
  );
  return [...keys].toSorted(([, a], [, b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([finding]) => finding);
}
