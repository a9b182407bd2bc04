// Asks the gateway every two seconds, listens to its events, and keeps what the page shows. It rests while nobody
// looks: a hidden page would hold one of the browser's few connections, and cost the gateway work.

import {
  AnswerError,
  askClusters,
  askNotReady,
  askStatus,
  type Cluster,
  type HealthEvent,
  type Status,
  type TableEvent,
} from './api.ts';
import type { Contact } from './banners.ts';
import { type ClusterView, clusterView, figuresOf } from './cluster-view.ts';
import { EventStream } from './event-stream.ts';
import { addPoint, type History, noHistory } from './history.ts';
import { addReading, type Counters, type Rates, ratesOver, STEP_MS } from './rates.ts';
import { countOf } from './reason-words.ts';
import { addRefusal, noRefusals, type Refusals } from './refusals.ts';

export type Change =
  | ({ readonly kind: 'health'; readonly key: number } & HealthEvent)
  | ({ readonly kind: 'table'; readonly key: number } & TableEvent);

/** Everything there is to show. */
export interface View {
  readonly status: Status | undefined;
  /** Undefined: the gateway does not tell. */
  readonly clusters: readonly ClusterView[] | undefined;
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
/** The answer about thousands of clusters is work: it is asked for at most this share of the time. */
const CLUSTERS_SHARE = 0.25;
/** Events bring a poll forward, but never closer than this to the one before. */
const LEAST_POLL_MS = 500;
/** A flood of events is drawn this often. */
const DRAW_MS = 150;
const KEPT_CHANGES = 50;

export class GatewayWatch implements Disposable {
  view: View = {
    status: undefined,
    clusters: undefined,
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
  #hasten = false;

  constructor(onChange: (view: View) => void) {
    this.#onChange = onChange;
    document.addEventListener('visibilitychange', this.#visibilityChanged);
    this.#visibilityChanged();
  }

  [Symbol.dispose](): void {
    document.removeEventListener('visibilitychange', this.#visibilityChanged);
    this.#rest();
  }

  readonly #visibilityChanged = (): void => {
    if (document.hidden) return this.#rest();
    this.#events.open();
    void this.#poll();
  };

  #rest(): void {
    clearTimeout(this.#pollTimer);
    this.#events.close();
  }

  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    this.#hasten = false;
    clearTimeout(this.#pollTimer);
    try {
      const [status, clusters, notReady] = await Promise.all([
        askStatus(),
        this.#clustersIfDue(),
        askNotReady(),
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
    const due = this.#polledAt + (this.#hasten ? LEAST_POLL_MS : POLL_MS);
    this.#pollTimer = setTimeout(() => void this.#poll(), Math.max(0, due - performance.now()));
  }

  /** Undefined: not asked, or not told. */
  async #clustersIfDue(): Promise<readonly Cluster[] | undefined> {
    const began = performance.now();
    if (began < this.#nextClustersAt) return undefined;
    try {
      const clusters = await askClusters();
      this.#nextClustersAt = began + (performance.now() - began) / CLUSTERS_SHARE;
      return clusters;
    } catch (error) {
      // Not there, or too busy: what was told before stays. Whether there is contact, the status tells.
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
        const { total, bytesIn, bytesOut, refused } = figuresOf(route);
        const reading = { at, connections: total, bytesIn, bytesOut, refused };
        const readings = addReading(this.#routeReadings.get(key) ?? [], reading);
        this.#routeReadings.set(key, readings);
        return readings;
      }),
    );
    for (const key of this.#routeReadings.keys()) if (!known.has(key)) this.#routeReadings.delete(key);
    return views;
  }

  /** The tables follow at once. */
  #changed(change: Change): void {
    this.#change({ changes: [change, ...this.view.changes].slice(0, KEPT_CHANGES) });
    this.#hasten = true;
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

/** Of the whole gateway; where it has no totals, of all its routes. */
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
    connections: sum(({ total }) => total),
    bytesIn: sum(({ bytesIn }) => bytesIn),
    bytesOut: sum(({ bytesOut }) => bytesOut),
    refused: sum(({ refused, failed }) => refused + failed),
  };
}

function whyLost(error: unknown): string {
  if (error instanceof AnswerError) {
    return error.status === 401 ? 'The user name or password is no longer accepted' : error.message;
  }
  return error instanceof DOMException && error.name === 'TimeoutError'
    ? 'It did not answer in time'
    : 'It cannot be reached';
}
