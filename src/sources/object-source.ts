// A source of custom resources whose backends are Services of the same API server: one object gives at most one cluster.
// Each system says what it keeps of an object and what it makes of it; watching, waiting and remembering are here.

import type { WatchOptions } from '../config/config.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { openReflector } from '../kube/reflector.ts';
import type { Resource } from '../kube/resources.ts';
import { type MadeCluster, observationOf } from './made-cluster.ts';
import { rememberClusters } from './remember-clusters.ts';
import { openServiceBackends } from './service-backends.ts';
import type { ServiceLookup } from './service-lookup.ts';
import type { Observation, Source, SourceContext } from './source.ts';
import { joinedState, watchState } from './watch-state.ts';

export interface ObjectKind<T extends KubeObject> {
  /** In the plural, for messages: `TenantControlPlanes of Kamaji`. */
  readonly what: string;
  readonly resource: Resource<T>;
  /** Supported, the best first: the first that is served is read. */
  readonly versions: readonly string[];
  readonly keep: (object: T) => T;
  /** Must depend on nothing but the object and its lookups. */
  readonly make: (object: T, lookup: ServiceLookup) => MadeCluster;
}

export interface ObjectSource<T extends KubeObject> extends Source {
  /** By `<namespace>/<name>`, as of the last observation. */
  readonly objects: ReadonlyMap<string, T>;
}

export function openObjectSource<T extends KubeObject>(
  kind: ObjectKind<T>,
  options: WatchOptions,
  context: SourceContext,
  changed: () => void,
): ObjectSource<T> {
  const { what, resource, versions, keep } = kind;
  const { name: source, clock } = context;
  const { kubeconfig, namespaces, selector, via } = options;
  const api = context.kubeApi({ kubeconfig, context: options.context });
  const make = rememberClusters<T>(kind.make);

  let last: Observation | undefined;
  let objects: ReadonlyMap<string, T> = new Map();
  const onChange = () => {
    last = undefined;
    changed();
  };
  const reflector = openReflector(
    api,
    resource,
    {
      ...(namespaces && { namespaces }),
      ...(selector !== undefined && { labelSelector: selector }),
      versions,
      keep,
      ...(clock && { clock }),
    },
    onChange,
  );
  const backends = openServiceBackends(api, { source, namespaces, via, clock }, onChange);

  function observe(): Observation {
    const own = watchState(source, [{ what, reflector }]);
    return observationOf(joinedState(own, backends.state), () => {
      objects = new Map(reflector.objects);
      return make(objects, backends);
    });
  }

  return {
    name: source,
    get objects() {
      return objects;
    },
    observe: () => (last ??= observe()),
    async [Symbol.asyncDispose]() {
      await Promise.all([reflector[Symbol.asyncDispose](), backends[Symbol.asyncDispose]()]);
    },
  };
}
