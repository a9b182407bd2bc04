// Makes clusters of objects, and again only of those that have changed: a cluster that comes out the same is the same
// object as before, so that plan and outputs can compare references. A status that an operator updates every few seconds
// changes nothing for us.

import { isDeepStrictEqual } from 'node:util';
import type { MadeCluster } from './made-cluster.ts';
import type { FoundService, ServiceLookup } from './service-lookup.ts';

interface Remembered<T> extends MadeCluster {
  readonly object: T;
  readonly lookups: readonly Lookup[];
}

interface Lookup {
  readonly args: Parameters<ServiceLookup['find']>;
  readonly found: FoundService;
}

/** `make` must depend on nothing but the object and its lookups. */
export function rememberClusters<T>(
  make: (object: T, lookup: ServiceLookup) => MadeCluster,
): (objects: ReadonlyMap<string, T>, lookup: ServiceLookup) => readonly MadeCluster[] {
  let remembered = new Map<string, Remembered<T>>();
  return (objects, lookup) => {
    const next = new Map<string, Remembered<T>>();
    for (const [key, object] of objects) {
      const before = remembered.get(key);
      next.set(key, isCurrent(before, object, lookup) ? before : remade(make, before, object, lookup));
    }
    remembered = next;
    return [...next.values()];
  };
}

function isCurrent<T>(
  before: Remembered<T> | undefined,
  object: T,
  lookup: ServiceLookup,
): before is Remembered<T> {
  return (
    before?.object === object && before.lookups.every(({ args, found }) => lookup.find(...args) === found)
  );
}

function remade<T>(
  make: (object: T, lookup: ServiceLookup) => MadeCluster,
  before: Remembered<T> | undefined,
  object: T,
  lookup: ServiceLookup,
): Remembered<T> {
  const lookups: Lookup[] = [];
  const { cluster, findings } = make(object, {
    find: (...args) => {
      const found = lookup.find(...args);
      lookups.push({ args, found });
      return found;
    },
  });
  const same = before?.cluster !== undefined && isDeepStrictEqual(cluster, before.cluster);
  const kept = same ? before.cluster : cluster;
  return { ...(kept !== undefined && { cluster: kept }), findings, object, lookups };
}
