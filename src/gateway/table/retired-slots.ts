// Slots that a change of the table has freed. A slot is reused only after its counters have been reported for a while
// and its last connection is gone.

import type { FreedSlots } from './table-author.ts';

/** The counters of a removed route are reported for this long, so that a scrape sees its last connections. */
const RETIRED_MS = 300_000;

interface Retired {
  readonly freed: FreedSlots;
  readonly at: number;
}

const kinds = ['routes', 'clusters', 'backends'] as const;

export class RetiredSlots {
  #retired: readonly Retired[] = [];

  add(freed: FreedSlots, now: number): void {
    this.#retired = [...this.#retired, { freed, at: now }];
  }

  /** The slots that may be reused; undefined until a change is old enough. */
  takeIdle(
    active: Readonly<Record<keyof FreedSlots, (slot: number) => number>>,
    now: number,
  ): FreedSlots | undefined {
    const due = this.#retired.filter(({ at }) => now - at >= RETIRED_MS);
    if (due.length === 0) return undefined;
    const idle = { routes: [] as number[], clusters: [] as number[], backends: [] as number[] };
    const busy = { routes: [] as number[], clusters: [] as number[], backends: [] as number[] };
    for (const kind of kinds) {
      for (const slot of due.flatMap(({ freed }) => freed[kind]))
        (active[kind](slot) === 0 ? idle : busy)[kind].push(slot);
    }
    const left = kinds.some(kind => busy[kind].length > 0) ? [{ freed: busy, at: due[0].at }] : [];
    this.#retired = [...this.#retired.filter(one => !due.includes(one)), ...left];
    return idle;
  }
}
