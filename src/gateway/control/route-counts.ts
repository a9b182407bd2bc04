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

interface CountingThread {
  readonly pages: OwnPages;
}

export class RouteCounts {
  readonly #threads: () => readonly CountingThread[];
  /** Counts of slots that were reused since, by offset. */
  readonly #past: number[] = [];

  /** `threads` are those that count by now. */
  constructor(threads: () => readonly CountingThread[]) {
    this.#threads = threads;
  }

  /** Called a million times in a scrape of a large table. */
  get(slot: number, offset: number): number {
    let sum = 0;
    for (const { pages } of this.#threads()) sum += pages.counters.get(slot, offset);
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
    for (const { pages } of this.#threads()) pages.clear(slot);
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
