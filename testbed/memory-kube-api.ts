// An API server in memory for tests: objects with versions, preconditions, conflicts, watches, the books of who owns
// which field, and CustomResourceDefinitions, without which their resources are not there. Several clients share one
// store; each says under which name it writes. kube-api.contract.ts holds it to what a real API server does.

import {
  type Answer,
  type ApplyOptions,
  type Failed,
  failed,
  type KubeApi,
  type KubeFault,
  type Subresource,
  type WatchEnd,
} from '../src/kube/kube-api.ts';
import type { KubeObject, Service } from '../src/kube/kube-object.ts';
import { apiVersionOf, isBuiltIn, type Resource } from '../src/kube/resources.ts';
import { applied, type Owners, ownersAfterUpdate } from './memory-kube/field-managers.ts';
import { mergeJson, PatchError, patchJson } from './memory-kube/json-patch.ts';
import { ObjectStore, type Stored, typeOf } from './memory-kube/object-store.ts';
import { isSelected } from './memory-kube/selectors.ts';
import { discovered, hasStatus, isServed } from './memory-kube/served-resources.ts';

type Method = keyof KubeApi;

export interface MemoryStore {
  /** Whoever writes something: `replace Lease/kube-system/causeway-agent-…`. */
  readonly writes: string[];
  client(manager?: string): KubeApi;
  /** As `EndpointSlice/default/kubernetes`, or `Node/a` where there is no namespace. */
  peek<T extends KubeObject>(key: string): T | undefined;
  keys(): string[];
  /** Answers calls instead of the store while set. Watches that are open go on. */
  fault: ((method: Method, plural: string) => KubeFault | undefined) | undefined;
  /** Every call waits for this first, and again before its answer arrives; so does each event of a watch. */
  gate: (label: string) => Promise<unknown>;
  /** For timestamps. */
  date: () => Date;
  /** A CustomResourceDefinition that is deleted stays in that state, its objects gone, until this is false and it is deleted again. */
  slowTermination: boolean;
  /** Ends every watch; events on their way are lost. */
  cutWatches(end?: WatchEnd): void;
  /** To every watch. */
  bookmark(): void;
  /** What has changed so far is no longer known: older watches have expired. */
  forget(): void;
}

export function memoryStore(...objects: readonly KubeObject[]): MemoryStore {
  const kept = new ObjectStore();
  for (const object of objects) {
    const owners = ownersAfterUpdate(new Map(), 'kube-apiserver', undefined, object);
    const [version, group = ''] = object.apiVersion.split('/').toReversed();
    const resource = { group, version, plural: '', kind: object.kind };
    kept.put(typeOf(resource), object, owners, !isBuiltIn(resource));
  }
  const store: MemoryStore = {
    writes: [],
    fault: undefined,
    gate: async () => {},
    date: () => new Date(),
    slowTermination: false,
    peek: <T extends KubeObject>(key: string) =>
      structuredClone(kept.all().find(object => nameOf(object) === key)) as T | undefined,
    keys: () => kept.all().map(nameOf),
    client: (manager = 'causeway') => clientOf(store, kept, manager),
    cutWatches: (end = { why: 'closed' }) => kept.cut(end),
    bookmark: () => kept.bookmark(),
    forget: () => kept.forget(),
  };
  return store;
}

function clientOf(store: MemoryStore, kept: ObjectStore, manager: string): KubeApi {
  async function call<T, R extends KubeObject>(
    method: Method,
    resource: Resource<R>,
    act: () => Answer<T>,
  ): Promise<Answer<T>> {
    const { plural } = resource;
    await store.gate(`${method} ${plural}`);
    kept.date = store.date;
    kept.slowTermination = store.slowTermination;
    const fault = store.fault?.(method, plural);
    const answer: Answer<T> =
      fault !== undefined
        ? { ok: false, fault }
        : isServed(resource, kept.definitions)
          ? act()
          : failed(404, 'NotFound', 'the server could not find the requested resource');
    await store.gate(`${method} ${plural} answered`);
    return answer;
  }

  function found<T extends KubeObject>(resource: Resource<T>, namespace: string | undefined, name: string) {
    return kept.get(typeOf(resource), namespace, name);
  }

  /** As every write ends. `owners` absent: whoever changes a field owns it. */
  function put<T extends KubeObject>(
    method: Method,
    resource: Resource<T>,
    given: KubeObject,
    { subresource, owners }: Subresource & { owners?: Owners } = {},
  ): Answer<T> {
    const { namespace, name } = given.metadata;
    const before = found(resource, namespace, name);
    const object = withStatus(resource, before?.object, given, subresource);
    if (before !== undefined) {
      if (!isAt(before.object, given)) return failed(409, 'Conflict', 'the object has been modified');
      if (fieldOf(before.object, 'addressType') !== fieldOf(object, 'addressType')) {
        return failed(422, 'Invalid', 'addressType is immutable');
      }
    }
    store.writes.push(`${method} ${nameOf(object)}`);
    const books = owners ?? ownersAfterUpdate(before?.owners ?? new Map(), manager, before?.object, object);
    const stored = kept.put(typeOf(resource), object, books, !isBuiltIn(resource));
    return { ok: true, value: shown(resource, stored) };
  }

  /** A write to the object leaves its status alone, one to the status leaves the rest alone. */
  function withStatus<T extends KubeObject>(
    resource: Resource<T>,
    before: KubeObject | undefined,
    given: KubeObject,
    subresource: string | undefined,
  ): KubeObject {
    const status = (object: KubeObject | undefined) => {
      const value = fieldOf(object, 'status');
      return value === undefined ? {} : { status: value };
    };
    if (subresource === 'status') return { ...(before as KubeObject), ...status(given) };
    if (!hasStatus(resource, kept.definitions)) return given;
    const { status: _, ...rest } = given as KubeObject & { status?: unknown };
    return { ...rest, ...status(before) };
  }

  function change<T extends KubeObject>(
    method: Method,
    resource: Resource<T>,
    namespace: string | undefined,
    name: string,
    options: Subresource,
    edit: (object: KubeObject) => KubeObject,
  ): Promise<Answer<T>> {
    return call(method, resource, () => {
      const before = found(resource, namespace, name);
      if (before === undefined || !hasSubresource(resource, options)) return missing(name);
      try {
        return put(method, resource, edit(shown(resource, before.object)), options);
      } catch (error) {
        if (error instanceof PatchError) return failed(422, 'Invalid', error.message);
        throw error;
      }
    });
  }

  function hasSubresource<T extends KubeObject>(resource: Resource<T>, { subresource }: Subresource) {
    return subresource === undefined || hasStatus(resource, kept.definitions);
  }

  return {
    get: (resource, namespace, name) =>
      call('get', resource, () => {
        const stored = found(resource, namespace, name);
        return stored === undefined ? missing(name) : { ok: true, value: shown(resource, stored.object) };
      }),
    list: (resource, { keep, ...selection }) =>
      call('list', resource, () => {
        const objects = kept.all(typeOf(resource)).filter(object => isSelected(object, selection));
        const items = objects.map(object => {
          const item = shown(resource, object);
          return (keep === undefined ? item : keep(item)) as never;
        });
        return { ok: true, value: { items, resourceVersion: kept.version } };
      }),
    async watch(resource, options, onEvent) {
      const { signal, resourceVersion, onOpen } = options;
      const opened = await call('watch', resource, () => {
        const watch = kept.watch(resource, options, resourceVersion);
        if (watch === undefined)
          return failed(410, 'Expired', `too old resource version: ${resourceVersion}`);
        return { ok: true, value: watch };
      });
      if (!opened.ok && signal.aborted) return { why: 'aborted' };
      if (!opened.ok) return { why: opened.fault.status === 410 ? 'expired' : 'failed', fault: opened.fault };
      if (!signal.aborted) onOpen?.();
      return opened.value.deliver(onEvent, signal, () => store.gate(`watch ${resource.plural} event`));
    },
    create: (resource, object) =>
      call('create', resource, () => {
        const { namespace, name } = object.metadata;
        if (found(resource, namespace, name) !== undefined) {
          return failed(409, 'AlreadyExists', `'${name}' already exists`);
        }
        return put('create', resource, object);
      }),
    replace: (resource, object) =>
      call('replace', resource, () => {
        const { namespace, name } = object.metadata;
        if (found(resource, namespace, name) === undefined) return missing(name);
        return put('replace', resource, object);
      }),
    remove: (resource, object) =>
      call('remove', resource, () => {
        const { namespace, name } = object.metadata;
        const before = found(resource, namespace, name);
        if (before === undefined) return missing(name);
        if (!isAt(before.object, object)) return failed(409, 'Conflict', 'the object has been modified');
        store.writes.push(`remove ${nameOf(before.object)}`);
        kept.remove(typeOf(resource), before);
        return { ok: true, value: undefined as never };
      }),
    apply: (resource, object, { force = false, subresource }: ApplyOptions = {}) =>
      call('apply', resource, () => {
        const { namespace, name, uid, resourceVersion } = object.metadata;
        const before: Stored | undefined = found(resource, namespace, name);
        if (
          subresource !== undefined &&
          (before === undefined || !hasSubresource(resource, { subresource }))
        ) {
          return missing(name);
        }
        if (before === undefined && uid !== undefined) {
          return failed(409, 'Conflict', `uid mismatch: '${name}' does not exist`);
        }
        const result = applied(before?.owners ?? new Map(), manager, before?.object, object, force);
        if ('conflicts' in result) {
          return failed(409, 'Conflict', `Apply failed with conflicts: ${result.conflicts.join(', ')}`);
        }
        const identity = { apiVersion: object.apiVersion, kind: object.kind };
        const merged = { ...result.object, ...identity } as KubeObject;
        const metadata = {
          ...merged.metadata,
          name,
          ...(namespace !== undefined && { namespace }),
          ...(uid !== undefined && { uid }),
          ...(resourceVersion !== undefined && { resourceVersion }),
        };
        return put(
          'apply',
          resource,
          { ...merged, metadata },
          {
            owners: result.owners,
            ...(subresource && { subresource }),
          },
        );
      }),
    patch: (resource, namespace, name, operations, options = {}) =>
      change('patch', resource, namespace, name, options, object => {
        patchJson(object, operations);
        return object;
      }),
    merge: (resource, namespace, name, patch, options = {}) =>
      change('merge', resource, namespace, name, options, object => mergeJson(object, patch) as KubeObject),
    discover: group =>
      call('discover', { group: '', version: 'v1', plural: group, kind: '' }, () => {
        const value = discovered(group, kept.definitions);
        return value === undefined
          ? failed(404, 'NotFound', `The API group '${group}' is not served`)
          : { ok: true, value };
      }),
  };
}

/** Service `default/kubernetes`, as an API server makes it. */
export function kubernetesService(...clusterIPs: readonly string[]): Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'kubernetes', namespace: 'default' },
    spec: { clusterIPs, ipFamilies: clusterIPs.map(ip => (ip.includes(':') ? 'IPv6' : 'IPv4')) },
  };
}

/** In the version that was asked for. */
function shown<T extends KubeObject>(resource: Resource<T>, object: KubeObject): T {
  return { ...structuredClone(object), apiVersion: apiVersionOf(resource) } as T;
}

function nameOf({ kind, metadata: { namespace, name } }: KubeObject): string {
  return namespace === undefined ? `${kind}/${name}` : `${kind}/${namespace}/${name}`;
}

function isAt(before: KubeObject, { metadata }: KubeObject): boolean {
  const { uid, resourceVersion } = before.metadata;
  return (metadata.resourceVersion ?? resourceVersion) === resourceVersion && (metadata.uid ?? uid) === uid;
}

function fieldOf(object: KubeObject | undefined, name: string): unknown {
  return (object as unknown as Record<string, unknown> | undefined)?.[name];
}

function missing(name: string): Failed {
  return failed(404, 'NotFound', `'${name}' not found`);
}
