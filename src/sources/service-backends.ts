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
  const { source, namespaces, labelSelector, via, annotations, clock } = options;
  const index = new ServiceIndex();
  const where = { ...(namespaces && { namespaces }), ...(clock && { clock }) };
  let isStale = false;
  const onChange = () => {
    isStale = true;
    changed();
  };

  const selected = { ...where, ...(labelSelector !== undefined && { labelSelector }) };
  const keep = (service: Service) => keepService(service, annotations);
  const ofServices = openReflector(api, services, { ...selected, keep }, onChange);
  const ofSlices =
    via === 'endpoints'
      ? openReflector(api, endpointSlices, { ...where, keep: keepSlice }, onChange)
      : undefined;
  const watched: readonly Watched[] = [
    { what: 'Services', reflector: ofServices },
    ...(ofSlices === undefined ? [] : [{ what: 'EndpointSlices', reflector: ofSlices }]),
  ];

  let state = watchState(source, watched);
  /** Reads objects and state together, and not before `changed`: a reflector changes them one after the other. */
  const refresh = () => {
    if (!isStale) return;
    isStale = false;
    index.update(ofServices.objects, ofSlices?.objects ?? NO_SLICES);
    state = watchState(source, watched);
  };

  return {
    get services() {
      refresh();
      return index.services;
    },
    get state() {
      refresh();
      return state;
    },
    find(namespace, name, port, choice) {
      refresh();
      return index.find(namespace, name, port, choice);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([ofServices[Symbol.asyncDispose](), ofSlices?.[Symbol.asyncDispose]()]);
    },
  };
}

const NO_SLICES: ReadonlyMap<string, KeptSlice> = new Map();
