// The names that the clusters of a file claim, kept while the file changes. Says only whether there is a conflict: which
// one, and where, is for claims.ts.

import type { Cluster } from '../cluster/cluster.ts';
import { normalizeHost } from '../cluster/hostname.ts';
import { checkClaims } from './claims.ts';
import { claimsOfCluster } from './claims-of-cluster.ts';

/** As in claims.ts: a connection is TLS, cleartext or CONNECT. */
type Way = 'sni' | 'http' | 'connect';

/** Clusters that do not conflict with themselves, as two of their routes may. */
const sound = new WeakSet<Cluster>();

export class ClaimedNames {
  readonly #names = noNames();

  /** Whether the names conflict once these clusters are removed and added. `reserved` are hosts of others. */
  hasConflict(removed: readonly Cluster[], added: readonly Cluster[], reserved: readonly string[]): boolean {
    const free = noNames();
    for (const cluster of removed) forEachName(cluster, (way, name) => free[way].add(name));
    const isKept = (way: Way, name: string) => this.#names[way].has(name) && !free[way].has(name);
    // By index: the same text twice is the same object. A cluster may have a name more than once.
    const taken: Readonly<Record<Way, Map<string, number>>> = {
      sni: new Map(),
      http: new Map(),
      connect: new Map(),
    };
    let isConflict = !added.every(isSound);
    for (const [index, cluster] of added.entries()) {
      forEachName(cluster, (way, name) => {
        const holder = taken[way].get(name) ?? index;
        isConflict ||= holder !== index || isKept(way, name);
        taken[way].set(name, index);
      });
    }
    const isClaimed = (host: string) => taken.sni.has(host) || isKept('sni', host);
    return isConflict || reserved.some(host => isClaimed(normalizeHost(host)));
  }

  /** Of clusters without a conflict. */
  replace(removed: readonly Cluster[], added: readonly Cluster[]): void {
    for (const cluster of removed) forEachName(cluster, (way, name) => this.#names[way].delete(name));
    for (const cluster of added) forEachName(cluster, (way, name) => this.#names[way].add(name));
  }
}

function noNames(): Readonly<Record<Way, Set<string>>> {
  return { sni: new Set(), http: new Set(), connect: new Set() };
}

/** Every name that claims.ts would look at. */
function forEachName({ name, id, routes }: Cluster, each: (way: Way, name: string) => void): void {
  each('connect', normalizeHost(name));
  if (id !== undefined && id !== '') each('connect', normalizeHost(id));
  for (const { kind, hosts, connect } of routes) {
    for (const given of hosts) {
      const host = normalizeHost(given);
      each(kind === 'apps-http' ? 'http' : 'sni', host);
      if (kind === 'api' && !host.startsWith('*')) each('connect', host);
    }
    for (const given of connect) each('connect', normalizeHost(given));
  }
}

function isSound(cluster: Cluster): boolean {
  if (sound.has(cluster)) return true;
  let isFine = true;
  checkClaims(
    { clusters: [claimsOfCluster(cluster)] },
    () => '',
    () => {
      isFine = false;
    },
  );
  if (isFine) sound.add(cluster);
  return isFine;
}
