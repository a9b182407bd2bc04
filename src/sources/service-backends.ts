// Follows the Services and EndpointSlices of one API server, for every source whose backends are Services.

import type { Clock } from '../kube/clock.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { Service } from '../kube/kube-object.ts';
import { openReflector } from '../kube/reflector.ts';
import { endpointSlices, services } from '../kube/resources.ts';
import { keepService } from './kept-service.ts';
import { type KeptSlice, keepSlice } from './kept-slice.ts';
import { type IndexedService, ServiceIndex } from './service-index.ts';
import type { ServiceLookup } from './service-lookup.ts';
import { type Watched, type WatchState, watchState } from './watch-state.ts';

export interface ServiceBackendsOptions {
  /** The name of the source, for findings. */
  readonly source: string;
  /** Absent: all. */
  readonly namespaces?: readonly string[] | undefined;
  /** Of Services; their EndpointSlices need not have those labels. Absent: all. */
  readonly labelSelector?: string | undefined;
  /** With `clusterIP` EndpointSlices are not read, and `find(…, 'endpoints')` has no backends. */
  readonly via: 'endpoints' | 'clusterIP';
  /** The annotations to keep: those with this prefix. Default: ours. */
  readonly annotations?: string | undefined;
  readonly clock?: Clock | undefined;
}

/** Everything is as of one moment: nothing changes between two calls of `changed`. */
export interface ServiceBackends extends ServiceLookup, AsyncDisposable {
  /** By `<namespace>/<name>`. Another object after each change of the Service or its slices. */
  readonly services: ReadonlyMap<string, IndexedService>;
  /** Of both resources together. */
  readonly state: WatchState;
}

/** `changed` is called after a change, never from within this call and never after disposal. */
export function openServiceBackends(
  api: KubeApi,
  options: ServiceBackendsOptions,
  changed: () => void,
): ServiceBackends {
  const { source } = options;
  const shared = sharedServices(api, options);
  let state: WatchState | undefined;
  const end = shared.follow(() => {
    state = undefined;
    changed();
  });
  return {
    get services() {
      return shared.look().index.services;
    },
    get state() {
      return (state ??= watchState(source, shared.look().watched));
    },
    find: (namespace, name, port, choice) => shared.look().index.find(namespace, name, port, choice),
    [Symbol.asyncDispose]: end,
  };
}

/** What all sources share that want the same Services of the same API server: a source of its own would list them anew. */
interface SharedServices {
  /** As of the last change that was reported: a reflector changes its objects and its state one after the other. */
  look(): { readonly index: ServiceIndex; readonly watched: readonly Watched[] };
  /** Returns how to end it. With the last one, watching ends. */
  follow(changed: () => void): () => Promise<void>;
}

const shares = new WeakMap<KubeApi, Map<string, SharedServices>>();

function sharedServices(api: KubeApi, options: ServiceBackendsOptions): SharedServices {
  const { namespaces, labelSelector, via, annotations } = options;
  const key = JSON.stringify([namespaces, labelSelector, via, annotations]);
  const all = shares.get(api) ?? new Map<string, SharedServices>();
  shares.set(api, all);
  const shared = all.get(key) ?? openSharedServices(api, options, () => all.delete(key));
  all.set(key, shared);
  return shared;
}

function openSharedServices(
  api: KubeApi,
  { namespaces, labelSelector, via, annotations, clock }: ServiceBackendsOptions,
  ended: () => void,
): SharedServices {
  const index = new ServiceIndex();
  const followers = new Set<() => void>();
  const where = { ...(namespaces && { namespaces }), ...(clock && { clock }) };
  let isStale = false;
  const onChange = () => {
    isStale = true;
    for (const changed of followers) changed();
  };
  const selected = { ...where, ...(labelSelector !== undefined && { labelSelector }) };
  const keep = (service: Service) => keepService(service, annotations);
  const ofServices = openReflector(api, services, { ...selected, keep }, onChange);
  const ofSlices =
    via === 'endpoints'
      ? openReflector(api, endpointSlices, { ...where, keep: keepSlice }, onChange)
      : undefined;
  const watchedNow = (): readonly Watched[] => [
    { what: 'Services', reflector: stateOf(ofServices) },
    ...(ofSlices === undefined ? [] : [{ what: 'EndpointSlices', reflector: stateOf(ofSlices) }]),
  ];
  let watched = watchedNow();
  const look = () => {
    if (isStale) {
      isStale = false;
      index.update(ofServices.objects, ofSlices?.objects ?? NO_SLICES);
      watched = watchedNow();
    }
    return { index, watched };
  };
  return {
    look,
    follow(changed) {
      // Each its own, even if two of them have the same function.
      const follower = () => changed();
      followers.add(follower);
      // Whoever comes later does not see the changes before.
      if (look().watched.some(({ reflector }) => reflector.synced || reflector.error !== undefined))
        setImmediate(() => followers.has(follower) && follower());
      return async () => {
        if (!followers.delete(follower) || followers.size > 0) return;
        ended();
        await Promise.all([ofServices[Symbol.asyncDispose](), ofSlices?.[Symbol.asyncDispose]()]);
      };
    },
  };
}

function stateOf({ synced, absent, emptied, error }: Watched['reflector']): Watched['reflector'] {
  return { synced, absent, emptied, error };
}

const NO_SLICES: ReadonlyMap<string, KeptSlice> = new Map();
