// Limits how many nonces each cluster may have remembered, so that none takes the room of another. One third of the
// room is guaranteed, in equal shares for all clusters with an id. The rest is common, and a cluster may have twice as
// much as is left of it: one cluster that floods gets two thirds of it, the next two thirds of the remainder, and each
// always finds its guaranteed share. A remembered nonce cannot be forgotten early, so the limit applies before it is
// stored.

import type { NonceTable } from './nonce-table.ts';
import { addRecent, recentCount } from './recent-count.ts';
import { CLUSTER_NONCES, type SharedSlots } from './shared-memory.ts';

/** The guaranteed fraction of the room. */
const GUARANTEED = 1 / 3;
/** A cluster may have this many times the common room that is left. */
const LEFT_FACTOR = 2;

export class NonceShares {
  readonly #all: Int32Array;
  readonly #clusters: SharedSlots;
  readonly #guaranteed: number;
  readonly #common: number;

  /** The clusters' own counts are in their slots. */
  constructor({ countWords, room }: Pick<NonceTable, 'countWords' | 'room'>, clusters: SharedSlots) {
    this.#all = countWords;
    this.#clusters = clusters;
    this.#guaranteed = Math.floor(room * GUARANTEED);
    this.#common = room - this.#guaranteed;
  }

  /**
   * Counts a nonce of that cluster, one of `clusters` with an id, remembered up to and including the second `until`.
   * False when the cluster's share is used up.
   */
  take(slot: number, clusters: number, until: number, now: number): boolean {
    const left = this.#common - recentCount(this.#all, 0, now);
    const most = Math.max(Math.floor(this.#guaranteed / clusters), LEFT_FACTOR * left);
    const words = this.#clusters.pageOf(slot);
    if (!addRecent(words, this.#clusters.indexOf(slot, CLUSTER_NONCES), until, now, most)) return false;
    return addRecent(this.#all, 0, until, now);
  }
}
