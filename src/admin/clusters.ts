// GET /api/v1/clusters: the clusters of the plan, with the workers' counters.

import type { Balance, Cluster, HealthCheck, Origin, Route, SourceObject } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { CloseReason } from '../gateway/close-reason.ts';
import type { GatewayPort, RouteFigures } from '../gateway/control/gateway-port.ts';
import type { Plan } from '../plan/plan.ts';
import type { Recent, RecentTraffic } from './recent-traffic.ts';

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
  /** Connections that ended, by reason; only reasons that occurred. */
  readonly reasons: Readonly<Partial<Record<CloseReason, number>>>;
  readonly recent: Recent;
}

export interface BackendAnswer {
  readonly address: string;
  /** null until its first check, and where it is not checked. */
  readonly up: boolean | null;
  /** How it is checked. */
  readonly health: HealthCheck;
  /** When it last went down or came back, and what the check met; missing if that never happened. */
  readonly since?: string;
  readonly why?: string;
  /** Open now. */
  readonly connections: number;
}

export interface ClustersView {
  readonly plan: Plan;
  readonly gateway: Pick<GatewayPort, 'figuresOf' | 'backendHealth'>;
  readonly recent: Pick<RecentTraffic, 'ofRoute'>;
}

const notServed: RouteFigures = { connections: 0, bytesIn: 0, bytesOut: 0, reasons: {}, backends: new Map() };

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
  // The plan may be ahead of the gateway: a route that is not served yet has no counters.
  const figures = view.gateway.figuresOf(cluster.name, kind) ?? notServed;
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
        connections: figures.backends.get(text) ?? 0,
      };
    }),
    connections: figures.connections,
    bytesIn: figures.bytesIn,
    bytesOut: figures.bytesOut,
    reasons: figures.reasons,
    recent: view.recent.ofRoute(cluster.name, kind, { ...figures, open: figures.connections }),
  };
}
