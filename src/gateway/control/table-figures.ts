// What the admin side reads of a table: routes with their counters, backends with their health. Common to our own data
// path and to HAProxy, which fill the same counters.

import type { BackendHealth, HealthThread } from '../health/health-thread.ts';
import { ACTIVE_AT, BACKEND_ACTIVE } from '../shared/shared-memory.ts';
import type { SharedPages } from '../shared/shared-pages.ts';
import type { TableAuthor } from '../table/table-author.ts';
import type { CheckedBackend, RouteCounter, RouteFigures } from './gateway-port.ts';
import type { Figures, RouteCounts } from './route-counts.ts';

export class TableFigures {
  readonly #author: TableAuthor;
  readonly #counts: RouteCounts;
  readonly #pages: SharedPages;
  readonly #health: HealthThread;

  constructor(author: TableAuthor, counts: RouteCounts, pages: SharedPages, health: HealthThread) {
    this.#author = author;
    this.#counts = counts;
    this.#pages = pages;
    this.#health = health;
  }

  *backends(): Generator<CheckedBackend> {
    for (const { slot, route, backend } of this.#author.backends())
      yield { ...route, slot, backend, ...this.#health.of(slot), checks: this.#health.checksOf(slot) };
  }

  backendHealth(cluster: string, kind: string, backend: string): BackendHealth {
    const slot = this.#route(cluster, kind)?.backends.find(({ text }) => text === backend)?.slot;
    return slot === undefined ? { up: null } : this.#health.of(slot);
  }

  *routes(): Generator<RouteCounter> {
    for (let slot = 0; slot < this.#author.routeSlots; slot++) {
      const route = this.#author.routeAt(slot);
      if (slot !== 0 && route === undefined) continue;
      yield { slot, route, get: offset => this.#counts.get(slot, offset) };
    }
  }

  figuresOf(cluster: string, kind: string): RouteFigures | undefined {
    const route = this.#route(cluster, kind);
    if (route === undefined) return undefined;
    const active = (slot: number) => this.#pages.backends.get(slot, BACKEND_ACTIVE);
    return {
      ...this.#counts.figuresOf(route.slot),
      connections: this.#counts.get(route.slot, ACTIVE_AT),
      backends: new Map(route.backends.map(({ text, slot }) => [text, active(slot)])),
    };
  }

  /** The sum over all routes since the start, including removed routes and connections without a route. */
  traffic(): Figures {
    return this.#counts.traffic(this.routes().map(({ slot }) => slot));
  }

  #route(cluster: string, kind: string) {
    return this.#author.entryOf(cluster)?.routes.find(entry => entry.kind === kind);
  }
}
