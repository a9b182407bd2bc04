// What a list-watch keeps of its objects: what `keep` makes of each, the same reference for as long as that is the same.
// Most new versions, such as those of our own status annotation, change nothing that is kept. 10,000 objects in full,
// managedFields and all, would take hundreds of megabytes.

import { isDeepStrictEqual } from 'node:util';
import type { KubeFault } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';

export interface Kept<K> {
  readonly key: string;
  /** Tells whether it has changed: uid and resourceVersion. */
  readonly version: string;
  readonly result: { readonly object: K } | { readonly error: string };
}

export class KeptObjects<T extends KubeObject, K> {
  readonly #objects: Map<string, K>;
  readonly #keep: (object: T) => K;
  readonly #changed: () => void;
  readonly #versions = new Map<string, string>();
  /** What `keep` threw. Such an object stays as it was, and does not hold up the others. */
  readonly #errors = new Map<string, string>();

  /** `objects` is shared with the list-watches of other namespaces. */
  constructor(objects: Map<string, K>, keep: (object: T) => K, changed: () => void) {
    this.#objects = objects;
    this.#keep = keep;
    this.#changed = changed;
  }

  get fault(): KubeFault | undefined {
    const [first] = this.#errors;
    if (first === undefined) return undefined;
    const [key, error] = first;
    return { status: 0, reason: 'Unexpected', message: `Cannot read '${key}': ${error}` };
  }

  /** Not stored yet. */
  kept(object: T): Kept<K> {
    const { uid, resourceVersion } = object.metadata;
    const [key, version] = [keyOf(object), `${uid} ${resourceVersion}`];
    if (this.#versions.get(key) === version) {
      return { key, version, result: { object: this.#objects.get(key) as K } };
    }
    try {
      return { key, version, result: { object: this.#keep(object) } };
    } catch (error) {
      return { key, version, result: { error: String(error) } };
    }
  }

  put({ key, version, result }: Kept<K>): void {
    if ('error' in result) {
      if (this.#errors.get(key) === result.error) return;
      this.#errors.set(key, result.error);
    } else {
      if (this.#versions.get(key) === version) return;
      const hadError = this.#errors.delete(key);
      const isKnown = this.#versions.has(key);
      this.#versions.set(key, version);
      if (isKnown && isDeepStrictEqual(this.#objects.get(key), result.object)) {
        if (hadError) this.#changed();
        return;
      }
      this.#objects.set(key, result.object);
    }
    this.#changed();
  }

  remove(key: string): void {
    const hadError = this.#errors.delete(key);
    if (this.#versions.delete(key)) this.#objects.delete(key);
    else if (!hadError) return;
    this.#changed();
  }

  /** The keys of those that a list lacks. */
  missing(listed: readonly Kept<K>[]): readonly string[] {
    const keys = new Set(listed.map(({ key }) => key));
    return [...new Set([...this.#versions.keys(), ...this.#errors.keys()])].filter(key => !keys.has(key));
  }
}

/** `<namespace>/<name>`, or the name of an object without a namespace. */
export function keyOf({ metadata: { namespace, name } }: KubeObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}
