// What the threads have counted for each route, by slot: summed over threads when somebody asks. Every thread writes pages
// of its own, so that nobody waits for another.

import { type CloseReason, closeReasons } from '../close-reason.ts';
import { BYTES_IN_AT, BYTES_OUT_AT, REASONS_AT } from '../shared/shared-memory.ts';
import type { WorkerThread } from './worker-thread.ts';

/** What was counted, of a route or in all. */
export interface Figures {
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Connections that ended, by reason; only reasons that there were. */
  readonly reasons: Readonly<Partial<Record<CloseReason, number>>>;
}

/** Threads that count; those of a part come with its start. */
interface ThreadGroup {
  readonly threads: readonly WorkerThread[];
}

export class RouteCounts {
  readonly #groups: readonly ThreadGroup[];
  /** What was counted in slots that have been given out again since, by offset. */
  readonly #past: number[] = [];

  constructor(groups: readonly ThreadGroup[]) {
    this.#groups = groups;
  }

  /** Asked for a million times in a scrape of a large table. */
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

  /** Over those slots, and those that were cleared. */
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

  /** Reasons and bytes. */
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
