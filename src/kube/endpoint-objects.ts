// Reads and writes the objects behind a tenant's Service `default/kubernetes`: EndpointSlices and Endpoints. They carry
// no label of ours that protects them, so every write is at the version that was read, and yields to another writer.

import type { Clock } from './clock.ts';
import { MANAGER } from './cluster-label.ts';
import {
  addressesOf,
  corrected,
  type DesiredEndpoints,
  isAsDesired,
  SLICE_MANAGER_LABEL,
  sliceNames,
} from './desired-endpoints.ts';
import { ForeignWriter } from './foreign-writer.ts';
import type { Answer, KubeApi, KubeFault } from './kube-api.ts';
import type { EndpointSlice, Endpoints } from './kube-object.ts';
import { endpointSlices, endpoints as endpointsResource, type Resource } from './resources.ts';

/** 'conflict': an object changed after it was read, so read and write again. */
export type Outcome = 'done' | 'conflict' | KubeFault;

export interface ExistingEndpoints {
  readonly slices: ReadonlyMap<string, EndpointSlice>;
  readonly endpoints: Endpoints | undefined;
}

type Kept = EndpointSlice | Endpoints;

export async function readEndpoints(api: KubeApi): Promise<Answer<ExistingEndpoints>> {
  const slices = new Map<string, EndpointSlice>();
  for (const name of sliceNames) {
    const slice = await api.get(endpointSlices, 'default', name);
    if (slice.ok) slices.set(name, slice.value);
    else if (slice.fault.status !== 404) return slice;
  }
  const endpoints = await api.get(endpointsResource, 'default', 'kubernetes');
  if (!endpoints.ok && endpoints.fault.status !== 404) return endpoints;
  return { ok: true, value: { slices, endpoints: endpoints.ok ? endpoints.value : undefined } };
}

/** Keeps state between writes: those that somebody reverts. */
export class EndpointsWriter {
  readonly #api: KubeApi;
  readonly #clock: Clock;
  readonly #log: (sentence: string) => void;
  readonly #foreign = new ForeignWriter();
  /** Objects that were written or removed. */
  writes = 0;

  /** `log` is told of every change. */
  constructor(api: KubeApi, clock: Clock, log: (sentence: string) => void) {
    this.#api = api;
    this.#clock = clock;
    this.#log = log;
  }

  /** The field manager that reverts our writes. */
  get foreignWriter(): string | undefined {
    return this.#foreign.manager(this.#clock.now());
  }

  /** Nothing may be written now, because of another writer. */
  get isBackingOff(): boolean {
    return this.#foreign.isBackingOff(this.#clock.now());
  }

  /** Notices another writer. Call it whenever the objects were read, before write(). */
  compare(desired: DesiredEndpoints, existing: ExistingEndpoints): void {
    const compareOne = (wanted: Kept, found: Kept | undefined) => {
      if (found === undefined || !isAsDesired(found, wanted))
        this.#foreign.differs(keyOf(wanted), found, this.#clock.now());
    };
    for (const slice of desired.slices) compareOne(slice, existing.slices.get(slice.metadata.name));
    compareOne(desired.endpoints, existing.endpoints);
  }

  async write(desired: DesiredEndpoints, existing: ExistingEndpoints): Promise<Outcome> {
    for (const slice of existing.slices.values()) {
      const wanted = desired.slices.find(({ metadata }) => metadata.name === slice.metadata.name);
      const outcome = await this.#removeObsolete(slice, wanted);
      if (outcome !== 'done') return outcome;
    }
    for (const slice of desired.slices) {
      const outcome = await this.#put(endpointSlices, existing.slices.get(slice.metadata.name), slice);
      if (outcome !== 'done') return outcome;
    }
    return this.#put(endpointsResource, existing.endpoints, desired.endpoints);
  }

  /** The family of a slice is immutable; our slice of a family that the Service no longer has is useless. */
  async #removeObsolete(slice: EndpointSlice, wanted: EndpointSlice | undefined): Promise<Outcome> {
    const isOurs = slice.metadata.labels?.[SLICE_MANAGER_LABEL] === MANAGER;
    if (wanted === undefined ? !isOurs : wanted.addressType === slice.addressType) return 'done';
    const removed = await this.#api.remove(endpointSlices, slice);
    if (!removed.ok) return outcomeOf(removed);
    this.writes++;
    this.#foreign.removed(keyOf(slice));
    this.#log(`Removed EndpointSlice default/${slice.metadata.name} (${slice.addressType})`);
    return wanted === undefined ? 'done' : 'conflict';
  }

  async #put<T extends Kept>(resource: Resource<T>, existing: T | undefined, desired: T): Promise<Outcome> {
    if (existing !== undefined && isAsDesired(existing, desired)) return 'done';
    const answer =
      existing === undefined
        ? await this.#api.create(resource, desired)
        : await this.#api.replace(resource, corrected(existing, desired));
    if (!answer.ok) return outcomeOf(answer);
    this.writes++;
    this.#foreign.wrote(keyOf(desired), this.#clock.now());
    this.#log(changeOf(existing, desired));
    return 'done';
  }
}

function outcomeOf(answer: Answer<unknown>): Outcome {
  if (answer.ok) return 'done';
  const { status } = answer.fault;
  return status === 409 || status === 404 ? 'conflict' : answer.fault;
}

function keyOf({ kind, metadata }: Kept): string {
  return `${kind}/${metadata.name}`;
}

function changeOf(existing: Kept | undefined, desired: Kept): string {
  const before = existing === undefined ? [] : addressesOf(existing);
  const after = addressesOf(desired);
  const added = after.filter(address => !before.includes(address));
  const removed = before.filter(address => !after.includes(address));
  const changes = [
    ...(added.length > 0 ? [`added ${added.join(', ')}`] : []),
    ...(removed.length > 0 ? [`removed ${removed.join(', ')}`] : []),
  ];
  const what = changes.length > 0 ? changes.join(', ') : 'addresses unchanged';
  return `Wrote ${desired.kind} default/${desired.metadata.name}: ${what}; ${after.length} in total`;
}
