// The control thread's side of memory that grows: pages for the slots that the table author assigned, some common to
// all threads, some per thread. A thread that starts late, or restarts, gets all of them.

import type { Pages } from '../control/worker-messages.ts';
import {
  BACKEND_FIELDS,
  BucketPages,
  CLUSTER_FIELDS,
  RequestCounters,
  RouteCounters,
  SharedSlots,
} from './shared-memory.ts';

/** Number of pages per kind of slot. */
export interface PageCounts {
  readonly clusters: number;
  readonly routes: number;
  readonly backends: number;
}

/** The pages of a single thread, kept when it restarts. */
export class OwnPages {
  readonly counters = new RouteCounters();
  readonly requests: RequestCounters | undefined;
  readonly counterPages: SharedArrayBuffer[] = [];
  readonly requestPages: SharedArrayBuffer[] = [];
  /** Number of pages the thread has been given since it started. */
  given: PageCounts = { clusters: 0, routes: 0, backends: 0 };

  /** `withRequests`: for a thread that serves HTTP requests. */
  constructor(withRequests: boolean) {
    this.requests = withRequests ? new RequestCounters() : undefined;
  }

  /** Before the slot is given to another route. */
  clear(slot: number): void {
    this.counters.clear(slot);
    this.requests?.clear(slot);
  }

  grow(count: number): void {
    while (this.counterPages.length < count) {
      const page = RouteCounters.newPage();
      this.counterPages.push(page);
      this.counters.addPage(page);
      if (this.requests === undefined) continue;
      const requests = RequestCounters.newPage();
      this.requestPages.push(requests);
      this.requests.addPage(requests);
    }
  }
}

export class SharedPages {
  readonly clusters = new SharedSlots(CLUSTER_FIELDS);
  readonly backends = new SharedSlots(BACKEND_FIELDS);
  readonly #clusterPages: SharedArrayBuffer[] = [];
  readonly #bucketPages: SharedArrayBuffer[] = [];
  /** Memory behind `backends`; grows. */
  readonly backendPages: SharedArrayBuffer[] = [];
  readonly #owned: OwnPages[] = [];
  #routes = 0;

  /** Adds a thread's pages, which grow with the others from now on, so that sums cover all threads. */
  add(own: OwnPages): void {
    this.#owned.push(own);
    own.grow(this.#routes);
  }

  grow(wanted: PageCounts): void {
    this.#routes = wanted.routes;
    for (const own of this.#owned) own.grow(wanted.routes);
    while (this.#clusterPages.length < wanted.clusters) {
      const page = SharedSlots.newPage(CLUSTER_FIELDS);
      this.#clusterPages.push(page);
      this.clusters.addPage(page);
      this.#bucketPages.push(BucketPages.newPage());
    }
    while (this.backendPages.length < wanted.backends) {
      const page = SharedSlots.newPage(BACKEND_FIELDS);
      this.backendPages.push(page);
      this.backends.addPage(page);
    }
  }

  /** The pages that the thread does not have yet; undefined if it has all. */
  give(own: OwnPages): Pages | undefined {
    const { clusters, routes, backends } = own.given;
    const all = {
      clusters: this.#clusterPages.length,
      routes: this.#routes,
      backends: this.backendPages.length,
    };
    if (clusters === all.clusters && routes === all.routes && backends === all.backends) return undefined;
    own.given = all;
    return {
      counters: own.counterPages.slice(routes),
      requests: own.requestPages.slice(routes),
      clusters: this.#clusterPages.slice(clusters),
      buckets: this.#bucketPages.slice(clusters),
      backends: this.backendPages.slice(backends),
    };
  }
}
