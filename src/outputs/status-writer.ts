// Keeps the annotation `causeway.dev/status`, and the condition where there is room for it, on the objects of one API
// server. Reads an object once before it is first written, so that a new leader does not write ten thousand objects that
// are as they should be.

import { isDeepStrictEqual } from 'node:util';
import type { SourceObject } from '../cluster/cluster.ts';
import { backOffMs } from '../kube/back-off.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { type Answer, type KubeApi, type KubeFault, wordsOf } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { type Resource, resource } from '../kube/resources.ts';
import type { ObjectState } from './object-states.ts';
import { openPacedWork, type PacedWork } from './paced-work.ts';
import { type Condition, conditionOn, hasConditions, readyCondition } from './ready-condition.ts';

export const STATUS_ANNOTATION = 'causeway.dev/status';
/** Between two writes to one object: health may flap. */
const HOLD_OFF_MS = 10_000;
/** Calls at once, and the pause after them: at most 80 objects a second. */
const BATCH = 8;
const PAUSE_MS = 100;
/** How often to look whether we lead, and for what has come due. */
const IDLE_MS = 1000;

export interface StateWriterOptions {
  /** Asked right before each write. */
  readonly isLeader: () => boolean;
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
}

export interface StatusWriterOptions extends StateWriterOptions {
  /** False: the annotation is removed where it is. */
  readonly enabled: boolean;
}

/** Disposing ends it; what was written stays. */
export interface StateWriter extends AsyncDisposable {
  /** All states of this API server's objects; replaces those given before. An object that is missing loses its annotation. */
  update(states: readonly ObjectState[]): void;
  /** Why something cannot be written: a sentence. It is tried again. */
  readonly error: string | undefined;
}

interface Entry {
  readonly object: SourceObject;
  /** The last that was given. */
  state: ObjectState;
  /** null: there should be none. */
  wanted: string | null;
  /** On the object, as far as we know; undefined: not read yet. */
  known: string | null | undefined;
  /** On the object, as far as we know. */
  condition: Condition | undefined;
  notBefore: number;
  failures: number;
  error: string | undefined;
  isListed: boolean;
}

export function openStatusWriter(api: KubeApi, options: StatusWriterOptions): StateWriter {
  return new StatusWriter(api, options);
}

class StatusWriter implements StateWriter {
  readonly #api: KubeApi;
  readonly #options: StatusWriterOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #entries = new Map<string, Entry>();
  readonly #work: PacedWork;
  #wasLeader = false;
  #hasEnded = false;

  constructor(api: KubeApi, options: StatusWriterOptions) {
    const { clock = systemClock, random = Math.random } = options;
    this.#api = api;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#work = openPacedWork(clock, () => this.#step());
  }

  update(states: readonly ObjectState[]): void {
    for (const entry of this.#entries.values()) entry.isListed = false;
    for (const state of states) {
      const { object, status } = state;
      const known = this.#entries.get(object.uid);
      const wanted = this.#options.enabled ? (status ?? known?.wanted) : null;
      if (wanted === undefined) continue;
      const entry = known ?? newEntry(state, wanted);
      entry.state = status === undefined ? entry.state : state;
      entry.wanted = wanted;
      entry.isListed = true;
      this.#entries.set(object.uid, entry);
    }
    for (const [uid, entry] of this.#entries) {
      if (entry.isListed) continue;
      entry.wanted = null;
      if (entry.known === null) this.#entries.delete(uid);
    }
    this.#work.wake();
  }

  get error(): string | undefined {
    return this.#entries.values().find(({ error }) => error !== undefined)?.error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#hasEnded = true;
    await this.#work[Symbol.asyncDispose]();
  }

  async #step(): Promise<number> {
    if (!this.#options.isLeader()) {
      // Another replica may write meanwhile.
      if (this.#wasLeader) for (const entry of this.#entries.values()) entry.known = undefined;
      this.#wasLeader = false;
      return IDLE_MS;
    }
    this.#wasLeader = true;
    const now = this.#clock.now();
    const due = [...this.#entries.values()].filter(
      ({ known, wanted, notBefore }) => known !== wanted && notBefore <= now,
    );
    // The longest due first: objects that change all the time must not keep others waiting.
    const next = due.toSorted((a, b) => a.notBefore - b.notBefore).slice(0, BATCH);
    await Promise.all(next.map(entry => this.#settle(entry)));
    return next.length === 0 ? IDLE_MS : PAUSE_MS;
  }

  async #settle(entry: Entry): Promise<void> {
    const { object } = entry;
    const where = resourceOf(object);
    if (entry.known === undefined) {
      const found = await this.#api.get(where, object.namespace || undefined, object.name);
      if (!found.ok) return this.#failed(entry, found.fault);
      // It was deleted and created again: the new one has an entry of its own.
      if (found.value.metadata.uid !== object.uid) return void this.#entries.delete(object.uid);
      entry.known = found.value.metadata.annotations?.[STATUS_ANNOTATION] ?? null;
      entry.condition = conditionOn(found.value);
    }
    const { wanted } = entry;
    if (entry.known !== wanted) {
      if (this.#hasEnded || !this.#options.isLeader()) return;
      if (hasConditions(object)) {
        const written = await this.#writeCondition(entry, where);
        if (!written.ok) return this.#failed(entry, written.fault);
        if (this.#hasEnded || !this.#options.isLeader()) return;
      }
      // A patch with another uid is refused, so that it cannot meet a new object of that name.
      const patch = { metadata: { uid: object.uid, annotations: { [STATUS_ANNOTATION]: wanted } } };
      const written = await this.#api.merge(where, object.namespace || undefined, object.name, patch);
      if (!written.ok) return this.#failed(entry, written.fault);
      entry.known = wanted;
      entry.notBefore = this.#clock.now() + HOLD_OFF_MS;
    }
    entry.failures = 0;
    entry.error = undefined;
    if (!entry.isListed && entry.known === null) this.#entries.delete(object.uid);
  }

  async #writeCondition(entry: Entry, where: Resource<KubeObject>): Promise<Answer<unknown>> {
    const { object, state, wanted } = entry;
    const condition =
      wanted === null ? undefined : readyCondition(state, entry.condition, this.#clock.date());
    if (isDeepStrictEqual(condition, entry.condition)) return { ok: true, value: undefined };
    const options = { subresource: 'status', force: true } as const;
    const written = await this.#api.apply(where, withCondition(object, condition), options);
    if (written.ok) entry.condition = condition;
    return written;
  }

  #failed(entry: Entry, fault: KubeFault): void {
    const { object } = entry;
    if (fault.status === 404) return void this.#entries.delete(object.uid);
    // The write may have succeeded, or the object may be another one.
    entry.known = undefined;
    entry.notBefore = this.#clock.now() + backOffMs(++entry.failures, this.#random);
    // Mostly the object was deleted, or created again, between reading and writing.
    if (entry.failures === 1 && (fault.status === 409 || fault.status === 422)) return;
    const name = `${object.kind} ${object.namespace}/${object.name}`;
    entry.error = `Cannot write ${STATUS_ANNOTATION} on ${name}; retrying: ${wordsOf(fault)}`;
  }
}

function newEntry(state: ObjectState, wanted: string | null): Entry {
  return {
    object: state.object,
    state,
    wanted,
    known: undefined,
    condition: undefined,
    notBefore: 0,
    failures: 0,
    error: undefined,
    isListed: true,
  };
}

/** What we own of its status: with no condition, nothing. */
function withCondition(
  { apiVersion, kind, namespace, name, uid }: SourceObject,
  condition: Condition | undefined,
) {
  const metadata = { name, namespace, uid };
  return { apiVersion, kind, metadata, status: { conditions: condition === undefined ? [] : [condition] } };
}

/** The plurals of all our sources' kinds are regular. */
function resourceOf({ apiVersion, kind }: SourceObject): Resource<KubeObject> {
  return resource(apiVersion, `${kind.toLowerCase()}s`, kind);
}
