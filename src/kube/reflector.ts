// A copy of the objects of one resource that follows the API server: has listed them, watches, and lists again where it
// must. It keeps its last objects whatever happens to the server, and says what is wrong (list-watch.ts has the rules).

import { type Clock, systemClock } from './clock.ts';
import { type Answer, type KubeApi, wordsOf } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import { ListWatch } from './list-watch.ts';
import type { Resource } from './resources.ts';
import { servedResource } from './served-resource.ts';

export interface ReflectorOptions<T extends KubeObject, K> {
  /** Absent: all, or a resource without namespaces. */
  readonly namespaces?: readonly string[];
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Supported versions, the best first: the first that is served is read. Absent: the resource's own. */
  readonly versions?: readonly string[];
  /** What to keep of each object; must be pure. Default: all but managedFields. */
  readonly keep?: (object: T) => K;
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
}

/** After disposal nothing changes any more and `changed()` is not called. */
export interface Reflector<K> extends AsyncDisposable {
  /** By `<namespace>/<name>`, or by name. The same reference for as long as what `keep` makes of it is the same. */
  readonly objects: ReadonlyMap<string, K>;
  /** Every namespace has been listed at least once. Stays true. */
  readonly synced: boolean;
  /**
   * The resource is not served, not in a supported version, or its definition is being deleted. It is looked for, and
   * read as soon as it is there; `error` says more. Its last objects stay.
   */
  readonly absent: boolean;
  /**
   * A list was empty where there had been objects. They are kept, and removed if lists still lack them five minutes
   * later. Deletions that a watch reports are believed even if they are of every object.
   */
  readonly emptied: boolean;
  /** Why objects may be out of date: a sentence. Whatever it is, it is tried again. */
  readonly error: string | undefined;
}

/**
 * `changed()` is called after objects, as `keep` leaves them, or any of the other properties have changed: once for changes
 * that come together, and never from within this call. Deletions of custom resources are believed after a look at their
 * CustomResourceDefinition: `get` on `customresourcedefinitions` is needed; without it they take some seconds.
 */
export function openReflector<T extends KubeObject, K = T>(
  api: KubeApi,
  resource: Resource<T>,
  options: ReflectorOptions<T, K>,
  changed: () => void,
): Reflector<K> {
  const { namespaces, labelSelector, fieldSelector, versions } = options;
  const {
    keep = withoutManagedFields as (object: T) => K,
    clock = systemClock,
    random = Math.random,
  } = options;
  const objects = new Map<string, K>();
  const notification = coalesced(changed);
  const selector = {
    ...(labelSelector !== undefined && { labelSelector }),
    ...(fieldSelector !== undefined && { fieldSelector }),
  };
  const served = shared<Resource<T>>(async () =>
    versions === undefined ? { ok: true, value: resource } : servedResource(api, resource, versions),
  );
  const all = [...new Set(namespaces ?? [undefined])].map(
    namespace =>
      new ListWatch<T, K>({
        api,
        selection: { ...selector, ...(namespace !== undefined && { namespace }) },
        resource: served,
        keep,
        objects,
        clock,
        random,
        changed: notification.schedule,
      }),
  );
  const running = Promise.all(all.map(each => each.run()));
  return {
    objects,
    get synced() {
      return all.every(({ state }) => state.synced);
    },
    get absent() {
      return all.some(({ state }) => state.absent);
    },
    get emptied() {
      return all.some(({ state }) => state.emptied);
    },
    get error() {
      const fault = all.find(({ state }) => state.fault !== undefined)?.state.fault;
      return fault && wordsOf(fault);
    },
    async [Symbol.asyncDispose]() {
      for (const each of all) each.end();
      notification.end();
      await running;
    },
  };
}

function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

/** Calls under way are shared: every namespace asks the same. */
function shared<R>(ask: () => Promise<Answer<R>>): () => Promise<Answer<R>> {
  let underWay: Promise<Answer<R>> | undefined;
  return () => {
    underWay ??= ask().finally(() => (underWay = undefined));
    return underWay;
  };
}

function coalesced(act: () => void): { schedule(): void; end(): void } {
  let timer: NodeJS.Immediate | undefined;
  let isEnded = false;
  return {
    schedule() {
      if (isEnded) return;
      timer ??= setImmediate(() => {
        timer = undefined;
        act();
      });
    },
    end() {
      isEnded = true;
      clearImmediate(timer);
    },
  };
}
