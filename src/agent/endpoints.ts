// `--endpoints`: maintains EndpointSlice and Endpoints `default/kubernetes` of the tenant, so that its pods reach the
// API server through the agents. Each round renews our lease and reconciles (reconcile-endpoints.ts). It may start
// before the API server does: it waits and never gives up.

import type { Finding } from '../cluster/finding.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import type { Outcome } from '../kube/endpoint-objects.ts';
import { type KubeApi, type KubeFault, wordsOf } from '../kube/kube-api.ts';
import type { ServiceEndpoint } from '../kube/service-endpoint.ts';
import { advertisedEndpoint } from './agent-endpoint.ts';
import { AgentLease, RENEW_MS } from './agent-lease.ts';
import type { AgentLog } from './agent-log.ts';
import { EndpointsReconciler } from './reconcile-endpoints.ts';

/** With many agents each reconciles less often, so that all together reconcile about twice a second. */
const RECONCILE_MS_PER_AGENT = 500;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 10_000;
/** Attempts per round after conflicts: by then the lease may be due. */
const ATTEMPTS = 6;
const FIRST_CONFLICT_WAIT_MS = 50;
/** Deadline for leaving the endpoints. A pod has 30 s by default, and its connections drain after this. */
const LEAVE_MS = 5000;

export interface EndpointsOptions {
  readonly api: KubeApi;
  /** The cluster's id, for labels and findings: an agent does not know its name. */
  readonly cluster: string;
  /** Node and pod; unique among the agents of the cluster. */
  readonly identity: string;
  /** One address, or one per family. */
  readonly advertise: readonly string[];
  readonly port: number;
  /** The same for all agents of the cluster. */
  readonly leaseNamespace: string;
  readonly log: AgentLog;
  /** Called with all findings whenever they change. */
  readonly onFindings?: (findings: readonly Finding[]) => void;
  readonly clock?: Clock;
  /** Returns a number from 0 to 1. */
  readonly random?: () => number;
}

export interface KeptEndpoints extends AsyncDisposable {
  /** Resolves when the endpoints are as desired for the first time, belong to a foreign writer, or at the end. */
  readonly settled: Promise<void>;
}

/**
 * Throws AdvertiseError if an address cannot be an endpoint. Disposing releases the lease and removes the address,
 * within seconds; `api` and the uplink that it uses must work until then.
 */
export function keepEndpoints(options: EndpointsOptions): KeptEndpoints {
  const keeper = new EndpointsKeeper(options);
  keeper.start();
  return keeper;
}

class EndpointsKeeper implements KeptEndpoints {
  readonly #options: EndpointsOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #own: readonly ServiceEndpoint[];
  readonly #lease: AgentLease;
  readonly #reconciler: EndpointsReconciler;
  readonly #settled = Promise.withResolvers<void>();
  readonly #leaving = new AbortController();
  #loop: Promise<void> = Promise.resolve();
  #failing = false;
  #reconciledAt = Number.NEGATIVE_INFINITY;
  #reported: readonly Finding[] = [];

  constructor(options: EndpointsOptions) {
    const { api, cluster, identity, advertise, port, leaseNamespace, log } = options;
    const { clock = systemClock, random = Math.random } = options;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#own = advertise.map(address => advertisedEndpoint(address, port));
    const lease = { namespace: leaseNamespace, cluster, identity, endpoints: this.#own };
    this.#lease = new AgentLease(api, clock, lease);
    const ownLease = this.#lease.name;
    this.#reconciler = new EndpointsReconciler({ api, clock, cluster, leaseNamespace, ownLease, log });
  }

  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  start(): void {
    this.#loop = this.#run();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort();
    const done = new AbortController();
    // A renewal in progress must not come after the release of the lease.
    const left = this.#loop.then(() => this.#leave());
    await Promise.race([left, this.#clock.wait(LEAVE_MS, done.signal)]);
    done.abort();
    this.#settled.resolve();
  }

  async #run(): Promise<void> {
    const { log } = this.#options;
    for (let failures = 0; !this.#leaving.signal.aborted; ) {
      const outcome = await this.#round().catch(unexpected);
      if (typeof outcome === 'object') {
        this.#failed(outcome);
        await this.#wait(Math.min(FIRST_BACKOFF_MS * 2 ** failures++, MAX_BACKOFF_MS));
        continue;
      }
      if (this.#failing)
        log('info', 'The API server answers again: maintaining the endpoints of default/kubernetes');
      this.#failing = false;
      failures = 0;
      if (outcome === 'done') this.#settled.resolve();
      await this.#wait(outcome === 'done' ? RENEW_MS : FIRST_BACKOFF_MS);
    }
  }

  async #round(): Promise<Outcome> {
    const renewed = await this.#lease.renew();
    if (!renewed.ok) return renewed.fault;
    const period = Math.max(RENEW_MS / 2, this.#reconciler.agents * RECONCILE_MS_PER_AGENT);
    if (this.#clock.now() - this.#reconciledAt < period) return 'done';
    const outcome = await this.#reconcile(this.#own, this.#leaving.signal);
    this.#report(this.#reconciler.findings);
    if (outcome === 'done') this.#reconciledAt = this.#clock.now();
    return outcome;
  }

  /** Retries after conflicts. */
  async #reconcile(own: readonly ServiceEndpoint[], signal: AbortSignal): Promise<Outcome> {
    let outcome: Outcome = 'conflict';
    for (let attempt = 0; attempt < ATTEMPTS && outcome === 'conflict'; attempt++) {
      if (attempt > 0) {
        await this.#clock.wait(FIRST_CONFLICT_WAIT_MS * 2 ** attempt * this.#random(), signal);
      }
      outcome = await this.#reconciler.reconcile(own, signal);
    }
    return outcome;
  }

  /** Logs only the first of consecutive failures. */
  #failed(fault: KubeFault): void {
    this.#reconciler.forget();
    if (this.#failing || this.#leaving.signal.aborted) return;
    this.#failing = true;
    this.#options.log(
      'warn',
      `Cannot maintain the endpoints of default/kubernetes; retrying: ${wordsOf(fault)}`,
    );
  }

  /** Waits up to a fifth less, so that agents that started together spread out. */
  #wait(ms: number): Promise<void> {
    return this.#clock.wait(ms * (1 - this.#random() / 5), this.#leaving.signal);
  }

  #report(findings: readonly Finding[]): void {
    const before = new Set(this.#reported.map(({ text }) => text));
    if (before.size === findings.length && findings.every(({ text }) => before.has(text))) return;
    this.#reported = findings;
    this.#options.onFindings?.(findings);
  }

  /** Releases the lease first: while it exists, other agents would add the address again. */
  async #leave(): Promise<void> {
    const released = await this.#lease.release();
    if (released.ok || released.fault.status === 404) await this.#reconcile([], new AbortController().signal);
  }
}

/** A bug here must not end an agent that carries connections. */
function unexpected(error: unknown): KubeFault {
  return { status: 0, reason: 'Unexpected', message: String(error) };
}
