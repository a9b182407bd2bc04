// Counts per route slot, summed over all threads on demand. Every thread writes its own pages, so that none waits for
// another.

import { type CloseReason, closeReasons } from '../close-reason.ts';
import { BYTES_IN_AT, BYTES_OUT_AT, REASONS_AT } from '../shared/shared-memory.ts';
import type { OwnPages } from '../shared/shared-pages.ts';

/** The counts of a route, or of all routes. */
export interface Figures {
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Ended connections by reason; reasons that never occurred are absent. */
  readonly reasons: Readonly<Partial<Record<CloseReason, number>>>;
}

/** Threads that count; HTTP and TLS threads are there once they have started. */
interface ThreadGroup {
  readonly threads: readonly { readonly pages: OwnPages }[];
}

export class RouteCounts {
  readonly #groups: readonly ThreadGroup[];
  /** Counts of slots that were reused since, by offset. */
  readonly #past: number[] = [];

  constructor(groups: readonly ThreadGroup[]) {
    this.#groups = groups;
  }

  /** Called a million times in a scrape of a large table. */
  get(slot: number, offset: number): number {
    let sum = 0;
    for (const { threads } of this.#groups) {
      for (const { pages } of threads) sum += pages.counters.get(slot, offset);
    }
    return sum;
  }

  figuresOf(slot: number): Figures {
    return figures(offset => this.get(slot, offset));
  }

  /** The sum over those slots and all that were cleared. */
  traffic(slots: Iterable<number>): Figures {
    const totals = [...this.#past];
    for (const slot of slots) this.#add(totals, slot);
    return figures(offset => totals[offset] ?? 0);
  }

  /** For a slot that another route may get. */
  clear(slot: number): void {
    this.#add(this.#past, slot);
    for (const { threads } of this.#groups) {
      for (const { pages } of threads) pages.clear(slot);
    }
  }

  /** Adds reasons and bytes. */
  #add(totals: number[], slot: number): void {
    for (let offset = REASONS_AT; offset <= BYTES_OUT_AT; offset++)
      totals[offset] = (totals[offset] ?? 0) + this.get(slot, offset);
  }
}

function figures(get: (offset: number) => number): Figures {
  const reasons: Partial<Record<CloseReason, number>> = {};
  for (const [index, reason] of closeReasons.entries()) {
    const count = get(REASONS_AT + index);
    if (count > 0) reasons[reason] = count;
  }
  return { bytesIn: get(BYTES_IN_AT), bytesOut: get(BYTES_OUT_AT), reasons };
}
