// The clusters of a file that was read before, so that reading it again costs only what has changed: clusters by their
// text, and the names that they claim.

import type { Cluster } from '../cluster/cluster.ts';
import { ClaimedNames } from './claimed-names.ts';
import { blockOf, type SplitClusters } from './split-clusters.ts';

/** Clusters of a new version of the file, which are known from commit() on. */
export interface TakenClusters {
  readonly clusters: readonly Cluster[];
  /** Two clusters claim the same name, or one of `reserved` is claimed. */
  hasConflict(reserved: readonly string[]): boolean;
  commit(): void;
}

export class KnownClusters {
  split: SplitClusters | undefined;
  #clusters: readonly Cluster[] = [];
  readonly #byText = new Map<string, Cluster>();
  readonly #names = new ClaimedNames();

  /** The same objects for the same texts as before. Undefined if `read` gives up. */
  take(split: SplitClusters, read: (text: string) => Cluster | undefined): TakenClusters | undefined {
    const { sameFirst, sameLast, starts } = split;
    const count = starts.length - 1;
    const before = this.#clusters;
    const clusters = before.slice(0, sameFirst);
    const fresh = new Map<string, Cluster>();
    for (let index = sameFirst; index < count - sameLast; index++) {
      const text = blockOf(split, index);
      const cluster = this.#byText.get(text) ?? fresh.get(text) ?? read(text);
      if (cluster === undefined) return undefined;
      fresh.set(text, cluster);
      clusters.push(cluster);
    }
    for (let index = before.length - sameLast; index < before.length; index++) clusters.push(before[index]);
    const removed = before.slice(sameFirst, before.length - sameLast);
    const added = clusters.slice(sameFirst, count - sameLast);
    return {
      clusters,
      hasConflict: reserved => this.#names.hasConflict(removed, added, reserved),
      commit: () => {
        for (let index = sameFirst; index < before.length - sameLast; index++)
          this.#byText.delete(blockOf(this.split as SplitClusters, index));
        for (const [text, cluster] of fresh) this.#byText.set(text, cluster);
        this.#names.replace(removed, added);
        this.#clusters = clusters;
        this.split = split;
      },
    };
  }
}
