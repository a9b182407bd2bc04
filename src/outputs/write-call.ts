// The calls that write one object, with everything that protects the objects of others:
// - What is not known to be ours is looked at first, and an object of the same name without our labels is left alone.
// - It is then created by an apply without force, so that one that appears in between is a conflict.
// - Changes and removals name the version that was seen, so that whatever happened since is a conflict, too.

import { isOwn } from '../kube/cluster-label.ts';
import { failed, type KubeApi, type KubeFault } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { apiVersionOf, type Resource } from '../kube/resources.ts';
import { servedResource } from '../kube/served-resource.ts';
import { isAsDesired, type KeptObject, keepObject } from './own-object.ts';
import type { OwnObjects } from './own-objects.ts';

export interface WriteCall {
  readonly api: KubeApi;
  readonly instance: string;
  readonly objects: OwnObjects;
  readonly key: string;
  /** Asked right before each write. */
  readonly mayWrite: () => boolean;
}

export type WriteResult =
  /** `applied`: as the API server has it now; absent where there was nothing to do. */
  | { readonly kind: 'done'; readonly applied?: KeptObject }
  /** It may not write any more. */
  | { readonly kind: 'stopped' }
  /** The object of that name, which is not ours. */
  | { readonly kind: 'foreign'; readonly object: KubeObject }
  | { readonly kind: 'failed'; readonly fault: KubeFault };

export async function applyObject(call: WriteCall, wanted: KubeObject): Promise<WriteResult> {
  const { api, objects, key, instance, mayWrite } = call;
  const served = await objects.served();
  if (!served.ok) return { kind: 'failed', fault: served.fault };
  const resource = served.value;
  const { namespace, name } = wanted.metadata;
  let seen = objects.get(key);
  if (seen === undefined) {
    const found = await api.get(resource, namespace, name);
    if (!found.ok && found.fault.status !== 404) return { kind: 'failed', fault: found.fault };
    if (found.ok && !isOwn(found.value.metadata, instance)) return { kind: 'foreign', object: found.value };
    if (found.ok) {
      objects.tell(key, found.value);
      seen = keepObject(found.value);
      if (isAsDesired(seen, wanted)) return { kind: 'done' };
    }
  }
  // Until it is gone, changes to it are lost.
  if (seen?.object.metadata.deletionTimestamp !== undefined) return { kind: 'done' };
  if (!mayWrite()) return { kind: 'stopped' };
  const object = { ...at(wanted, seen), apiVersion: apiVersionOf(resource) };
  const applied = await api.apply(resource, object, { force: seen !== undefined });
  if (applied.ok) {
    objects.tell(key, applied.value);
    return { kind: 'done', applied: keepObject(applied.value) };
  }
  if (applied.fault.status === 404) objects.notServed();
  return { kind: 'failed', fault: applied.fault };
}

export async function removeObject(call: WriteCall, seen: KeptObject): Promise<WriteResult> {
  const { objects, key } = call;
  const served = await objects.served();
  if (!served.ok) return { kind: 'failed', fault: served.fault };
  const result = await removeFrom(call, served.value, seen.object);
  if (result.kind === 'done') objects.tell(key, undefined);
  return result;
}

/** What is left of an output, or of a namespace, that is not in the file any more. */
export interface Leftovers {
  readonly resource: Resource<KubeObject>;
  /** Absent: all. */
  readonly namespaces: readonly string[] | undefined;
  readonly labelSelector: string;
  readonly isKept: (object: KubeObject) => boolean;
}

/** Fine where we may not see them, or there is no such resource. */
export async function removeLeftovers(
  call: Pick<WriteCall, 'api' | 'mayWrite'>,
  { resource: given, namespaces, labelSelector, isKept }: Leftovers,
): Promise<WriteResult> {
  const { api } = call;
  const { versions = [given.version] } = given;
  const served = await servedResource(api, given, versions);
  if (!served.ok) return harmless(served.fault);
  const resource = served.value;
  for (const namespace of namespaces ?? [undefined]) {
    const listed = await api.list(resource, { labelSelector, ...(namespace && { namespace }) });
    if (!listed.ok && harmless(listed.fault).kind === 'failed') return harmless(listed.fault);
    for (const object of listed.ok ? listed.value.items : []) {
      if (isKept(object)) continue;
      const removed = await removeFrom(call, resource, object);
      if (removed.kind === 'stopped') return removed;
      if (removed.kind === 'failed' && harmless(removed.fault).kind === 'failed') return removed;
    }
  }
  return { kind: 'done' };
}

async function removeFrom(
  { api, mayWrite }: Pick<WriteCall, 'api' | 'mayWrite'>,
  resource: Resource<KubeObject>,
  object: KubeObject,
): Promise<WriteResult> {
  if (!mayWrite()) return { kind: 'stopped' };
  const removed = await api.remove(resource, object);
  return removed.ok || removed.fault.status === 404
    ? { kind: 'done' }
    : { kind: 'failed', fault: removed.fault };
}

function harmless(fault: KubeFault): WriteResult {
  return fault.status === 403 || fault.status === 404 ? { kind: 'done' } : { kind: 'failed', fault };
}

function at(wanted: KubeObject, seen: KeptObject | undefined): KubeObject {
  if (seen === undefined) return wanted;
  const { uid = '', resourceVersion = '' } = seen.object.metadata;
  return { ...wanted, metadata: { ...wanted.metadata, uid, resourceVersion } };
}

/** A call that rejects is a defect of the client, and fails that one call only. */
export async function guarded(call: Promise<WriteResult>): Promise<WriteResult> {
  try {
    return await call;
  } catch (error) {
    return { kind: 'failed', fault: failed(0, 'Unexpected', String(error)).fault };
  }
}
