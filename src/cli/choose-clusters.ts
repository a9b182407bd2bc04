// Which clusters `status` and `top` show, in which order: their flags; and how `status` selects and sorts.

import type { ClusterAnswer, RouteAnswer } from '../admin/clusters.ts';
import { type CloseReason, served } from '../gateway/close-reason.ts';
import { nearest } from '../text/nearest.ts';
import { AdminClientError } from './admin-client.ts';
import { UsageError } from './command.ts';

/** The columns of the table, and `down` (backends that are down). */
export const sortKeys = ['name', 'open', 'in', 'out', 'refused', 'down'] as const;
export type SortKey = (typeof sortKeys)[number];

export const clusterFlags = {
  problems: { type: 'boolean' },
  cluster: { type: 'string' },
  sort: { type: 'string' },
  json: { type: 'boolean' },
} as const;

export function sortFlag<Key extends string>(
  given: string | undefined,
  keys: readonly Key[],
): Key | undefined {
  const key = keys.find(candidate => candidate === given);
  if (given !== undefined && key === undefined)
    throw new UsageError(`--sort must be one of ${keys.join(', ')}: ${given}`);
  return key;
}

export interface Choice {
  readonly problems: boolean;
  readonly cluster: string | undefined;
  readonly sort: SortKey | undefined;
}

/** Sorts tenant-9 before tenant-10. */
const byName = new Intl.Collator('en', { numeric: true });

export function chooseClusters(
  clusters: readonly ClusterAnswer[],
  { problems, cluster, sort }: Choice,
): readonly ClusterAnswer[] {
  const named = cluster === undefined ? clusters : clusters.filter(({ name }) => name === cluster);
  const chosen = problems ? named.filter(hasProblem).map(onlyProblems) : named;
  return sort === undefined ? chosen : chosen.toSorted(order(sort));
}

/** For the name of a cluster that is not among them. */
export function noSuchCluster(name: string, clusters: readonly ClusterAnswer[]): AdminClientError {
  const near = nearest(
    name,
    clusters.map(cluster => cluster.name),
  );
  const hint = near === undefined ? '' : `. Did you mean '${near}'?`;
  return new AdminClientError(`Unknown cluster '${name}'${hint}`);
}

/** A redirect needs no backend. */
function routeHasProblem({ backends, redirect }: RouteAnswer): boolean {
  return (backends.length === 0 && redirect !== true) || backends.some(({ up }) => up === false);
}

/** Close reasons of connections that were not served, with counts, most frequent first. */
export function refusedOf(reasons: Readonly<Partial<Record<CloseReason, number>>>): [CloseReason, number][] {
  return (Object.entries(reasons) as [CloseReason, number][])
    .filter(([reason]) => !served.has(reason))
    .toSorted(([, a], [, b]) => b - a);
}

export function hasProblem({ routes, findings }: ClusterAnswer): boolean {
  return findings.some(({ severity }) => severity !== 'info') || routes.some(routeHasProblem);
}

function onlyProblems(cluster: ClusterAnswer): ClusterAnswer {
  return { ...cluster, routes: cluster.routes.filter(routeHasProblem) };
}

function order(key: SortKey): (a: ClusterAnswer, b: ClusterAnswer) => number {
  const names = (a: ClusterAnswer, b: ClusterAnswer) => byName.compare(a.name, b.name);
  if (key === 'name') return names;
  const sum = ({ routes }: ClusterAnswer) => routes.reduce((total, route) => total + figures[key](route), 0);
  return (a, b) => sum(b) - sum(a) || names(a, b);
}

const figures: Readonly<Record<Exclude<SortKey, 'name'>, (route: RouteAnswer) => number>> = {
  open: ({ connections }) => connections,
  in: ({ bytesIn }) => bytesIn,
  out: ({ bytesOut }) => bytesOut,
  refused: ({ reasons }) => refusedOf(reasons).reduce((sum, [, count]) => sum + count, 0),
  down: ({ backends }) => backends.filter(({ up }) => up === false).length,
};
