// The clusters of a file by their text, so that a file that is read again costs only what has changed.

import type { Cluster } from '../cluster/cluster.ts';

interface Known {
  readonly text: string;
  readonly cluster: Cluster;
}

export class KnownClusters {
  #known: ReadonlyMap<string, Known> = new Map();

  /** The same objects for the same texts as last time. Undefined, and nothing is forgotten, if `read` gives up. */
  take(texts: Iterable<string>, read: (text: string) => Cluster | undefined): readonly Cluster[] | undefined {
    const next = new Map<string, Known>();
    const clusters: Cluster[] = [];
    for (const given of texts) {
      const known = this.#known.get(given) ?? readOnce(given, read);
      if (known === undefined) return undefined;
      next.set(known.text, known);
      clusters.push(known.cluster);
    }
    this.#known = next;
    return clusters;
  }
}

/** From a copy of its own: a part of a text keeps the whole text in memory, here that of a whole file for each edit. */
function readOnce(given: string, read: (text: string) => Cluster | undefined): Known | undefined {
  const text = Buffer.from(given).toString();
  const cluster = read(text);
  return cluster && { text, cluster };
}
