// Objects with versions, and what has changed since which version, for lists and watches.

import type { Selection, WatchEnd, WatchEvent } from '../../src/kube/kube-api.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';
import { apiVersionOf, type Resource } from '../../src/kube/resources.ts';
import { managedFieldsOf, type Owners } from './field-managers.ts';
import { isSame } from './json-value.ts';
import { MemoryWatch } from './memory-watch.ts';
import { isSelected } from './selectors.ts';
import type { Definition } from './served-resources.ts';

export interface Stored {
  readonly object: KubeObject;
  readonly owners: Owners;
}

interface Change {
  readonly version: number;
  readonly type: string;
  readonly before: KubeObject | undefined;
  readonly after: KubeObject | undefined;
}

const DEFINITIONS = 'apiextensions.k8s.io/CustomResourceDefinition';

export class ObjectStore {
  date: () => Date = () => new Date();
  /** A deleted CustomResourceDefinition stays, without its objects, until this is false and it is deleted again. */
  slowTermination = false;
  readonly #kept = new Map<string, Stored>();
  readonly #watches = new Set<MemoryWatch>();
  #history: Change[] = [];
  #version = 0;
  #forgotten = 0;
  #uids = 0;

  get version(): string {
    return String(this.#version);
  }

  get definitions(): readonly Definition[] {
    return this.all(DEFINITIONS) as readonly Definition[];
  }

  get(type: string, namespace: string | undefined, name: string): Stored | undefined {
    return this.#kept.get(keyOf(type, namespace, name));
  }

  /** By type, or all. */
  all(type?: string): readonly KubeObject[] {
    return [...this.#kept]
      .filter(([key]) => type === undefined || key.startsWith(`${type}|`))
      .map(([, { object }]) => object);
  }

  /** Gives what is stored now: nothing has happened where it is as it was. */
  put(type: string, object: KubeObject, owners: Owners, isCustom: boolean): KubeObject {
    const { name, namespace } = object.metadata;
    const before = this.get(type, namespace, name);
    const { managedFields: _, ...given } = object.metadata;
    const kept = before?.object.metadata;
    const metadata = {
      ...given,
      uid: kept?.uid ?? given.uid ?? `uid-${++this.#uids}`,
      creationTimestamp: kept?.creationTimestamp ?? given.creationTimestamp ?? this.#timestamp(),
      ...(kept?.resourceVersion && { resourceVersion: kept.resourceVersion }),
      ...(isCustom && { generation: generationAfter(before?.object, object) }),
    };
    const managedFields = managedFieldsOf(owners, object.apiVersion);
    const next = structuredClone({ ...object, metadata: { ...metadata, managedFields } });
    if (before !== undefined && isSame(before.object, next)) return before.object;
    if (kept?.deletionTimestamp !== undefined && finalizersOf(next).length === 0) {
      return this.#delete(type, next);
    }
    this.#version++;
    const after = { ...next, metadata: { ...next.metadata, resourceVersion: this.version } };
    this.#kept.set(keyOf(type, namespace, name), { object: after, owners });
    this.#changed({ version: this.#version, type, before: before?.object, after });
    return after;
  }

  /** One with finalizers is only marked. */
  remove(type: string, { object, owners }: Stored): void {
    const isSlow = type === DEFINITIONS && this.slowTermination;
    if (finalizersOf(object).length > 0 || type === DEFINITIONS) {
      const metadata = { deletionTimestamp: this.#timestamp(), ...object.metadata };
      this.put(type, { ...object, metadata }, owners, false);
    }
    if (type === DEFINITIONS) this.#deleteInstances(object as Definition);
    if (finalizersOf(object).length === 0 && !isSlow) this.#delete(type, object);
    if (type === DEFINITIONS && !isSlow) this.#endWatchesOf(object as Definition);
  }

  /** Events after a version, as one watcher sees them; undefined where they are forgotten. */
  watch<T extends KubeObject>(
    resource: Resource<T>,
    selection: Selection,
    after: string,
  ): MemoryWatch<T> | undefined {
    const from = Number(after);
    if (from < this.#forgotten) return undefined;
    const type = typeOf(resource);
    const seen = (change: Change) =>
      change.type === type ? eventOf(change, selection, apiVersionOf(resource)) : undefined;
    const watch = new MemoryWatch<T>(resource, seen as never, () =>
      this.#watches.delete(watch as MemoryWatch),
    );
    for (const change of this.#history) if (change.version > from) watch.add(change);
    this.#watches.add(watch as MemoryWatch);
    return watch;
  }

  /** Ends every watch; what was not delivered is lost for it. */
  cut(end: WatchEnd): void {
    for (const watch of this.#watches) watch.cut(end);
  }

  bookmark(): void {
    for (const watch of this.#watches) watch.bookmark(this.version);
  }

  /** As etcd does after some minutes. */
  forget(): void {
    this.#forgotten = this.#version;
    this.#history = [];
  }

  #deleteInstances({ spec: { group, names } }: Definition): void {
    const type = `${group}/${names.kind}`;
    for (const object of this.all(type)) {
      const { namespace, name } = object.metadata;
      this.remove(type, this.get(type, namespace, name) as Stored);
    }
  }

  #endWatchesOf({ spec: { group, names } }: Definition): void {
    for (const watch of this.#watches) {
      const { resource } = watch;
      if (resource.group === group && resource.plural === names.plural) watch.close({ why: 'closed' });
    }
  }

  #delete(type: string, object: KubeObject): KubeObject {
    const { namespace, name } = object.metadata;
    const before = this.get(type, namespace, name)?.object;
    this.#kept.delete(keyOf(type, namespace, name));
    this.#changed({ version: ++this.#version, type, before, after: undefined });
    return object;
  }

  #changed(change: Change): void {
    this.#history.push(change);
    for (const watch of this.#watches) watch.add(change);
  }

  #timestamp(): string {
    return this.date()
      .toISOString()
      .replace(/\.\d+Z$/, 'Z');
  }
}

export function typeOf({ group, kind }: { readonly group: string; readonly kind: string }): string {
  return `${group}/${kind}`;
}

/** An object that enters or leaves a selection is added or deleted for who watches that selection. */
function eventOf(
  { version, before, after }: Change,
  selection: Selection,
  apiVersion: string,
): WatchEvent<KubeObject> | undefined {
  const was = before !== undefined && isSelected(before, selection);
  const is = after !== undefined && isSelected(after, selection);
  if (!was && !is) return undefined;
  const last = (is ? after : before) as KubeObject;
  const metadata = { ...last.metadata, resourceVersion: String(version) };
  const object = structuredClone({ ...last, apiVersion, metadata });
  return { type: !is ? 'DELETED' : was ? 'MODIFIED' : 'ADDED', object };
}

function generationAfter(before: KubeObject | undefined, after: KubeObject): number {
  const generation = (before?.metadata as { generation?: number } | undefined)?.generation ?? 0;
  const essence = (object: KubeObject | undefined) => ({ ...object, metadata: null, status: null });
  return before !== undefined && isSame(essence(before), essence(after)) ? generation : generation + 1;
}

function finalizersOf({ metadata }: KubeObject): readonly string[] {
  return (metadata as { finalizers?: readonly string[] }).finalizers ?? [];
}

function keyOf(type: string, namespace: string | undefined, name: string): string {
  return `${type}|${namespace ?? ''}|${name}`;
}
