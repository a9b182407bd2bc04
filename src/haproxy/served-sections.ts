// Which section and which server lines each route has in HAProxy, and which it had: a connection that was routed before
// a change still belongs to the route that its section had then.

import type { ClusterEntry } from '../gateway/table/table.ts';
import type { KnownBackend } from './connection-records.ts';
import { assignServers, runtimeState, type ServerLines, wantedShapes } from './haproxy-table.ts';
import type { Place } from './log-line.ts';
import type { RuntimeState } from './runtime-state.ts';
import { type Assignment, assignSections, type SectionCounts } from './sections.ts';

/**
 * A section is given to another route at the earliest this long after it was freed, and when it has no connection left:
 * one that was routed to it before must not be dialled, or dialled again, to the backends of somebody else.
 */
const SECTION_REST_MS = 5000;

/** What HAProxy must have to serve the entries. */
export interface SectionPlan {
  readonly assignment: Assignment;
  readonly lines: ServerLines;
  readonly state: RuntimeState;
  readonly needed: SectionCounts;
  readonly alpn: readonly string[];
}

/** Open connections, by slot. */
export interface SlotCounts {
  readonly routes: ReadonlyMap<number, number>;
  readonly clusters: ReadonlyMap<number, number>;
}

export class ServedSections {
  #assignment: Assignment = new Map();
  #lines: ServerLines = new Map();
  /** Sections that routes have left: which route, and when. */
  readonly #leaving = new Map<string, { readonly slot: number; readonly since: number }>();
  /** By route slot: the slot of its cluster, also of routes that are gone. */
  readonly #clusterSlots = new Map<number, number>();
  /** By route slot: every address that a backend of the route had. */
  readonly #addresses = new Map<number, Map<string, KnownBackend>>();

  plan(entries: readonly ClusterEntry[], isDown: (backendSlot: number) => boolean): SectionPlan {
    const { assignment, needed } = assignSections(this.#assignment, wantedShapes(entries), this.#leaving);
    const lines = assignServers(this.#lines, entries);
    const protocols = entries.flatMap(({ routes }) => routes.flatMap(route => route.alpn));
    this.#rememberAddresses(entries);
    return {
      assignment,
      lines,
      state: runtimeState(entries, assignment, lines, isDown),
      needed,
      alpn: [...new Set(protocols)].toSorted(),
    };
  }

  /** HAProxy serves the plan. */
  serve({ assignment, lines }: SectionPlan, entries: readonly ClusterEntry[], now: number): void {
    const kept = new Set(assignment.values());
    for (const [slot, section] of this.#assignment)
      if (!kept.has(section)) this.#leaving.set(section, { slot, since: now });
    for (const { slot, routes } of entries)
      for (const route of routes) this.#clusterSlots.set(route.slot, slot);
    [this.#assignment, this.#lines] = [assignment, lines];
  }

  /** The route slot whose connections the section has; 0 if none. */
  slotOf(section: string): number {
    const served = [...this.#assignment].find(([, name]) => name === section)?.[0];
    return served ?? this.#leaving.get(section)?.slot ?? 0;
  }

  backendAt(slot: number, { address, port }: Place): KnownBackend | undefined {
    return this.#addresses.get(slot)?.get(placeText(address, port));
  }

  /** `section/server` of a backend. */
  serverOf(slot: number, backend: string): string {
    return `${this.#assignment.get(slot)}/s${this.#lines.get(slot)?.get(backend)}`;
  }

  /** Also of routes that are gone. */
  get clusterSlots(): ReadonlySet<number> {
    return new Set(this.#clusterSlots.values());
  }

  count(openIn: (section: string) => number): SlotCounts {
    const routes = new Map<number, number>();
    const clusters = new Map<number, number>();
    const left = [...this.#leaving].map(([section, { slot }]) => [slot, section] as const);
    for (const [slot, section] of [...this.#assignment, ...left]) {
      const open = openIn(section);
      addTo(routes, slot, open);
      addTo(clusters, this.#clusterSlots.get(slot) ?? 0, open);
    }
    return { routes, clusters };
  }

  /** Frees sections that have rested and had no connection at that time. */
  freeIdle(openIn: (section: string) => number, countedAt: number): void {
    for (const [section, { since }] of this.#leaving)
      if (countedAt - since >= SECTION_REST_MS && openIn(section) === 0) this.#leaving.delete(section);
  }

  /** Another route may get the slot. */
  forget(slot: number): void {
    this.#addresses.delete(slot);
    this.#clusterSlots.delete(slot);
  }

  #rememberAddresses(entries: readonly ClusterEntry[]): void {
    for (const { routes } of entries) {
      for (const { slot, backends } of routes) {
        const known = this.#addresses.get(slot) ?? new Map<string, KnownBackend>();
        this.#addresses.set(slot, known);
        for (const { addresses, port, text, slot: backend } of backends)
          for (const ip of addresses) known.set(placeText(ip, port), { text, slot: backend });
      }
    }
  }
}

function addTo(counts: Map<number, number>, slot: number, count: number): void {
  counts.set(slot, (counts.get(slot) ?? 0) + count);
}

function placeText(ip: string, port: number): string {
  return `${ip} ${port}`;
}
