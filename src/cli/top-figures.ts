// The figures of `causeway top`: what happened between two answers of the admin API, by route. Pure.
//
// A first answer has nothing to compare with: then rates are the averages of the last five minutes, which the gateway
// keeps itself.

import type { ClusterAnswer, RouteAnswer } from '../admin/clusters.ts';
import type { Recent } from '../admin/recent-traffic.ts';
import type { StatusAnswer } from '../admin/status.ts';
import { refusedOf } from './choose-clusters.ts';

/** What the gateway calls recent, or since its start where that is shorter. */
const RECENT_SECONDS = 300;
/** Sorts tenant-9 before tenant-10. */
const byName = new Intl.Collator('en', { numeric: true });

/** One answer of the admin API. */
export interface Sample {
  /** A steady clock in ms. */
  readonly at: number;
  readonly status: StatusAnswer;
  readonly clusters: readonly ClusterAnswer[];
  /** Why the gateway is not ready. */
  readonly notReady?: string | undefined;
  /** How long the answer took, in ms. */
  readonly took?: number;
}

export interface Rates {
  readonly open: number;
  readonly newPerSecond: number;
  readonly bytesInPerSecond: number;
  readonly bytesOutPerSecond: number;
  /** Of the last five minutes, by reason, most frequent first. */
  readonly refused: readonly (readonly [reason: string, count: number])[];
}

export interface RouteFigures extends Rates {
  readonly kind: string;
  readonly redirect: boolean;
  readonly backends: number;
  /** Not known to be down. */
  readonly up: number;
}

export interface ClusterFigures extends Rates {
  readonly name: string;
  readonly routes: readonly RouteFigures[];
  readonly down: number;
}

export interface TopFigures {
  /** Over which the rates are averages. */
  readonly seconds: number;
  readonly total: Rates;
  /** In the gateway's order. */
  readonly clusters: readonly ClusterFigures[];
}

/** The order of clusters: by figures descending, by name ascending. */
export const topSorts = ['open', 'new', 'traffic', 'in', 'out', 'refused', 'down', 'name'] as const;
export type TopSort = (typeof topSorts)[number];

/** `before` is of the same process; one that the gateway has restarted since is ignored. */
export function topFigures(now: Sample, before?: Sample): TopFigures {
  const isSame =
    before !== undefined &&
    now.at > before.at &&
    now.status.uptimeSeconds >= before.status.uptimeSeconds &&
    now.status.traffic.connections >= before.status.traffic.connections;
  const seconds = isSame
    ? (now.at - before.at) / 1000
    : Math.max(1, Math.min(RECENT_SECONDS, now.status.uptimeSeconds));
  const former = new Map(isSame ? before.clusters.map(cluster => [cluster.name, cluster]) : []);
  const clusters = now.clusters.map(({ name, routes }) => {
    const earlier = former.get(name)?.routes ?? [];
    const figures = routes.map(route => {
      const { kind, redirect = false, backends } = route;
      const rates = ratesOf(
        counted(route),
        isSame ? counted(earlier.find(each => each.kind === kind)) : undefined,
        route.recent,
        seconds,
      );
      const up = backends.filter(backend => backend.up !== false).length;
      return { kind, redirect, backends: backends.length, up, ...rates };
    });
    const down = figures.reduce((sum, route) => sum + route.backends - route.up, 0);
    return { name, routes: figures, down, ...sumOf(figures) };
  });
  const { status } = now;
  const total = ratesOf(
    { ...status.traffic, open: status.counts.connections, ended: status.traffic.connections },
    isSame
      ? {
          ...before.status.traffic,
          open: before.status.counts.connections,
          ended: before.status.traffic.connections,
        }
      : undefined,
    status.traffic.recent,
    seconds,
  );
  return { seconds, total, clusters };
}

export function sortClusters(clusters: readonly ClusterFigures[], sort: TopSort): readonly ClusterFigures[] {
  const names = (a: ClusterFigures, b: ClusterFigures) => byName.compare(a.name, b.name);
  if (sort === 'name') return clusters.toSorted(names);
  const figure = sortFigures[sort];
  return clusters.toSorted((a, b) => figure(b) - figure(a) || names(a, b));
}

const sortFigures: Readonly<Record<Exclude<TopSort, 'name'>, (cluster: ClusterFigures) => number>> = {
  open: ({ open }) => open,
  new: ({ newPerSecond }) => newPerSecond,
  traffic: ({ bytesInPerSecond, bytesOutPerSecond }) => bytesInPerSecond + bytesOutPerSecond,
  in: ({ bytesInPerSecond }) => bytesInPerSecond,
  out: ({ bytesOutPerSecond }) => bytesOutPerSecond,
  refused: ({ refused }) => refused.reduce((sum, [, count]) => sum + count, 0),
  down: ({ down }) => down,
};

interface Counted {
  readonly open: number;
  readonly ended: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

const nothing: Counted = { open: 0, ended: 0, bytesIn: 0, bytesOut: 0 };

function counted(route: RouteAnswer | undefined): Counted {
  if (route === undefined) return nothing;
  const { connections: open, bytesIn, bytesOut, reasons } = route;
  return { open, ended: Object.values(reasons).reduce((sum, count) => sum + count, 0), bytesIn, bytesOut };
}

/** A counter that is smaller than before belongs to a route that was replaced: nothing is known of it. */
function ratesOf(now: Counted, before: Counted | undefined, recent: Recent, seconds: number): Rates {
  const opened = before === undefined ? recent.opened : now.open + now.ended - before.open - before.ended;
  const bytesIn = before === undefined ? recent.bytesIn : now.bytesIn - before.bytesIn;
  const bytesOut = before === undefined ? recent.bytesOut : now.bytesOut - before.bytesOut;
  return {
    open: now.open,
    newPerSecond: Math.max(0, opened) / seconds,
    bytesInPerSecond: Math.max(0, bytesIn) / seconds,
    bytesOutPerSecond: Math.max(0, bytesOut) / seconds,
    refused: refusedOf(recent.reasons),
  };
}

function sumOf(routes: readonly Rates[]): Rates {
  const sum = (figure: (rates: Rates) => number) => routes.reduce((total, each) => total + figure(each), 0);
  const refused = new Map<string, number>();
  for (const route of routes)
    for (const [reason, count] of route.refused) refused.set(reason, (refused.get(reason) ?? 0) + count);
  return {
    open: sum(({ open }) => open),
    newPerSecond: sum(({ newPerSecond }) => newPerSecond),
    bytesInPerSecond: sum(({ bytesInPerSecond }) => bytesInPerSecond),
    bytesOutPerSecond: sum(({ bytesOutPerSecond }) => bytesOutPerSecond),
    refused: [...refused].toSorted(([, a], [, b]) => b - a),
  };
}
