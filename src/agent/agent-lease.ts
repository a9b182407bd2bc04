// Agents find each other through Leases: each agent holds one that contains its address, and renews it while it runs.
// A lease that is not renewed expires. Times in the object are informational: an observer measures on its own clock
// when the lease last changed, because the clocks of nodes differ.

import { createHash } from 'node:crypto';
import type { Clock } from '../kube/clock.ts';
import { MANAGED_BY_LABEL, MANAGER, ownLabels } from '../kube/cluster-label.ts';
import { type Answer, type KubeApi } from '../kube/kube-api.ts';
import { microTime } from '../kube/kube-event.ts';
import type { Lease } from '../kube/kube-object.ts';
import { leases } from '../kube/resources.ts';
import type { ServiceEndpoint } from '../kube/service-endpoint.ts';
import { formatEndpoints, parseEndpoints } from './agent-endpoint.ts';

export const RENEW_MS = 10_000;
/** Allows three failed renewals. */
const EXPIRE_MS = 40_000;

const ENDPOINTS_ANNOTATION = 'causeway.dev/endpoints';
const COMPONENT_LABEL = 'app.kubernetes.io/component';
const COMPONENT = 'agent';
export const LEASE_SELECTOR = `${MANAGED_BY_LABEL}=${MANAGER},${COMPONENT_LABEL}=${COMPONENT}`;
const NAME_DIGITS = 16;
/** Attempts per renewal, when others create or delete the lease in between. */
const ATTEMPTS = 3;

export interface AgentLeaseOptions {
  readonly namespace: string;
  readonly cluster: string;
  /** Node and pod; unique among all agents. */
  readonly identity: string;
  readonly endpoints: readonly ServiceEndpoint[];
}

/** The lease of this agent. */
export class AgentLease {
  readonly name: string;
  readonly #api: KubeApi;
  readonly #clock: Clock;
  readonly #options: AgentLeaseOptions;
  #held: Lease | undefined;

  constructor(api: KubeApi, clock: Clock, options: AgentLeaseOptions) {
    const { identity, endpoints } = options;
    const hash = createHash('sha256')
      .update(`${identity}\n${formatEndpoints(endpoints)}`)
      .digest('hex');
    this.name = `causeway-agent-${hash.slice(0, NAME_DIGITS)}`;
    this.#api = api;
    this.#clock = clock;
    this.#options = options;
  }

  /** Creates the lease if it does not exist: at the start, and after another agent removed it as expired. */
  async renew(): Promise<Answer<Lease>> {
    let answer: Answer<Lease>;
    let attempts = 0;
    do {
      answer = await this.#write();
      this.#held = answer.ok ? answer.value : undefined;
    } while (
      !answer.ok &&
      (answer.fault.status === 409 || answer.fault.status === 404) &&
      ++attempts < ATTEMPTS
    );
    return answer;
  }

  async release(): Promise<Answer<undefined>> {
    const { namespace } = this.#options;
    const { apiVersion, kind } = this.#object();
    this.#held = undefined;
    return this.#api.remove(leases, { apiVersion, kind, metadata: { name: this.name, namespace } });
  }

  async #write(): Promise<Answer<Lease>> {
    const { namespace } = this.#options;
    let held = this.#held;
    if (held === undefined) {
      const found = await this.#api.get(leases, namespace, this.name);
      if (!found.ok && found.fault.status !== 404) return found;
      held = found.ok ? found.value : undefined;
    }
    const object = this.#object();
    if (held === undefined) return this.#api.create(leases, object);
    const acquireTime = this.#held?.spec?.acquireTime ?? object.spec?.acquireTime;
    const metadata = {
      ...held.metadata,
      labels: { ...held.metadata.labels, ...object.metadata.labels },
      annotations: { ...held.metadata.annotations, ...object.metadata.annotations },
    };
    return this.#api.replace(leases, {
      ...object,
      metadata,
      spec: { ...object.spec, ...(acquireTime && { acquireTime }) },
    });
  }

  #object(): Lease {
    const { namespace, cluster, identity, endpoints } = this.#options;
    const { labels, annotations } = ownLabels(cluster);
    const time = microTime(this.#clock.date());
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        name: this.name,
        namespace,
        labels: { ...labels, [COMPONENT_LABEL]: COMPONENT },
        annotations: { ...annotations, [ENDPOINTS_ANNOTATION]: formatEndpoints(endpoints) },
      },
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: EXPIRE_MS / 1000,
        acquireTime: time,
        renewTime: time,
      },
    };
  }
}

/** Tracks the leases of other agents. */
export class LeaseWatch {
  readonly #seen = new Map<string, { version: string; since: number }>();

  /** Expects all existing leases. */
  sort(all: readonly Lease[], now: number): { living: readonly Lease[]; expired: readonly Lease[] } {
    const names = new Set(all.map(lease => lease.metadata.name));
    for (const name of this.#seen.keys()) if (!names.has(name)) this.#seen.delete(name);
    for (const { metadata } of all) {
      const version = `${metadata.uid} ${metadata.resourceVersion}`;
      if (this.#seen.get(metadata.name)?.version !== version) {
        this.#seen.set(metadata.name, { version, since: now });
      }
    }
    const isExpired = ({ metadata }: Lease) =>
      now - (this.#seen.get(metadata.name)?.since ?? now) > EXPIRE_MS;
    return { living: all.filter(lease => !isExpired(lease)), expired: all.filter(isExpired) };
  }

  /** Call this after an outage, when missing renewals prove nothing. */
  forget(): void {
    this.#seen.clear();
  }
}

export function endpointsOf(lease: Lease): ServiceEndpoint[] {
  return parseEndpoints(lease.metadata.annotations?.[ENDPOINTS_ANNOTATION] ?? '');
}
