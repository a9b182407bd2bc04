// Polls the gateway every two seconds, listens to its events, and keeps what the page shows. It pauses while the page is
// hidden, which would otherwise hold one of the browser's few connections and cost the gateway work.

import {
  AnswerError,
  type Cluster,
  type Counts,
  fetchClusters,
  fetchNotReady,
  fetchStatus,
  type HealthEvent,
  type Status,
  type TableEvent,
} from './api.ts';
import type { Contact } from './banners.ts';
import { type ClusterView, clusterView, type Traffic, totalsOf, unroutedView } from './cluster-view.ts';
import { countOf } from './describe-reason.ts';
import { EventStream } from './event-stream.ts';
import { addPoint, type History, noHistory } from './history.ts';
import { addReading, type Counters, type Rates, ratesOver, STEP_MS } from './rates.ts';
import { addRefusal, noRefusals, type Refusals } from './refusals.ts';

export type Change =
  | ({ readonly kind: 'health'; readonly key: number } & HealthEvent)
  | ({ readonly kind: 'table'; readonly key: number } & TableEvent);

/** Everything there is to show. */
export interface View {
  readonly status: Status | undefined;
  /** Undefined: the gateway does not list them. */
  readonly clusters: readonly ClusterView[] | undefined;
  /** Connections that belong to no cluster; undefined: the gateway does not report them. */
  readonly unrouted: { readonly counts: Counts; readonly traffic: Traffic } | undefined;
  readonly rates: Rates | undefined;
  readonly history: History;
  readonly refusals: Refusals;
  /** Newest first. */
  readonly changes: readonly Change[];
  readonly contact: Contact;
  readonly notReady: string | undefined;
  /** The event stream is open. */
  readonly live: boolean;
}

const POLL_MS = 2000;
/** Listing thousands of clusters is work for the gateway: at most this share of the time is spent on it. */
const CLUSTERS_SHARE = 0.25;
/** Events bring the next poll forward, but not closer than this to the last one. */
const LEAST_POLL_MS = 500;
/** Events that come faster are drawn together. */
const DRAW_MS = 150;
const KEPT_CHANGES = 50;
/** Keys of routes have names on both sides of the space. */
const UNROUTED_KEY = ' ';

export class GatewayWatch implements Disposable {
  view: View = {
    status: undefined,
    clusters: undefined,
    unrouted: undefined,
    rates: undefined,
    history: noHistory,
    refusals: noRefusals,
    changes: [],
    contact: { at: undefined, lost: undefined },
    notReady: undefined,
    live: false,
  };
  readonly #onChange: (view: View) => void;
  readonly #routeReadings = new Map<string, readonly Counters[]>();
  #readings: readonly Counters[] = [];
  #uptime = 0;
  #nextClustersAt = 0;
  #nextKey = 1;
  readonly #events = new EventStream({
    live: live => this.#change({ live }),
    refusal: event => this.#change({ refusals: addRefusal(this.view.refusals, event) }),
    health: event => this.#changed({ kind: 'health', ...event, key: this.#nextKey++ }),
    table: event => this.#changed({ kind: 'table', ...event, key: this.#nextKey++ }),
  });
  #pollTimer: ReturnType<typeof setTimeout> | undefined;
  #drawTimer: ReturnType<typeof setTimeout> | undefined;
  #polling = false;
  #polledAt = 0;
  #isUrgent = false;

  constructor(onChange: (view: View) => void) {
    this.#onChange = onChange;
    document.addEventListener('visibilitychange', this.#visibilityChanged);
    this.#visibilityChanged();
  }

  [Symbol.dispose](): void {
    document.removeEventListener('visibilitychange', this.#visibilityChanged);
    this.#pause();
  }

  readonly #visibilityChanged = (): void => {
    if (document.hidden) return this.#pause();
    this.#events.open();
    void this.#poll();
  };

  #pause(): void {
    clearTimeout(this.#pollTimer);
    this.#events.close();
  }

  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    this.#isUrgent = false;
    clearTimeout(this.#pollTimer);
    try {
      const [status, clusters, notReady] = await Promise.all([
        fetchStatus(),
        this.#clustersIfDue(),
        fetchNotReady(),
      ]);
      this.#answered(status, clusters, notReady);
    } catch (error) {
      this.#change({ contact: { ...this.view.contact, lost: whyLost(error) } });
    }
    this.#polling = false;
    this.#polledAt = performance.now();
    this.#schedule();
  }

  #schedule(): void {
    clearTimeout(this.#pollTimer);
    if (document.hidden || this.#polling) return;
    const due = this.#polledAt + (this.#isUrgent ? LEAST_POLL_MS : POLL_MS);
    this.#pollTimer = setTimeout(() => void this.#poll(), Math.max(0, due - performance.now()));
  }

  /** Undefined: not due, or not available. */
  async #clustersIfDue(): Promise<readonly Cluster[] | undefined> {
    const began = performance.now();
    if (began < this.#nextClustersAt) return undefined;
    try {
      const clusters = await fetchClusters();
      this.#nextClustersAt = began + (performance.now() - began) / CLUSTERS_SHARE;
      return clusters;
    } catch (error) {
      // Missing, or the gateway is busy: the last list stays. The status shows whether the gateway can be reached.
      if (error instanceof AnswerError) return undefined;
      throw error;
    }
  }

  #answered(status: Status, clusters: readonly Cluster[] | undefined, notReady: string | undefined): void {
    const at = performance.now();
    if (status.uptimeSeconds < this.#uptime) {
      this.#readings = [];
      this.#routeReadings.clear();
    }
    this.#uptime = status.uptimeSeconds;
    const views = clusters === undefined ? this.view.clusters : this.#viewsOf(clusters, at);
    const reading = readingOf(at, status, views);
    if (reading !== undefined) this.#readings = addReading(this.#readings, reading);
    const rates = ratesOver(this.#readings);
    this.#change({
      status,
      clusters: views,
      unrouted: this.#unroutedOf(status, at),
      rates,
      history: addPoint(
        this.view.history,
        Date.now() / 1000,
        status.counts.connections,
        ratesOver(this.#readings, STEP_MS),
      ),
      contact: { at: Date.now(), lost: undefined },
      notReady,
    });
  }

  #viewsOf(clusters: readonly Cluster[], at: number): readonly ClusterView[] {
    const known = new Set<string>();
    const views = clusters.map(cluster =>
      clusterView(cluster, route => {
        const key = `${cluster.name} ${route.kind}`;
        known.add(key);
        return this.#addReading(key, { at, ...totalsOf(route) });
      }),
    );
    for (const key of this.#routeReadings.keys())
      if (!known.has(key) && key !== UNROUTED_KEY) this.#routeReadings.delete(key);
    return views;
  }

  #unroutedOf({ traffic }: Status, at: number): View['unrouted'] {
    const counts = traffic?.unrouted;
    if (counts === undefined) return undefined;
    const { connections, bytesIn, bytesOut, reasons } = counts;
    const reading = { at, connections, bytesIn, bytesOut, refused: countOf(reasons, 'refused') };
    return { counts, traffic: unroutedView(counts, this.#addReading(UNROUTED_KEY, reading)) };
  }

  /** The readings of that key, with this one. */
  #addReading(key: string, reading: Counters): readonly Counters[] {
    const readings = addReading(this.#routeReadings.get(key) ?? [], reading);
    this.#routeReadings.set(key, readings);
    return readings;
  }

  /** Polls soon, so that the tables follow. */
  #changed(change: Change): void {
    this.#change({ changes: [change, ...this.view.changes].slice(0, KEPT_CHANGES) });
    this.#isUrgent = true;
    this.#schedule();
  }

  #change(part: Partial<View>): void {
    this.view = { ...this.view, ...part };
    if (this.#drawTimer !== undefined) return;
    this.#drawTimer = setTimeout(() => {
      this.#drawTimer = undefined;
      this.#onChange(this.view);
    }, DRAW_MS);
  }
}

/** Counters of the whole gateway; the sum over its routes if it has no totals. */
function readingOf(
  at: number,
  { traffic, counts }: Status,
  views: readonly ClusterView[] | undefined,
): Counters | undefined {
  if (traffic !== undefined) {
    const { connections, bytesIn, bytesOut, reasons } = traffic;
    const refused = countOf(reasons, 'refused') + countOf(reasons, 'failed');
    return { at, connections: connections + counts.connections, bytesIn, bytesOut, refused };
  }
  if (views === undefined) return undefined;
  const sum = (figure: (view: ClusterView) => number) =>
    views.reduce((total, view) => total + figure(view), 0);
  return {
    at,
    connections: sum(({ sinceStart }) => sinceStart.connections),
    bytesIn: sum(({ sinceStart }) => sinceStart.bytesIn),
    bytesOut: sum(({ sinceStart }) => sinceStart.bytesOut),
    refused: sum(({ sinceStart }) => sinceStart.refused + sinceStart.failed),
  };
}

function whyLost(error: unknown): string {
  if (error instanceof AnswerError) {
    return error.status === 401 ? 'The user name or password is no longer accepted' : error.message;
  }
  return error instanceof DOMException && error.name === 'TimeoutError'
    ? 'No answer in time'
    : 'Connection failed';
}
