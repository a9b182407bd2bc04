// Reconciles the endpoints of Service `default/kubernetes`:
//
//   read the objects ──► read the leases ──► write what differs, at the version that was read
//
// This order keeps agents from losing each other's addresses: an agent creates its lease before it writes, so an agent
// that reads the objects later also reads that lease, and one that read them earlier fails on the resource version.
// An address without a living lease is removed, no matter who wrote it.

import type { Finding } from '../cluster/finding.ts';
import type { Clock } from '../kube/clock.ts';
import { MANAGER } from '../kube/cluster-label.ts';
import {
  addressesOf,
  corrected,
  type DesiredEndpoints,
  desiredEndpoints,
  isAsDesired,
  SLICE_MANAGER_LABEL,
  sliceNames,
} from '../kube/desired-endpoints.ts';
import { ForeignWriter } from '../kube/foreign-writer.ts';
import { type Answer, type KubeApi, type KubeFault } from '../kube/kube-api.ts';
import type { EndpointSlice, Endpoints, Lease } from '../kube/kube-object.ts';
import {
  endpointSlices,
  endpoints as endpointsResource,
  leases,
  type Resource,
  serviceCidrs,
  services,
} from '../kube/resources.ts';
import { familiesOf, isWithin, type ServiceEndpoint } from '../kube/service-endpoint.ts';
import { endpointsOf, LEASE_SELECTOR, LeaseWatch } from './agent-lease.ts';
import type { AgentLog } from './agent-log.ts';
import { findingsOf } from './endpoint-findings.ts';

/** 'conflict': an object changed after it was read, so reconcile again. */
export type Outcome = 'done' | 'conflict' | KubeFault;

export interface ReconcilerOptions {
  readonly api: KubeApi;
  readonly clock: Clock;
  readonly cluster: string;
  readonly leaseNamespace: string;
  /** The name of this agent's lease. */
  readonly ownLease: string;
  readonly log: AgentLog;
}

type Kept = EndpointSlice | Endpoints;

interface Existing {
  readonly slices: ReadonlyMap<string, EndpointSlice>;
  readonly endpoints: Endpoints | undefined;
}

/** Keeps state between runs: leases that are not renewed, and writes that are reverted. */
export class EndpointsReconciler {
  readonly #options: ReconcilerOptions;
  readonly #api: KubeApi;
  readonly #others = new LeaseWatch();
  readonly #foreign = new ForeignWriter();
  #serviceCidrs: readonly string[] | undefined;
  #findings: readonly Finding[] = [];
  #agents = 1;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#api = options.api;
  }

  /** The findings of the last run that got far enough. */
  get findings(): readonly Finding[] {
    return this.#findings;
  }

  /** The number of agents with a lease. */
  get agents(): number {
    return this.#agents;
  }

  /** Call this after an outage, when missing renewals prove nothing. */
  forget(): void {
    this.#others.forget();
  }

  /** `own` are this agent's endpoints, empty when it ends. Writes nothing once the signal is aborted. */
  async reconcile(own: readonly ServiceEndpoint[], signal: AbortSignal): Promise<Outcome> {
    const service = await this.#api.get(services, 'default', 'kubernetes');
    if (!service.ok) return service.fault;
    await this.#learnServiceCidrs();
    const existing = await this.#read();
    if (!existing.ok) return existing.fault;
    // After the objects: see the top of this file.
    const { leaseNamespace, ownLease, clock, cluster } = this.#options;
    const all = await this.#api.list(leases, { namespace: leaseNamespace, labelSelector: LEASE_SELECTOR });
    if (!all.ok) return all.fault;
    this.#agents = all.value.items.length;
    const others = all.value.items.filter(({ metadata }) => metadata.name !== ownLease);
    const now = clock.now();
    const { living, expired } = this.#others.sort(others, now);

    const families = familiesOf(service.value);
    const taken = [...(service.value.spec?.clusterIPs ?? []), ...(this.#serviceCidrs ?? [])];
    const isClusterIp = ({ address }: ServiceEndpoint) => taken.some(cidr => isWithin(address, cidr));
    const candidates = [...own, ...living.flatMap(endpointsOf)].filter(each => !isClusterIp(each));
    const desired = desiredEndpoints(cluster, families, candidates);

    this.#detectForeignWriter(desired, existing.value, now);
    this.#findings = findingsOf({
      cluster,
      foreignWriter: this.#foreign.manager(now),
      clusterIps: own.filter(isClusterIp),
      missingFamilies: own.some(({ family }) => families.includes(family)) ? [] : families,
      otherPorts: desired.otherPorts,
    });
    if (signal.aborted || this.#foreign.isBackingOff(now)) return 'done';
    const written = await this.#write(desired, existing.value);
    if (written === 'done') await this.#removeLeases(expired);
    return written;
  }

  /** The Service network. The resource exists since Kubernetes 1.33; without it only this Service's own IPs are known. */
  async #learnServiceCidrs(): Promise<void> {
    if (this.#serviceCidrs !== undefined) return;
    const answer = await this.#api.list(serviceCidrs, {});
    if (answer.ok) this.#serviceCidrs = answer.value.items.flatMap(({ spec }) => spec?.cidrs ?? []);
    else if (answer.fault.status === 403 || answer.fault.status === 404) this.#serviceCidrs = [];
  }

  async #read(): Promise<Answer<Existing>> {
    const slices = new Map<string, EndpointSlice>();
    for (const name of sliceNames) {
      const slice = await this.#api.get(endpointSlices, 'default', name);
      if (slice.ok) slices.set(name, slice.value);
      else if (slice.fault.status !== 404) return slice;
    }
    const endpoints = await this.#api.get(endpointsResource, 'default', 'kubernetes');
    if (!endpoints.ok && endpoints.fault.status !== 404) return endpoints;
    return { ok: true, value: { slices, endpoints: endpoints.ok ? endpoints.value : undefined } };
  }

  #detectForeignWriter(desired: DesiredEndpoints, existing: Existing, now: number): void {
    const compare = (wanted: Kept, found: Kept | undefined) => {
      if (found === undefined || !isAsDesired(found, wanted))
        this.#foreign.differs(keyOf(wanted), found, now);
    };
    for (const slice of desired.slices) compare(slice, existing.slices.get(slice.metadata.name));
    compare(desired.endpoints, existing.endpoints);
  }

  async #write(desired: DesiredEndpoints, existing: Existing): Promise<Outcome> {
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
    this.#foreign.removed(keyOf(slice));
    this.#options.log('info', `Removed EndpointSlice default/${slice.metadata.name} (${slice.addressType})`);
    return wanted === undefined ? 'done' : 'conflict';
  }

  async #put<T extends Kept>(resource: Resource<T>, existing: T | undefined, desired: T): Promise<Outcome> {
    if (existing !== undefined && isAsDesired(existing, desired)) return 'done';
    const answer =
      existing === undefined
        ? await this.#api.create(resource, desired)
        : await this.#api.replace(resource, corrected(existing, desired));
    if (!answer.ok) return outcomeOf(answer);
    this.#foreign.wrote(keyOf(desired), this.#options.clock.now());
    this.#options.log('info', changeOf(existing, desired));
    return 'done';
  }

  /** At the version that was seen, so that a lease renewed meanwhile stays. Its agent would recreate it anyway. */
  async #removeLeases(expired: readonly Lease[]): Promise<void> {
    for (const lease of expired) await this.#api.remove(leases, lease);
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
