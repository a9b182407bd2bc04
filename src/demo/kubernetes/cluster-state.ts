// What one small cluster has, and everything that has happened to it lately: both of its API servers answer from this.
// Watches follow the rules that kubectl relies on: a resource version names a moment, and a watch from there misses
// nothing, or is told that it asks for too old a moment.

import type { KubeObject } from './kube-object.ts';

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** Plural name of its resource. */
  readonly resource: string;
  readonly object: KubeObject;
  readonly version: number;
}

/** Some minutes of what a demo does. */
const KEPT_EVENTS = 512;
/** Low numbers have meanings of their own: 0 is "whatever you have". */
const FIRST_VERSION = 1000;

export class ClusterState {
  readonly #objects = new Map<string, Map<string, KubeObject>>();
  readonly #watchers = new Set<(event: WatchEvent) => void>();
  #events: readonly WatchEvent[] = [];
  #version = FIRST_VERSION;

  /** Of the last change. */
  get version(): number {
    return this.#version;
  }

  /** In order of namespace and name, as an API server lists them. */
  list(resource: string): KubeObject[] {
    const objects = this.#objects.get(resource) ?? new Map<string, KubeObject>();
    return [...objects].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
  }

  get(resource: string, namespace: string | undefined, name: string): KubeObject | undefined {
    return this.#objects.get(resource)?.get(keyOf(namespace, name));
  }

  /** Adds it, or replaces the one of that name. */
  put(resource: string, object: KubeObject): void {
    const objects = this.#objects.get(resource) ?? new Map<string, KubeObject>();
    this.#objects.set(resource, objects);
    const key = keyOf(object.metadata.namespace, object.metadata.name);
    const type = objects.has(key) ? 'MODIFIED' : 'ADDED';
    objects.set(key, this.#happened(type, resource, object));
  }

  remove(resource: string, { metadata }: KubeObject): void {
    const key = keyOf(metadata.namespace, metadata.name);
    const object = this.#objects.get(resource)?.get(key);
    if (object === undefined) return;
    this.#objects.get(resource)?.delete(key);
    this.#happened('DELETED', resource, object);
  }

  /** What happened after that version; undefined when that is no longer known. */
  since(version: number): readonly WatchEvent[] | undefined {
    const oldest = this.#events[0]?.version ?? this.#version + 1;
    if (version + 1 < oldest) return undefined;
    return this.#events.filter(event => event.version > version);
  }

  /** Tells what happens from now on. Call the answer to stop it. */
  watch(reported: (event: WatchEvent) => void): () => void {
    this.#watchers.add(reported);
    return () => this.#watchers.delete(reported);
  }

  #happened(type: WatchEvent['type'], resource: string, object: KubeObject): KubeObject {
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
