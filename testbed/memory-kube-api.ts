// An API server in memory for tests: objects with versions, preconditions, conflicts, and the owners of list
// entries. Several clients share one store; each has a field manager's name.

import { type Answer, failed, type KubeApi, type KubeFault, type Resource } from '../src/kube/kube-api.ts';
import type { KubeObject, Service } from '../src/kube/kube-object.ts';

type Method = 'get' | 'list' | 'create' | 'replace' | 'remove';

export interface MemoryStore {
  /** Writes so far, as `Lease/causeway-agent-…` with the call. */
  readonly writes: string[];
  client(manager?: string): KubeApi;
  /** By key, for example `EndpointSlice/default/kubernetes`. */
  peek<T extends KubeObject>(key: string): T | undefined;
  keys(): string[];
  /** While set, it answers calls instead of the store. */
  fault: ((method: Method, plural: string) => KubeFault | undefined) | undefined;
  /** Every call waits for this before it is made and before it is answered. */
  gate: (label: string) => Promise<unknown>;
}

const LISTS = ['endpoints', 'subsets'];

export function memoryStore(...objects: readonly KubeObject[]): MemoryStore {
  const kept = new Map<string, KubeObject>();
  let version = 0;

  const put = (object: KubeObject, manager: string, before?: KubeObject): KubeObject => {
    const managedFields = LISTS.filter(list => list in object).map(list => {
      const changed = JSON.stringify(fieldOf(object, list)) !== JSON.stringify(fieldOf(before, list));
      const owner = changed ? manager : (before?.metadata.managedFields?.[0]?.manager ?? manager);
      return { manager: owner, fieldsV1: { [`f:${list}`]: {} } };
    });
    const uid = before?.metadata.uid ?? `uid-${++version}`;
    const metadata = { ...object.metadata, uid, resourceVersion: String(++version), managedFields };
    const stored = structuredClone({ ...object, metadata });
    kept.set(keyOf(object), stored);
    return structuredClone(stored);
  };
  for (const object of objects) put(object, 'kube-apiserver');

  const store: MemoryStore = {
    writes: [],
    fault: undefined,
    gate: async () => {},
    peek: <T extends KubeObject>(key: string) => structuredClone(kept.get(key)) as T | undefined,
    keys: () => [...kept.keys()],
    client(manager = 'causeway') {
      async function call<T>(
        method: Method,
        { plural }: Resource<KubeObject>,
        act: () => Answer<T>,
      ): Promise<Answer<T>> {
        await store.gate(`${method} ${plural}`);
        const fault = store.fault?.(method, plural);
        const answer: Answer<T> = fault === undefined ? act() : { ok: false, fault };
        await store.gate(`${method} ${plural} answered`);
        return answer;
      }
      return {
        get: (resource, namespace, name) =>
          call('get', resource, () => {
            const found = kept.get(`${resource.kind}/${namespace}/${name}`);
            return found === undefined ? missing(name) : { ok: true, value: structuredClone(found) as never };
          }),
        list: (resource, { namespace, labelSelector }) =>
          call('list', resource, () => {
            const wanted = (labelSelector?.split(',') ?? []).map(pair => pair.split('='));
            const found = [...kept.values()].filter(
              ({ kind, metadata }) =>
                kind === resource.kind &&
                metadata.namespace === namespace &&
                wanted.every(([key, value]) => metadata.labels?.[key] === value),
            );
            return { ok: true, value: structuredClone(found) as never };
          }),
        create: (resource, object) =>
          call('create', resource, () => {
            if (kept.has(keyOf(object))) return failed(409, 'AlreadyExists', 'it is there already');
            store.writes.push(`create ${keyOf(object)}`);
            return { ok: true, value: put(object, manager) as never };
          }),
        replace: (resource, object) =>
          call('replace', resource, () => {
            const before = kept.get(keyOf(object));
            if (before === undefined) return missing(object.metadata.name);
            if (!isAt(before, object)) return failed(409, 'Conflict', 'it has changed');
            if (fieldOf(before, 'addressType') !== fieldOf(object, 'addressType')) {
              return failed(422, 'Invalid', 'addressType is immutable');
            }
            store.writes.push(`replace ${keyOf(object)}`);
            return { ok: true, value: put(object, manager, before) as never };
          }),
        remove: (resource, object) =>
          call('remove', resource, () => {
            const before = kept.get(keyOf(object));
            if (before === undefined) return missing(object.metadata.name);
            if (!isAt(before, object)) return failed(409, 'Conflict', 'it has changed');
            store.writes.push(`remove ${keyOf(object)}`);
            kept.delete(keyOf(object));
            return { ok: true, value: undefined as never };
          }),
      };
    },
  };
  return store;
}

/** Service `default/kubernetes`, as an API server creates it. */
export function kubernetesService(...clusterIPs: readonly string[]): Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'kubernetes', namespace: 'default' },
    spec: { clusterIPs, ipFamilies: clusterIPs.map(ip => (ip.includes(':') ? 'IPv6' : 'IPv4')) },
  };
}

function keyOf({ kind, metadata }: KubeObject): string {
  return `${kind}/${metadata.namespace}/${metadata.name}`;
}

function isAt(before: KubeObject, { metadata }: KubeObject): boolean {
  const { uid, resourceVersion } = before.metadata;
  return (metadata.resourceVersion ?? resourceVersion) === resourceVersion && (metadata.uid ?? uid) === uid;
}

function fieldOf(object: KubeObject | undefined, name: string): unknown {
  return (object as unknown as Record<string, unknown> | undefined)?.[name];
}

function missing(name: string): Answer<never> {
  return failed(404, 'NotFound', `'${name}' not found`);
}
