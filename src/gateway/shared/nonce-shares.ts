// Whose nonces are remembered, so that no cluster takes the room of another. A part of the room is guaranteed, the same
// for each cluster that has an id; the rest is common, and a cluster may have of it twice as much as is left over. So one
// that floods alone gets two thirds of it, the next two thirds of what that one left, and however many there are, each
// finds at least what is guaranteed. What is remembered cannot be taken back, which is why the limit comes before.

import type { NonceTable } from './nonce-table.ts';
import { addRecent, recentCount } from './recent-count.ts';
import { CLUSTER_NONCES, type SharedSlots } from './shared-memory.ts';

/** Of all nonces that can be remembered, one third is guaranteed. */
const GUARANTEED = 1 / 3;
/** How many times what is left over a cluster may have. */
const BOLDNESS = 2;

export class NonceShares {
  readonly #all: Int32Array;
  readonly #clusters: SharedSlots;
  readonly #guaranteed: number;
  readonly #common: number;

  /** The clusters' own counts are in their slots. */
  constructor({ front, room }: Pick<NonceTable, 'front' | 'room'>, clusters: SharedSlots) {
    this.#all = front;
    this.#clusters = clusters;
    this.#guaranteed = Math.floor(room * GUARANTEED);
    this.#common = room - this.#guaranteed;
  }

  /**
   * Counts a nonce of that cluster, one of `clusters` with an id, that is remembered up to and with the second `until`.
   * False when its share is used up.
   */
  take(slot: number, clusters: number, until: number, now: number): boolean {
    const left = this.#common - recentCount(this.#all, 0, now);
    const most = Math.max(Math.floor(this.#guaranteed / clusters), BOLDNESS * left);
    const words = this.#clusters.pageOf(slot);
    if (!addRecent(words, this.#clusters.indexOf(slot, CLUSTER_NONCES), until, now, most)) return false;
    return addRecent(this.#all, 0, until, now);
  }
}
