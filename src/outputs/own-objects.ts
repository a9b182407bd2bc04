// Our own objects of one resource, as the API server has them: what a reflector has seen, and what our own calls have
// told since. A watch is behind our writes, and without the latter every write would be repeated until its event comes.

import type { Clock } from '../kube/clock.ts';
import { ownSelector } from '../kube/cluster-label.ts';
import type { Answer, KubeApi } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { openReflector, type Reflector } from '../kube/reflector.ts';
import type { Resource } from '../kube/resources.ts';
import { servedResource } from '../kube/served-resource.ts';
import type { OutputResource } from './output.ts';
import { type KeptObject, keepObject } from './own-object.ts';

/** An answer of our own calls is believed for so long without an event that confirms it. */
const TRUSTED_MS = 30_000;

interface Told {
  /** Undefined: removed. */
  readonly object: KeptObject | undefined;
  /** What the reflector had then. */
  readonly seen: KeptObject | undefined;
  readonly until: number;
}

export class OwnObjects implements AsyncDisposable {
  readonly resource: OutputResource;
  readonly #api: KubeApi;
  readonly #clock: Clock;
  readonly #reflector: Reflector<KeptObject>;
  readonly #told = new Map<string, Told>();
  /** The newest version that the reflector has read, of any object. */
  #newest = 0;
  #served: Resource<KubeObject> | undefined;
  #isEmptied = false;
  /** The resource is not served. */
  absent = false;
  /** Objects may be compared and written. */
  isReady = false;

  constructor(
    api: KubeApi,
    resource: OutputResource,
    instance: string,
    options: {
      readonly clock: Clock;
      readonly random: () => number;
      readonly namespaces?: readonly string[];
    },
    changed: () => void,
  ) {
    this.resource = resource;
    this.#api = api;
    this.#clock = options.clock;
    const { versions } = resource;
    const labelSelector = ownSelector(instance);
    const keep = (object: KubeObject) => {
      const kept = keepObject(object, resource.refusalOf);
      this.#newest = Math.max(this.#newest, versionOf(kept));
      return kept;
    };
    this.#reflector = openReflector<KubeObject, KeptObject>(
      api,
      resource,
      { labelSelector, keep, ...(versions && { versions }), ...options },
      changed,
    );
  }

  /** Takes notice of the reflector's state; the properties below are of then. */
  refresh(): void {
    const { synced, absent, emptied } = this.#reflector;
    this.absent = absent;
    this.isReady = synced && !absent;
    this.#isEmptied = emptied;
  }

  /** What is there may be removed: not while the reflector keeps objects that a list lacked. */
  get isCertain(): boolean {
    return this.isReady && !this.#isEmptied;
  }

  get error(): string | undefined {
    return this.#reflector.error;
  }

  /** Keys of all that the reflector has, and of those that it does not have yet. */
  *keys(): Iterable<string> {
    const { objects } = this.#reflector;
    yield* objects.keys();
    for (const key of this.#told.keys()) if (!objects.has(key)) yield key;
  }

  get(key: string): KeptObject | undefined {
    // A list that was empty may be right. Whoever writes looks again.
    const seen = this.#isEmptied ? undefined : this.#reflector.objects.get(key);
    const told = this.#told.get(key);
    if (told === undefined) return seen;
    if (this.#isNews(told, seen)) return told.object;
    this.#told.delete(key);
    return seen;
  }

  /** What the API server has answered; undefined after a removal. */
  tell(key: string, object: KubeObject | undefined): void {
    const seen = this.#reflector.objects.get(key);
    const until = this.#clock.now() + TRUSTED_MS;
    this.#told.set(key, { object: object && keepObject(object, this.resource.refusalOf), seen, until });
    this.get(key);
  }

  /** When to look again: an answer that no event has confirmed is no longer believed then. */
  due(): number {
    let due = Number.POSITIVE_INFINITY;
    if (!this.#isReading) return due;
    for (const [key, { until }] of this.#told) {
      if (until <= this.#clock.now()) this.#told.delete(key);
      else due = Math.min(due, until);
    }
    return due;
  }

  /** The resource in the version to write. */
  async served(): Promise<Answer<Resource<KubeObject>>> {
    const { resource } = this;
    if (this.#served !== undefined) return { ok: true, value: this.#served };
    if (resource.versions === undefined) return { ok: true, value: resource };
    const answer = await servedResource(this.#api, resource, resource.versions);
    if (answer.ok) this.#served = answer.value;
    return answer;
  }

  /** The version was not found: it is looked for again. */
  notServed(): void {
    this.#served = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reflector[Symbol.asyncDispose]();
  }

  /** Otherwise the reflector cannot know better than an answer, however old. */
  get #isReading(): boolean {
    return this.#reflector.error === undefined && !this.#isEmptied;
  }

  #isNews({ object, seen: before, until }: Told, seen: KeptObject | undefined): boolean {
    if (this.#clock.now() >= until && this.#isReading) return false;
    if (object === undefined) {
      return seen !== undefined && seen.object.metadata.uid === before?.object.metadata.uid;
    }
    if (this.#isEmptied) return true;
    // Events come in order: an object that is missing although a later one was read has been deleted since.
    if (seen === undefined) return before === undefined && this.#newest < versionOf(object);
    return versionOf(seen) < versionOf(object);
  }
}

/** Versions of one resource are numbers that grow. */
function versionOf({ object }: KeptObject): number {
  return Number(object.metadata.resourceVersion);
}
