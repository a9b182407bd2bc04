// `--endpoints`: keeps EndpointSlice and Endpoints `default/kubernetes` of the tenant right, so that its pods reach
// the API server through the agents. A round renews our lease and has reconcile-endpoints.ts look at the whole. It
// starts before the API server, waits, and never gives up.

import type { Finding } from '../cluster/finding.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { type KubeApi, type KubeFault, wordsOf } from '../kube/kube-api.ts';
import type { ServiceEndpoint } from '../kube/service-endpoint.ts';
import { advertisedEndpoint } from './agent-endpoint.ts';
import { AgentLease, RENEW_MS } from './agent-lease.ts';
import type { AgentLog } from './agent-log.ts';
import { EndpointsReconciler, type Outcome } from './reconcile-endpoints.ts';

/** With many agents each looks at the whole more rarely, so that all of them together look about twice a second. */
const LOOK_MS_PER_AGENT = 500;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 10_000;
/** Conflicts in one round: after that the lease may be due. */
const ATTEMPTS = 6;
const FIRST_CONFLICT_WAIT_MS = 50;
/** For all that is done at the end. A pod has 30 s by default, and its connections drain after this. */
const LEAVE_MS = 5000;

export interface EndpointsOptions {
  readonly api: KubeApi;
  /** Its id, which is what an agent knows of it: for labels and findings. */
  readonly cluster: string;
  /** Of this agent among all of the cluster: node and pod. */
  readonly identity: string;
  /** One address, or one of each family. */
  readonly advertise: readonly string[];
  readonly port: number;
  /** The same for all agents of the cluster. */
  readonly leaseNamespace: string;
  readonly log: AgentLog;
  /** Told all of them whenever they change. */
  readonly onFindings?: (findings: readonly Finding[]) => void;
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
}

export interface KeptEndpoints extends AsyncDisposable {
  /** Resolves when everything was right for the first time, or somebody else's, or at the end. */
  readonly settled: Promise<void>;
}

/**
 * Throws AdvertiseError where an address cannot be an endpoint. Disposing gives the lease back and takes the address
 * out, within seconds; `api` must live until then, and so must the uplink that it goes through.
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
  #lookedAt = Number.NEGATIVE_INFINITY;
  #told: readonly Finding[] = [];

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
    // A renewal under way must not come after the lease is given back.
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
        log('info', 'The API server answers again: the endpoints of default/kubernetes are kept');
      this.#failing = false;
      failures = 0;
      if (outcome === 'done') this.#settled.resolve();
      await this.#wait(outcome === 'done' ? RENEW_MS : FIRST_BACKOFF_MS);
    }
  }

  async #round(): Promise<Outcome> {
    const renewed = await this.#lease.renew();
    if (!renewed.ok) return renewed.fault;
    const period = Math.max(RENEW_MS / 2, this.#reconciler.agents * LOOK_MS_PER_AGENT);
    if (this.#clock.now() - this.#lookedAt < period) return 'done';
    const outcome = await this.#look(this.#own, this.#leaving.signal);
    this.#tell(this.#reconciler.findings);
    if (outcome === 'done') this.#lookedAt = this.#clock.now();
    return outcome;
  }

  /** Until what was read could be written. */
  async #look(own: readonly ServiceEndpoint[], signal: AbortSignal): Promise<Outcome> {
    let outcome: Outcome = 'conflict';
    for (let attempt = 0; attempt < ATTEMPTS && outcome === 'conflict'; attempt++) {
      if (attempt > 0) {
        await this.#clock.wait(FIRST_CONFLICT_WAIT_MS * 2 ** attempt * this.#random(), signal);
      }
      outcome = await this.#reconciler.reconcile(own, signal);
    }
    return outcome;
  }

  /** Once when it begins. */
  #failed(fault: KubeFault): void {
    this.#reconciler.forget();
    if (this.#failing || this.#leaving.signal.aborted) return;
    this.#failing = true;
    this.#options.log(
      'warn',
      `The endpoints of default/kubernetes cannot be kept now, and are tried again until they can: ${wordsOf(fault)}`,
    );
  }

  /** Up to a fifth less, so that agents that started together do not stay together. */
  #wait(ms: number): Promise<void> {
    return this.#clock.wait(ms * (1 - this.#random() / 5), this.#leaving.signal);
  }

  #tell(findings: readonly Finding[]): void {
    const before = new Set(this.#told.map(({ text }) => text));
    if (before.size === findings.length && findings.every(({ text }) => before.has(text))) return;
    this.#told = findings;
    this.#options.onFindings?.(findings);
  }

  /** The lease first: while it is there, others would put the address back. */
  async #leave(): Promise<void> {
    const released = await this.#lease.release();
    if (released.ok || released.fault.status === 404) await this.#look([], new AbortController().signal);
  }
}

/** A mistake of ours here must not end an agent that carries connections. */
function unexpected(error: unknown): KubeFault {
  return { status: 0, reason: 'Unexpected', message: String(error) };
}
