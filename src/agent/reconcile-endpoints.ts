// Reconciles the endpoints of Service `default/kubernetes`:
//
//   read the objects ──► read the leases ──► write what differs, at the version that was read
//
// This order keeps agents from losing each other's addresses: an agent creates its lease before it writes, so an agent
// that reads the objects later also reads that lease, and one that read them earlier fails on the resource version.
// An address without a living lease is removed, no matter who wrote it.

import type { Finding } from '../cluster/finding.ts';
import type { Clock } from '../kube/clock.ts';
import { desiredEndpoints } from '../kube/desired-endpoints.ts';
import { EndpointsWriter, type Outcome, readEndpoints } from '../kube/endpoint-objects.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { Lease } from '../kube/kube-object.ts';
import { leases, serviceCidrs, services } from '../kube/resources.ts';
import { familiesOf, isWithin, type ServiceEndpoint } from '../kube/service-endpoint.ts';
import { endpointsOf, LEASE_SELECTOR, LeaseWatch } from './agent-lease.ts';
import type { AgentLog } from './agent-log.ts';
import { findingsOf } from './endpoint-findings.ts';

export interface ReconcilerOptions {
  readonly api: KubeApi;
  readonly clock: Clock;
  readonly cluster: string;
  readonly leaseNamespace: string;
  /** The name of this agent's lease. */
  readonly ownLease: string;
  readonly log: AgentLog;
}

/** Keeps state between runs: leases that are not renewed, and writes that are reverted. */
export class EndpointsReconciler {
  readonly #options: ReconcilerOptions;
  readonly #api: KubeApi;
  readonly #others = new LeaseWatch();
  readonly #writer: EndpointsWriter;
  #serviceCidrs: readonly string[] | undefined;
  #findings: readonly Finding[] = [];
  #agents = 1;

  constructor(options: ReconcilerOptions) {
    const { api, clock, log } = options;
    this.#options = options;
    this.#api = api;
    this.#writer = new EndpointsWriter(api, clock, sentence => log('info', sentence));
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
    const existing = await readEndpoints(this.#api);
    if (!existing.ok) return existing.fault;
    // After the objects: see the top of this file.
    const { leaseNamespace, ownLease, clock, cluster } = this.#options;
    const all = await this.#api.list(leases, { namespace: leaseNamespace, labelSelector: LEASE_SELECTOR });
    if (!all.ok) return all.fault;
    this.#agents = all.value.items.length;
    const others = all.value.items.filter(({ metadata }) => metadata.name !== ownLease);
    const { living, expired } = this.#others.sort(others, clock.now());

    const families = familiesOf(service.value);
    const taken = [...(service.value.spec?.clusterIPs ?? []), ...(this.#serviceCidrs ?? [])];
    const isClusterIp = ({ address }: ServiceEndpoint) => taken.some(cidr => isWithin(address, cidr));
    const candidates = [...own, ...living.flatMap(endpointsOf)].filter(each => !isClusterIp(each));
    const desired = desiredEndpoints(cluster, families, candidates);

    this.#writer.compare(desired, existing.value);
    this.#findings = findingsOf({
      cluster,
      foreignWriter: this.#writer.foreignWriter,
      clusterIps: own.filter(isClusterIp),
      missingFamilies: own.some(({ family }) => families.includes(family)) ? [] : families,
      otherPorts: desired.otherPorts,
    });
    if (signal.aborted || this.#writer.isBackingOff) return 'done';
    const written = await this.#writer.write(desired, existing.value);
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

  /** At the version that was seen, so that a lease renewed meanwhile stays. Its agent would recreate it anyway. */
  async #removeLeases(expired: readonly Lease[]): Promise<void> {
    for (const lease of expired) await this.#api.remove(leases, lease);
  }
}
