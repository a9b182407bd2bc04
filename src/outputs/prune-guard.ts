// Decides whether an object that is not desired may be removed. Not desired may mean that its cluster was deleted, or
// that its source could not be read. Pure, but for what it remembers.

import type { Cluster } from '../cluster/cluster.ts';
import type { Output, OutputResource } from './output.ts';

/** A source that has been empty since this process started is believed after this time. */
const EMPTY_MS = 300_000;

/** What is known about sources and outputs at the moment of a plan. */
export interface WriteGuard {
  /** Sources in the file. The objects of others are removed. */
  readonly configured: ReadonlySet<string>;
  /** Sources whose clusters are all there are: what is missing was deleted. */
  readonly complete: ReadonlySet<string>;
  /** Sources that have a cluster. */
  readonly nonEmpty: ReadonlySet<string>;
  /** Clusters (by name) whose objects stay as they are. */
  readonly paused: ReadonlySet<string>;
  /** What the outputs in the file write. Our objects of other resources are removed. */
  readonly resources: readonly OutputResource[];
  /** Where clusters and so their objects can be, and where we may look. Absent: everywhere. */
  readonly namespaces?: readonly string[] | undefined;
}

/** As `Source` and what it observes. */
interface ObservedSource {
  readonly name: string;
  readonly clusters: readonly Cluster[];
  readonly complete: boolean;
}

/** `namespaces` absent: everywhere. */
export function writeGuard(
  sources: readonly ObservedSource[],
  outputs: readonly Output[],
  namespaces?: readonly string[],
): WriteGuard {
  const names = (chosen: readonly ObservedSource[]) => new Set(chosen.map(({ name }) => name));
  const clusters = sources.flatMap(source => source.clusters);
  return {
    configured: names(sources),
    complete: names(sources.filter(({ complete }) => complete)),
    nonEmpty: names(sources.filter(source => source.clusters.length > 0)),
    paused: new Set(clusters.filter(each => each.controlPlane?.isPaused).map(({ name }) => name)),
    resources: outputs.flatMap(({ resources }) => resources),
    namespaces,
  };
}

export class PruneGuard {
  #guard: WriteGuard | undefined;
  /** Sources that have had a cluster while they were complete: when they turn empty, deletions were seen. */
  readonly #everFilled = new Set<string>();
  /** When objects of an empty source were first found. */
  readonly #emptySince = new Map<string, number>();

  update(guard: WriteGuard): void {
    this.#guard = guard;
    for (const source of guard.complete) if (guard.nonEmpty.has(source)) this.#everFilled.add(source);
    for (const source of this.#emptySince.keys())
      if (!this.#isDoubted(source)) this.#emptySince.delete(source);
  }

  /** A time: not before then. */
  mayRemove(source: string | undefined, now: number): boolean | { readonly notBefore: number } {
    const guard = this.#guard;
    if (guard === undefined) return false;
    // Somebody has removed the annotation: it may be of any.
    if (source === undefined) {
      return [...guard.configured].every(each => guard.complete.has(each) && this.#everFilled.has(each));
    }
    if (!guard.configured.has(source)) return true;
    if (!guard.complete.has(source)) return false;
    if (!this.#isDoubted(source)) return true;
    const since = this.#emptySince.get(source) ?? now;
    this.#emptySince.set(source, since);
    return now - since >= EMPTY_MS ? true : { notBefore: since + EMPTY_MS };
  }

  #isDoubted(source: string): boolean {
    return this.#guard?.complete.has(source) === true && !this.#everFilled.has(source);
  }
}
