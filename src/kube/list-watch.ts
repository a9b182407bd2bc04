// List-watch of one resource in one namespace, or in all: lists, then watches from where the list ended, until it is
// told to end. reflector.ts joins several of these into one store.
//
// Nothing is forgotten because it could not be read: only a deletion that was reported, or a list that is believed,
// removes an object. Not believed are deletions that come with the deletion of a CustomResourceDefinition
// (resource-definition.ts), and a list that is empty where there were objects, until later lists confirm it.

import { backOffMs } from './back-off.ts';
import type { Clock } from './clock.ts';
import { type Kept, KeptObjects, keyOf } from './kept-objects.ts';
import type { Answer, KubeApi, KubeFault, Listed, Selection, WatchEnd, WatchEvent } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';
import { type Definition, resourceDefinition } from './resource-definition.ts';
import { isBuiltIn, type Resource } from './resources.ts';
import { notServed } from './served-resource.ts';

/** At most one watch begins in this time, however short they live. */
const WATCH_PACE_MS = 1000;
/** A watch that fails after so long does not count as another failure in a row. */
const LONG_LIFE_MS = 10_000;
/** How often to look for a resource that is not served: the step by which it grows, and the longest. */
const POLL_MS = 10_000;
const MAX_POLL_MS = 60_000;
/** An empty list where there were objects is believed once lists have lacked them for so long. */
const CONFIRM_MS = 300_000;
/** Between those lists. */
const CONFIRM_EVERY_MS = 60_000;
/** Answers to a watch that say nothing about its position, so that it can be resumed there. Others lead to a new list. */
const RESUMABLE: ReadonlySet<number> = new Set([401, 403, 429, 500, 502, 503]);

export interface ListWatchOptions<T extends KubeObject, K> {
  readonly api: KubeApi;
  readonly selection: Selection;
  /** Asked before each list. */
  readonly resource: () => Promise<Answer<Resource<T>>>;
  readonly keep: (object: T) => K;
  /** Shared with the list-watches of other namespaces. */
  readonly objects: Map<string, K>;
  readonly clock: Clock;
  readonly random: () => number;
  /** An object or the state has changed. */
  readonly changed: () => void;
}

export interface ListWatchState {
  /** It has been listed. */
  readonly synced: boolean;
  /** The resource is not served, or is being deleted. */
  readonly absent: boolean;
  /** Objects are kept although lists lack them, since a list was empty. */
  readonly emptied: boolean;
  /** Why it does not follow the server at the moment. */
  readonly fault: KubeFault | undefined;
}

/** What the next step waits for: nothing, the pace of watches, the back-off, or the next poll. */
type Outcome = 'go on' | 'lived' | 'failed' | 'absent';

export class ListWatch<T extends KubeObject, K> {
  readonly #options: ListWatchOptions<T, K>;
  readonly #objects: KeptObjects<T, K>;
  readonly #end = new AbortController();
  /** Deletions that were reported and await a look at the definition. By key: the version of the event. */
  readonly #unconfirmed = new Map<string, string>();
  #isConfirming = false;
  /** Why the definition could not be looked at. */
  #unconfirmedFault: KubeFault | undefined;
  #state: ListWatchState = { synced: false, absent: false, emptied: false, fault: undefined };
  /** As it was listed last, and the uid of its definition then. */
  #resource: Resource<T> | undefined;
  #definition: string | undefined;
  /** Where a watch goes on; undefined: list first. */
  #position: string | undefined;
  #watch: AbortController | undefined;
  #listedAt = 0;
  /** When a list was first empty, while objects are kept that lists lack. */
  #emptiedAt: number | undefined;

  constructor(options: ListWatchOptions<T, K>) {
    this.#options = options;
    this.#objects = new KeptObjects(options.objects, options.keep, options.changed);
  }

  get state(): ListWatchState {
    const { fault = this.#unconfirmedFault ?? this.#objects.fault } = this.#state;
    return { ...this.#state, fault };
  }

  /** Settles after `end()`. */
  async run(): Promise<void> {
    const { clock, random } = this.#options;
    const { signal } = this.#end;
    let [failures, polls] = [0, 0];
    while (!signal.aborted) {
      const began = clock.now();
      const outcome = await this.#step();
      if (outcome === 'lived') failures = 0;
      polls = outcome === 'absent' ? polls + 1 : 0;
      const ms = {
        'go on': 0,
        lived: began + WATCH_PACE_MS * (0.5 + random() / 2) - clock.now(),
        failed: backOffMs(failures + 1, random),
        absent: Math.min(polls * POLL_MS, MAX_POLL_MS),
      }[outcome];
      if (outcome === 'failed') failures++;
      if (ms > 0) await clock.wait(ms, signal);
    }
  }

  /** From now on nothing changes and nobody is called. */
  end(): void {
    this.#end.abort();
    this.#watch?.abort();
  }

  #step(): Promise<Outcome> {
    return this.#position === undefined ? this.#list() : this.#follow(this.#position);
  }

  async #list(): Promise<Outcome> {
    const { api, selection } = this.#options;
    const found = await this.#unlessEnded(this.#options.resource());
    if (found === undefined) return 'go on';
    if (!found.ok) return this.#failed(found.fault);
    const resource = found.value;
    const before = await this.#lookAtDefinition(resource, 'at once');
    if (before === undefined) return 'go on';
    if (before.is === 'unknown') return this.#failed(before.fault);

    const keep = (object: T) => this.#objects.kept(object);
    const listed = await this.#unlessEnded(
      api.list(resource, { ...selection, signal: this.#end.signal, keep }),
    );
    if (listed === undefined) return 'go on';
    if (!listed.ok)
      return this.#failed(listed.fault.status === 404 ? notServed(resource).fault : listed.fault);
    const missing = this.#objects.missing(listed.value.items);
    const after = missing.length === 0 ? before : await this.#lookAtDefinition(resource);
    if (after === undefined) return 'go on';
    if (after.is === 'unknown') return this.#failed(after.fault);
    if (before.is === 'gone' || after.is === 'gone') {
      this.#put(listed.value.items);
      return this.#failed(beingDeleted(resource));
    }
    // Replaced meanwhile: the list may be of either definition.
    if (before.uid !== after.uid) return 'failed';
    this.#resource = resource;
    this.#definition = after.uid;
    this.#take(listed.value, missing);
    return 'go on';
  }

  #take({ items, resourceVersion }: Listed<Kept<K>>, missing: readonly string[]): void {
    this.#unconfirmed.clear();
    this.#put(items);
    const now = this.#options.clock.now();
    this.#listedAt = now;
    if (items.length === 0) this.#emptiedAt ??= now;
    const isDoubted =
      missing.length > 0 && this.#emptiedAt !== undefined && now - this.#emptiedAt < CONFIRM_MS;
    if (!isDoubted) {
      this.#emptiedAt = undefined;
      for (const key of missing) this.#objects.remove(key);
    }
    this.#position = resourceVersion;
    this.#set({ synced: true, absent: false, emptied: isDoubted });
  }

  async #follow(position: string): Promise<Outcome> {
    const { api, clock, selection } = this.#options;
    const watch = new AbortController();
    this.#watch = watch;
    if (this.#emptiedAt !== undefined) {
      const left = this.#listedAt + CONFIRM_EVERY_MS - clock.now();
      const due = clock.wait(Math.max(left, 0), watch.signal);
      void due.then(() => (watch.signal.aborted ? undefined : this.#relist()));
    }
    const began = clock.now();
    let isOpen = false;
    const onOpen = () => {
      isOpen = true;
      this.#set({ fault: undefined });
    };
    const options = { ...selection, resourceVersion: position, signal: watch.signal, onOpen };
    const watching = api.watch(this.#resource as Resource<T>, options, event => this.#apply(event));
    const end = await this.#unlessEnded(watching);
    watch.abort();
    if (end === undefined || end.why === 'aborted') return 'go on';
    return this.#outcomeOf(end, isOpen, clock.now() - began);
  }

  #outcomeOf(end: Exclude<WatchEnd, { why: 'aborted' }>, isOpen: boolean, lasted: number): Outcome {
    if (end.why === 'closed' || end.why === 'silent') return isOpen ? 'lived' : 'failed';
    const { fault } = end;
    // A connection that was cut is worth no mention if the next one opens.
    if (isOpen && fault.status === 0) return 'lived';
    // Also after an outage, since a server may come back from a backup: it would accept a watch from a version in its
    // future, and send nothing until it has caught up.
    if (!RESUMABLE.has(fault.status)) this.#position = undefined;
    if (isOpen && lasted >= LONG_LIFE_MS) return 'lived';
    // The list will tell more.
    return end.why === 'expired' || fault.status === 404 ? 'failed' : this.#failed(fault);
  }

  #apply(event: WatchEvent<T>): void {
    if (event.type === 'BOOKMARK') {
      if (event.resourceVersion !== '') this.#position = event.resourceVersion;
      return;
    }
    const { type, object } = event;
    const { resourceVersion } = object.metadata;
    if (type !== 'DELETED') this.#put([this.#objects.kept(object)]);
    else if (isBuiltIn(this.#resource as Resource<T>)) this.#objects.remove(keyOf(object));
    else {
      this.#unconfirmed.set(keyOf(object), resourceVersion ?? '');
      if (!this.#isConfirming) void this.#confirm();
    }
    if (resourceVersion !== undefined) this.#position = resourceVersion;
  }

  #put(items: readonly Kept<K>[]): void {
    for (const item of items) {
      this.#unconfirmed.delete(item.key);
      this.#objects.put(item);
    }
  }

  /** One at a time: deletions that are reported meanwhile wait for the next look at the definition. */
  async #confirm(): Promise<void> {
    const { clock, random } = this.#options;
    this.#isConfirming = true;
    let failures = 0;
    while (this.#unconfirmed.size > 0) {
      const reported = [...this.#unconfirmed];
      const resource = this.#resource as Resource<T>;
      const definition = await this.#lookAtDefinition(resource);
      if (definition === undefined) return;
      if (definition.is === 'unknown') {
        this.#failedToConfirm(definition.fault);
        await clock.wait(backOffMs(++failures, random), this.#end.signal);
        continue;
      }
      failures = 0;
      if (definition.is === 'gone' || this.#isReplaced(definition.uid)) {
        this.#unconfirmed.clear();
        if (definition.is === 'gone') this.#failed(beingDeleted(resource));
        this.#relist();
      }
      for (const [key, version] of reported) {
        if (this.#unconfirmed.get(key) !== version) continue;
        this.#unconfirmed.delete(key);
        this.#objects.remove(key);
      }
    }
    this.#isConfirming = false;
    this.#failedToConfirm(undefined);
  }

  #failedToConfirm(fault: KubeFault | undefined): void {
    if (this.#unconfirmedFault?.message === fault?.message) return;
    this.#unconfirmedFault = fault;
    this.#options.changed();
  }

  /** A definition that was deleted and created again took its objects with it. */
  #isReplaced(uid: string | undefined): boolean {
    return uid !== undefined && this.#definition !== undefined && uid !== this.#definition;
  }

  #lookAtDefinition(resource: Resource<T>, when?: 'at once'): Promise<Definition | undefined> {
    const { api, clock } = this.#options;
    const wait = async (ms: number) => {
      if (when === undefined) await clock.wait(ms, this.#end.signal);
    };
    return this.#unlessEnded(resourceDefinition(api, resource, this.#definition, wait));
  }

  #relist(): void {
    this.#position = undefined;
    this.#watch?.abort();
  }

  #failed(fault: KubeFault): Outcome {
    const absent = fault.status === 404;
    this.#set(absent ? { absent, fault } : { fault });
    return absent ? 'absent' : 'failed';
  }

  #set(change: Partial<ListWatchState>): void {
    const [before, after] = [this.#state, { ...this.#state, ...change }];
    this.#state = after;
    const isSame =
      before.synced === after.synced &&
      before.absent === after.absent &&
      before.emptied === after.emptied &&
      before.fault?.reason === after.fault?.reason &&
      before.fault?.message === after.fault?.message;
    if (!isSame) this.#options.changed();
  }

  /** Undefined once this has ended. A call that takes no signal ends in its own time, and its answer does not count. */
  #unlessEnded<R>(promise: Promise<R>): Promise<R | undefined> {
    const { signal } = this.#end;
    const { promise: result, resolve } = Promise.withResolvers<R | undefined>();
    const abort = () => resolve(undefined);
    // No Promise.race() with the end: that would keep every answer until then.
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    void promise.then(resolve).finally(() => signal.removeEventListener('abort', abort));
    return result;
  }
}

function beingDeleted({ group, plural }: Resource<KubeObject>): KubeFault {
  const message = `The CustomResourceDefinition '${plural}.${group}' is being deleted`;
  return { status: 404, reason: 'NotFound', message };
}
