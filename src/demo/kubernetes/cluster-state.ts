// The objects and recent events of one small cluster, shared by both of its API servers. Watches follow the rules that
// kubectl relies on: a watch from a resource version misses nothing, or fails because the version is too old.

import type { KubeObject } from './kube-object.ts';

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** The plural name of the resource. */
  readonly resource: string;
  readonly object: KubeObject;
  readonly version: number;
}

/** A few minutes of events in a demo. */
const KEPT_EVENTS = 512;
/** Low numbers have special meanings: 0 means any version. */
const FIRST_VERSION = 1000;

export class ClusterState {
  readonly #objects = new Map<string, Map<string, KubeObject>>();
  readonly #watchers = new Set<(event: WatchEvent) => void>();
  #events: readonly WatchEvent[] = [];
  #version = FIRST_VERSION;

  /** The version of the last change. */
  get version(): number {
    return this.#version;
  }

  /** Sorted by namespace and name, as an API server lists them. */
  list(resource: string): KubeObject[] {
    const objects = this.#objects.get(resource) ?? new Map<string, KubeObject>();
    return [...objects].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
  }

  get(resource: string, namespace: string | undefined, name: string): KubeObject | undefined {
    return this.#objects.get(resource)?.get(keyOf(namespace, name));
  }

  /** Adds the object, or replaces the one with that name. */
  put(resource: string, object: KubeObject): void {
    const objects = this.#objects.get(resource) ?? new Map<string, KubeObject>();
    this.#objects.set(resource, objects);
    const key = keyOf(object.metadata.namespace, object.metadata.name);
    const type = objects.has(key) ? 'MODIFIED' : 'ADDED';
    objects.set(key, this.#record(type, resource, object));
  }

  remove(resource: string, { metadata }: KubeObject): void {
    const key = keyOf(metadata.namespace, metadata.name);
    const object = this.#objects.get(resource)?.get(key);
    if (object === undefined) return;
    this.#objects.get(resource)?.delete(key);
    this.#record('DELETED', resource, object);
  }

  /** The events after that version; undefined if they are no longer all kept. */
  since(version: number): readonly WatchEvent[] | undefined {
    const oldest = this.#events[0]?.version ?? this.#version + 1;
    if (version + 1 < oldest) return undefined;
    return this.#events.filter(event => event.version > version);
  }

  /** Reports events from now on. Returns a function that stops it. */
  watch(reported: (event: WatchEvent) => void): () => void {
    this.#watchers.add(reported);
    return () => this.#watchers.delete(reported);
  }

  #record(type: WatchEvent['type'], resource: string, object: KubeObject): KubeObject {
    const version = ++this.#version;
    const stamped = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    const event: WatchEvent = { type, resource, object: stamped, version };
    this.#events = [...this.#events, event].slice(-KEPT_EVENTS);
    for (const reported of this.#watchers) reported(event);
    return stamped;
  }
}

function keyOf(namespace: string | undefined, name: string): string {
  return `${namespace ?? ''}/${name}`;
}
