// A cluster as the table shows it: sums over its routes, its rates, how its backends are; and which of them are shown,
// in which order.

import type { Cluster, Route } from './api.ts';
import { type Counters, type Rates, ratesOver } from './rates.ts';
import { countOf } from './reason-words.ts';

export interface Figures {
  readonly open: number;
  /** Open ones included. */
  readonly total: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly refused: number;
  readonly failed: number;
  readonly backends: number;
  readonly down: number;
  /** Of which it is not known whether they are up. */
  readonly unknown: number;
  readonly rates: Rates | undefined;
}

export interface RouteView extends Figures {
  readonly route: Route;
}

export interface ClusterView extends Figures {
  readonly cluster: Cluster;
  readonly routes: readonly RouteView[];
}

/** The columns. */
export type SortKey = 'name' | 'health' | 'open' | 'rate' | 'total' | 'in' | 'out' | 'refused' | 'failed';

export interface Sort {
  readonly by: SortKey;
  readonly descending: boolean;
}

/** tenant-9 stands before tenant-10. One collator for all: making one takes longer than comparing with it. */
const byName = new Intl.Collator('en', { numeric: true });

/** Names read from A; of figures the largest is what one looks for. */
export function firstOrder(by: SortKey): Sort {
  return { by, descending: by !== 'name' };
}

export function clusterView(cluster: Cluster, readings: (route: Route) => readonly Counters[]): ClusterView {
  const routes = cluster.routes.map(route => ({
    route,
    ...figuresOf(route),
    rates: ratesOver(readings(route)),
  }));
  return { cluster, routes, ...sumOf(routes) };
}

export function figuresOf(route: Route): Omit<Figures, 'rates'> {
  const reasons = route.reasons ?? {};
  const ended = Object.values(reasons).reduce((sum, count) => sum + count, 0);
  return {
    open: route.connections,
    total: ended + route.connections,
    bytesIn: route.bytesIn,
    bytesOut: route.bytesOut,
    refused: countOf(reasons, 'refused'),
    failed: countOf(reasons, 'failed'),
    backends: route.backends.length,
    down: route.backends.filter(({ up }) => up === false).length,
    unknown: route.backends.filter(({ up }) => up === null).length,
  };
}

function sumOf(parts: readonly Figures[]): Figures {
  const sum = (figure: (part: Figures) => number) => parts.reduce((total, part) => total + figure(part), 0);
  const known = parts.filter(({ rates }) => rates !== undefined);
  const rate = (key: keyof Rates) => known.reduce((total, { rates }) => total + (rates?.[key] ?? 0), 0);
  return {
    open: sum(({ open }) => open),
    total: sum(({ total }) => total),
    bytesIn: sum(({ bytesIn }) => bytesIn),
    bytesOut: sum(({ bytesOut }) => bytesOut),
    refused: sum(({ refused }) => refused),
    failed: sum(({ failed }) => failed),
    backends: sum(({ backends }) => backends),
    down: sum(({ down }) => down),
    unknown: sum(({ unknown }) => unknown),
    rates:
      known.length === 0
        ? undefined
        : {
            connections: rate('connections'),
            bytesIn: rate('bytesIn'),
            bytesOut: rate('bytesOut'),
            refused: rate('refused'),
          },
  };
}

/** Something a person should look at: a backend that is down, a route without one, a finding that is no mere note. */
export function hasProblem({ down, routes, cluster }: ClusterView): boolean {
  return (
    down > 0 ||
    routes.some(({ route }) => lacksBackends(route)) ||
    cluster.findings.some(({ severity }) => severity !== 'info')
  );
}

/** A redirect needs none. Where the gateway does not tell which routes are one, cleartext ones may be. */
export function lacksBackends({ backends, redirect, kind }: Route): boolean {
  return backends.length === 0 && !(redirect ?? kind === 'apps-http');
}

/** Every word of the filter occurs somewhere. */
export function filterClusters(
  clusters: readonly ClusterView[],
  filter: string,
  problemsOnly: boolean,
): readonly ClusterView[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0 && !problemsOnly) return clusters;
  return clusters.filter(view => (!problemsOnly || hasProblem(view)) && hasWords(view, wanted));
}

/** In whatever a person may look for. */
function hasWords({ cluster }: ClusterView, wanted: readonly string[]): boolean {
  if (wanted.length === 0) return true;
  const { name, id, source, routes, findings } = cluster;
  const words = [
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
  const text = words.join('\n').toLowerCase();
  return wanted.every(word => text.includes(word));
}

export function sortClusters(
  clusters: readonly ClusterView[],
  { by, descending }: Sort,
): readonly ClusterView[] {
  const sign = descending ? -1 : 1;
  return clusters.toSorted((a, b) => sign * compare(a, b, by) || compare(a, b, 'name'));
}

function compare(a: ClusterView, b: ClusterView, by: SortKey): number {
  if (by === 'name') return byName.compare(a.cluster.name, b.cluster.name);
  return valueOf(a, by) - valueOf(b, by);
}

function valueOf(view: ClusterView, by: Exclude<SortKey, 'name'>): number {
  switch (by) {
    case 'health':
      return view.down + (hasProblem(view) ? 0.5 : 0);
    case 'open':
      return view.open;
    case 'rate':
      return view.rates?.connections ?? 0;
    case 'total':
      return view.total;
    case 'in':
      return view.rates?.bytesIn ?? 0;
    case 'out':
      return view.rates?.bytesOut ?? 0;
    case 'refused':
      return view.refused;
    case 'failed':
      return view.failed;
  }
}
