// A cluster as the table shows it: sums over its routes, its rates and the health of its backends; and which clusters are
// shown, in which order.

import type { Cluster, Counts, Reasons, Recent, Route } from './api.ts';
import { countOf } from './describe-reason.ts';
import { type Counters, type Rates, ratesOver } from './rates.ts';

/** Counted over some time. */
export interface Totals {
  /** Connections that began, open ones included. */
  readonly connections: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly refused: number;
  readonly failed: number;
}

export interface Traffic {
  readonly sinceStart: Totals;
  /** Of the last five minutes; undefined: the gateway does not report it. */
  readonly recent: Totals | undefined;
  readonly rates: Rates | undefined;
}

export interface Health {
  readonly backends: number;
  readonly down: number;
  /** Backends that have not been checked. */
  readonly unknown: number;
  /** A route has no backend that can be used. */
  readonly outage: boolean;
}

interface Figures extends Traffic, Health {
  readonly open: number;
}

export interface RouteView extends Figures {
  readonly route: Route;
}

export interface ClusterView extends Figures {
  readonly cluster: Cluster;
  readonly routes: readonly RouteView[];
}

/** One for each column. */
export const sortKeys = [
  'name',
  'health',
  'open',
  'rate',
  'connections',
  'in',
  'out',
  'refused',
  'failed',
] as const;
export type SortKey = (typeof sortKeys)[number];

export interface Sort {
  readonly by: SortKey;
  readonly descending: boolean;
}

/** Orders tenant-9 before tenant-10. Shared, because making a collator takes longer than comparing with it. */
const byName = new Intl.Collator('en', { numeric: true });

/** Names start with A, figures with the largest. */
export function firstOrder(by: SortKey): Sort {
  return { by, descending: by !== 'name' };
}

export function clusterView(cluster: Cluster, readings: (route: Route) => readonly Counters[]): ClusterView {
  const routes = cluster.routes.map(route => ({
    route,
    open: route.connections,
    sinceStart: totalsOf(route),
    recent: route.recent && recentTotals(route.recent),
    rates: ratesOver(readings(route)),
    ...healthOf(route),
  }));
  return {
    cluster,
    routes,
    open: sum(routes, ({ open }) => open),
    ...trafficOf(routes),
    backends: sum(routes, ({ backends }) => backends),
    down: sum(routes, ({ down }) => down),
    unknown: sum(routes, ({ unknown }) => unknown),
    outage: routes.some(({ outage }) => outage),
  };
}

/** Connections that belong to no cluster. */
export function unroutedView(counts: Counts, readings: readonly Counters[]): Traffic {
  return {
    sinceStart: totals(counts.connections, counts, counts.reasons),
    recent: counts.recent && recentTotals(counts.recent),
    rates: ratesOver(readings),
  };
}

export function totalsOf(route: Route): Totals {
  const ended = Object.values(route.reasons ?? {}).reduce((total, count) => total + count, 0);
  return totals(ended + route.connections, route, route.reasons ?? {});
}

function recentTotals(recent: Recent): Totals {
  return totals(recent.opened, recent, recent.reasons);
}

function totals(
  connections: number,
  { bytesIn, bytesOut }: { readonly bytesIn: number; readonly bytesOut: number },
  reasons: Reasons,
): Totals {
  const [refused, failed] = [countOf(reasons, 'refused'), countOf(reasons, 'failed')];
  return { connections, bytesIn, bytesOut, refused, failed };
}

function healthOf(route: Route): Health {
  const { backends } = route;
  return {
    backends: backends.length,
    down: backends.filter(({ up }) => up === false).length,
    unknown: backends.filter(({ up }) => up === null).length,
    outage: isOutage(route),
  };
}

/** None of its backends can be used. One that has not been checked yet is tried, so it counts as usable. */
function isOutage({ backends, redirect, kind }: Route): boolean {
  // A redirect needs no backend. An older gateway does not say which routes redirect; those for cleartext may.
  if (backends.length === 0) return !(redirect ?? kind === 'apps-http');
  return backends.every(({ up }) => up === false);
}

function trafficOf(routes: readonly Traffic[]): Traffic {
  const recent = routes.flatMap(route => route.recent ?? []);
  const rates = routes.flatMap(route => route.rates ?? []);
  return {
    sinceStart: sumOfTotals(routes.map(({ sinceStart }) => sinceStart)),
    recent: recent.length < routes.length ? undefined : sumOfTotals(recent),
    rates:
      rates.length === 0
        ? undefined
        : {
            connections: sum(rates, rate => rate.connections),
            bytesIn: sum(rates, rate => rate.bytesIn),
            bytesOut: sum(rates, rate => rate.bytesOut),
            refused: sum(rates, rate => rate.refused),
          },
  };
}

function sumOfTotals(parts: readonly Totals[]): Totals {
  return {
    connections: sum(parts, part => part.connections),
    bytesIn: sum(parts, part => part.bytesIn),
    bytesOut: sum(parts, part => part.bytesOut),
    refused: sum(parts, part => part.refused),
    failed: sum(parts, part => part.failed),
  };
}

function sum<T>(parts: readonly T[], valueOf: (part: T) => number): number {
  return parts.reduce((total, part) => total + valueOf(part), 0);
}

/** Needs a look: an outage, a backend that is down, or a finding that is more than a note. */
export function hasProblem({ outage, down, cluster }: ClusterView): boolean {
  return outage || down > 0 || cluster.findings.some(({ severity }) => severity !== 'info');
}

/** A cluster matches when each word of the filter occurs in one of its texts. */
export function filterClusters(
  clusters: readonly ClusterView[],
  filter: string,
  problemsOnly: boolean,
): readonly ClusterView[] {
  const words = wordsOf(filter);
  if (words.length === 0 && !problemsOnly) return clusters;
  return clusters.filter(view => (!problemsOnly || hasProblem(view)) && clusterMatches(view, words));
}

/** The row of connections that belong to no cluster: their reasons can be looked for. */
export function unroutedMatches({ reasons }: Counts, filter: string): boolean {
  return textsMatch(['no cluster', ...Object.keys(reasons)], wordsOf(filter));
}

function wordsOf(filter: string): readonly string[] {
  return filter.toLowerCase().split(/\s+/).filter(Boolean);
}

function clusterMatches({ cluster }: ClusterView, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const { name, id, source, routes, findings } = cluster;
  const texts = [
    name,
    id ?? '',
    source,
    ...routes.flatMap(({ kind, hosts, backends }) => [
      kind,
      ...hosts,
      ...backends.map(({ address }) => address),
    ]),
    ...findings.map(({ code }) => code),
  ];
  return textsMatch(texts, words);
}

function textsMatch(texts: readonly string[], words: readonly string[]): boolean {
  const text = texts.join('\n').toLowerCase();
  return words.every(word => text.includes(word));
}

/** Outages come first in every order. */
export function sortClusters(
  clusters: readonly ClusterView[],
  { by, descending }: Sort,
): readonly ClusterView[] {
  const sign = descending ? -1 : 1;
  return clusters.toSorted(
    (a, b) =>
      Number(b.outage) - Number(a.outage) || sign * compare(a, b, by) || byName.compare(nameOf(a), nameOf(b)),
  );
}

function compare(a: ClusterView, b: ClusterView, by: SortKey): number {
  switch (by) {
    case 'name':
      return byName.compare(nameOf(a), nameOf(b));
    case 'health':
      return a.down - b.down || Number(hasProblem(a)) - Number(hasProblem(b));
    case 'open':
      return a.open - b.open;
    case 'rate':
      return byteRate(a) - byteRate(b);
    case 'connections':
      return compareTotals(a, b, 'connections');
    case 'in':
      return compareTotals(a, b, 'bytesIn');
    case 'out':
      return compareTotals(a, b, 'bytesOut');
    case 'refused':
      return compareTotals(a, b, 'refused');
    case 'failed':
      return compareTotals(a, b, 'failed');
  }
}

/** By the last five minutes, then by all time. */
function compareTotals(a: ClusterView, b: ClusterView, key: keyof Totals): number {
  return (a.recent?.[key] ?? 0) - (b.recent?.[key] ?? 0) || a.sinceStart[key] - b.sinceStart[key];
}

function byteRate({ rates }: ClusterView): number {
  return (rates?.bytesIn ?? 0) + (rates?.bytesOut ?? 0);
}

function nameOf({ cluster }: ClusterView): string {
  return cluster.name;
}
