// What one object of a source gives, and the observation that all of them give together.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import type { Observation } from './source.ts';
import type { WatchState } from './watch-state.ts';

export interface MadeCluster {
  /** Absent where the object is not to be served. */
  readonly cluster?: Cluster;
  readonly findings: readonly Finding[];
}

/** Nothing is made before everything has been listed: without its Services a cluster would seem to have lost them. */
export function observationOf(state: WatchState, make: () => readonly MadeCluster[]): Observation {
  if (!state.synced) return { ...state, clusters: [] };
  const clusters: Cluster[] = [];
  const findings: Finding[] = [...state.findings];
  for (const made of make()) {
    if (made.cluster !== undefined) clusters.push(made.cluster);
    findings.push(...made.findings);
  }
  return { ...state, clusters, findings };
}
