// GET /api/v1/clusters: what the plan has, with what the workers counted for it.

import type { Balance, Cluster, HealthCheck, Origin, Route, SourceObject } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { CloseReason } from '../gateway/close-reason.ts';
import type { Gateway } from '../gateway/control/gateway.ts';
import type { Plan } from '../plan/plan.ts';

export interface ClusterAnswer {
  readonly name: string;
  readonly id: string | null;
  readonly source: string;
  readonly object: Omit<SourceObject, 'createdAt'> | null;
  readonly routes: readonly RouteAnswer[];
  readonly findings: readonly Pick<Finding, 'severity' | 'code' | 'text' | 'fix'>[];
}

export interface RouteAnswer {
  /** Answers with a redirect to https, and has no backends. */
  readonly redirect?: boolean;
  readonly kind: string;
  readonly hosts: readonly string[];
  readonly balance: Balance;
  readonly backends: readonly BackendAnswer[];
  /** Open now. */
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Connections that ended, by reason; only reasons that there were. */
  readonly reasons: Readonly<Partial<Record<CloseReason, number>>>;
}

export interface BackendAnswer {
  readonly address: string;
  /** null until its first check, and where it is not checked. */
  readonly up: boolean | null;
  /** How it is checked. */
  readonly health: HealthCheck;
  /** When checks last found it gone or back, and what they met; missing while they never have. */
  readonly since?: string;
  readonly why?: string;
  /** Open now. */
  readonly connections: number;
}

export interface ClustersView {
  readonly plan: Plan;
  readonly gateway: Pick<Gateway, 'figuresOf' | 'backendHealth'>;
}

export function clusterAnswers(view: ClustersView): ClusterAnswer[] {
  const findings = Map.groupBy(view.plan.findings, finding => finding.cluster);
  return view.plan.clusters.map(cluster => clusterAnswer(view, cluster, findings.get(cluster.name)));
}

/** Undefined when there is no such cluster. */
export function clusterNamed(view: ClustersView, name: string): ClusterAnswer | undefined {
  const cluster = view.plan.clusters.find(candidate => candidate.name === name);
  if (cluster === undefined) return undefined;
  return clusterAnswer(
    view,
    cluster,
    view.plan.findings.filter(finding => finding.cluster === name),
  );
}

function clusterAnswer(
  view: ClustersView,
  cluster: Cluster,
  findings: readonly Finding[] = [],
): ClusterAnswer {
  return {
    name: cluster.name,
    id: cluster.id ?? null,
    source: cluster.origin.source,
    object: objectAnswer(cluster.origin),
    routes: cluster.routes.map(route => routeAnswer(view, cluster, route)),
    findings: findings.map(({ severity, code, text, fix }) => ({ severity, code, text, fix })),
  };
}

function objectAnswer({ object }: Origin): ClusterAnswer['object'] {
  if (object === undefined) return null;
  const { createdAt: _, ...rest } = object;
  return rest;
}

function routeAnswer(view: ClustersView, cluster: Cluster, route: Route): RouteAnswer {
  const { kind, hosts, pool } = route;
  // A route that the gateway is just about to take up has counted nothing yet.
  const figures = view.gateway.figuresOf(cluster.name, kind);
  return {
    kind,
    hosts,
    balance: pool.balance,
    ...(route.redirect && { redirect: true }),
    backends: pool.backends.map(({ text }) => {
      const { up, since, why } = view.gateway.backendHealth(cluster.name, kind, text);
      return {
        address: text,
        up,
        health: pool.health.check,
        ...(since !== undefined && { since: new Date(since).toISOString() }),
        ...(why !== undefined && { why }),
        connections: figures?.backends.get(text) ?? 0,
      };
    }),
    connections: figures?.connections ?? 0,
    bytesIn: figures?.bytesIn ?? 0,
    bytesOut: figures?.bytesOut ?? 0,
    reasons: figures?.reasons ?? {},
  };
}
