// The output `tenantEndpoints`: writes the endpoints of each tenant's Service `default/kubernetes` from outside, instead
// of its agents. They lead to the agents that run, or to one address. Nothing is removed when it ends: pods would lose
// their API server.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { addressesOf, desiredEndpoints } from '../kube/desired-endpoints.ts';
import { EndpointsWriter, readEndpoints } from '../kube/endpoint-objects.ts';
import { type Answer, type KubeApi, wordsOf } from '../kube/kube-api.ts';
import { services } from '../kube/resources.ts';
import { familiesOf, type ServiceEndpoint } from '../kube/service-endpoint.ts';
import type { Problem } from '../kube/tenant-credentials.ts';
import { AGENTS_SELECTOR, endpointsOfAddress, endpointsOfPods, isMoving, pods } from './agent-endpoints.ts';
import { openPacedWork } from './paced-work.ts';

/**
 * How often the agents' Pods are listed. Changes come together, as in a roll-out, so after one the pause is short, and
 * doubles while nothing else changes.
 */
const POLL_MS = 30_000;
const FIRST_POLL_MS = 2000;
/** While one starts or ends, at least so often: a roll-out goes on 10 s after a new one is ready. */
const MOVING_POLL_MS = 5000;
/** How often the objects are read although nothing has changed; after a write sooner, to notice another writer. */
const CHECK_MS = 600_000;
const CHECK_AFTER_WRITE_MS = 30_000;
const MAX_AT_ONCE = 64;
const TICK_MS = 250;
/** Writes that meet a change by somebody else are repeated at once, so often. */
const ATTEMPTS = 3;

export interface TenantEndpointsOptions {
  /** `agents`, or an IP address. */
  readonly address: string;
  /** By the cluster's name, as TenantAccess has it. */
  readonly apiOf: (cluster: string) => KubeApi | undefined;
  /** Asked right before each write. */
  readonly isLeader: () => boolean;
  readonly log: (cluster: string, sentence: string) => void;
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
}

/** Disposing waits for calls under way. */
export interface TenantEndpoints extends AsyncDisposable {
  /** All clusters that there are. Paused ones are left alone. */
  update(clusters: readonly Cluster[]): void;
  /** The agents are about to change: looks at them now, and soon again. */
  expectChanges(): void;
  readonly findings: readonly Finding[];
  /** Clusters whose endpoints were as desired at some time: those that it writes. */
  readonly written: readonly Cluster[];
}

interface Entry {
  cluster: Cluster;
  readonly api: KubeApi;
  readonly writer: EndpointsWriter;
  dueAt: number;
  /** Until the next look at the agents. */
  pauseMs: number;
  /** What the last look found, and undefined before. */
  seen: string | undefined;
  checkAt: number;
  /** What the endpoints were made of when they were last as desired. */
  settled: string | undefined;
  hasSettled: boolean;
  problems: readonly (Problem & Pick<Finding, 'severity'>)[];
  running: Promise<void> | undefined;
}

/** `changed()`: findings have changed. */
export function openTenantEndpoints(options: TenantEndpointsOptions, changed: () => void): TenantEndpoints {
  return new EndpointsOfTenants(options, changed);
}

/** Of an Entry: the agents may be changing. */
const LOOK_NOW = { dueAt: 0, pauseMs: FIRST_POLL_MS, seen: undefined } as const;

class EndpointsOfTenants implements TenantEndpoints {
  readonly #options: TenantEndpointsOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #changed: () => void;
  readonly #entries = new Map<string, Entry>();
  readonly #running = new Set<Promise<void>>();
  readonly #work;
  #hasEnded = false;

  constructor(options: TenantEndpointsOptions, changed: () => void) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    this.#changed = changed;
    this.#work = openPacedWork(this.#clock, async () => this.#startDue());
  }

  update(clusters: readonly Cluster[]): void {
    const { apiOf, log } = this.#options;
    const names = new Set(clusters.map(({ name }) => name));
    for (const name of this.#entries.keys()) if (!names.has(name)) this.#entries.delete(name);
    for (const cluster of clusters) {
      const { name } = cluster;
      const api = apiOf(name);
      const known = this.#entries.get(name);
      if (api === undefined || cluster.controlPlane?.isPaused === true) this.#entries.delete(name);
      else if (known?.api === api) known.cluster = cluster;
      else {
        const writer = new EndpointsWriter(api, this.#clock, sentence => log(name, sentence));
        const idle = { checkAt: 0, problems: [], running: undefined };
        const unknown = { settled: undefined, hasSettled: false };
        this.#entries.set(name, { cluster, api, writer, ...idle, ...unknown, ...LOOK_NOW });
      }
    }
    this.#work.wake();
  }

  expectChanges(): void {
    for (const entry of this.#entries.values()) Object.assign(entry, LOOK_NOW);
    this.#work.wake();
  }

  get findings(): readonly Finding[] {
    return this.#entries
      .values()
      .flatMap(({ cluster: { name, origin }, problems }) =>
        problems.map(problem => ({ cluster: name, origin, ...problem })),
      )
      .toArray();
  }

  get written(): readonly Cluster[] {
    return this.#entries
      .values()
      .filter(({ hasSettled }) => hasSettled)
      .map(({ cluster }) => cluster)
      .toArray();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#hasEnded = true;
    await this.#work[Symbol.asyncDispose]();
    await Promise.all(this.#running);
  }

  #startDue(): number {
    const now = this.#clock.now();
    if (!this.#options.isLeader()) {
      // Another replica may write meanwhile.
      for (const entry of this.#entries.values()) entry.settled = undefined;
      return TICK_MS;
    }
    const due = [...this.#entries.values()].filter(
      ({ dueAt, running }) => dueAt <= now && running === undefined,
    );
    // The longest due first: tenants that change all the time must not keep the others waiting.
    for (const entry of due.toSorted((a, b) => a.dueAt - b.dueAt)) {
      if (this.#running.size >= MAX_AT_ONCE) break;
      const running = this.#safeRound(entry).finally(() => {
        entry.dueAt = this.#clock.now() + entry.pauseMs * (0.8 + this.#random() / 5);
        entry.pauseMs = Math.min(2 * entry.pauseMs, POLL_MS);
        entry.running = undefined;
        this.#running.delete(running);
      });
      entry.running = running;
      this.#running.add(running);
    }
    return TICK_MS;
  }

  /** A tenant's API server may answer anything. */
  async #safeRound(entry: Entry): Promise<void> {
    try {
      await this.#round(entry);
    } catch (error) {
      entry.settled = undefined;
      this.#report(entry, [refused(`an answer of its API server is not understood: ${String(error)}`)]);
    }
  }

  async #round(entry: Entry): Promise<void> {
    const wanted = await this.#wanted(entry);
    // What cannot be reached is TenantAccess' finding.
    if (!wanted.ok) return;
    const text = JSON.stringify(wanted.value);
    if (text !== entry.seen) entry.pauseMs = FIRST_POLL_MS;
    entry.seen = text;
    if (wanted.value.length === 0) return this.#keep(entry);
    if (text === entry.settled && this.#clock.now() < entry.checkAt) return;
    let outcome: string = 'conflict';
    for (let attempt = 0; attempt < ATTEMPTS && outcome === 'conflict'; attempt++)
      outcome = await this.#reconcile(entry, wanted.value);
    const hasSettled = outcome === 'settled' || outcome === 'written';
    entry.settled = hasSettled ? text : undefined;
    entry.hasSettled ||= hasSettled;
    const isQuiet = outcome === 'settled' && entry.writer.foreignWriter === undefined;
    entry.checkAt = this.#clock.now() + (isQuiet ? CHECK_MS : CHECK_AFTER_WRITE_MS);
  }

  async #wanted(entry: Entry): Promise<Answer<readonly ServiceEndpoint[]>> {
    const { address } = this.#options;
    if (address !== 'agents') return { ok: true, value: endpointsOfAddress(address) };
    const listed = await entry.api.list(pods, { namespace: 'kube-system', labelSelector: AGENTS_SELECTOR });
    if (!listed.ok) return listed;
    if (listed.value.items.some(isMoving)) entry.pauseMs = Math.min(entry.pauseMs, MOVING_POLL_MS);
    return { ok: true, value: endpointsOfPods(listed.value.items) };
  }

  /** Read, compare, write at the version that was read. */
  async #reconcile(
    entry: Entry,
    wanted: readonly ServiceEndpoint[],
  ): Promise<'settled' | 'written' | 'conflict' | 'failed'> {
    const { api, writer, cluster } = entry;
    const service = await api.get(services, 'default', 'kubernetes');
    if (!service.ok) return 'failed';
    const existing = await readEndpoints(api);
    if (!existing.ok) return 'failed';
    const desired = desiredEndpoints(cluster.id ?? cluster.name, familiesOf(service.value), wanted);
    if (desired.slices.every(slice => addressesOf(slice).length === 0)) {
      this.#keep(entry);
      return 'failed';
    }
    writer.compare(desired, existing.value);
    const { foreignWriter } = writer;
    this.#report(entry, foreignWriter === undefined ? [] : [reverted(foreignWriter)]);
    if (writer.isBackingOff || this.#hasEnded || !this.#options.isLeader()) return 'failed';
    const before = writer.writes;
    const outcome = await writer.write(desired, existing.value);
    if (outcome === 'conflict') return 'conflict';
    if (outcome !== 'done') {
      this.#report(entry, [refused(wordsOf(outcome))]);
      return 'failed';
    }
    return writer.writes === before ? 'settled' : 'written';
  }

  /** There is nothing to lead to: what is there may be better than nothing. */
  #keep(entry: Entry): void {
    entry.settled = undefined;
    this.#report(entry, [this.#nothing()]);
  }

  #nothing(): Entry['problems'][number] {
    const { address } = this.#options;
    if (address !== 'agents') {
      const text = `${address} cannot be an endpoint of default/kubernetes: it is a loopback, link-local or unspecified address, or of a family that the Service does not have`;
      const fix = 'Set address of tenantEndpoints to one that the pods of the tenants reach, or to agents';
      return { severity: 'error', code: 'OutputRejected', text, fix };
    }
    const text =
      'No agent with an address of the right family runs in the tenant: the endpoints of default/kubernetes stay as they are';
    return {
      severity: 'warning',
      code: 'NoEndpoints',
      text,
      fix: 'Look at the Pods of causeway-agent in its kube-system',
    };
  }

  #report(entry: Entry, problems: Entry['problems']): void {
    const isSame = problems.map(({ text }) => text).join() === entry.problems.map(({ text }) => text).join();
    entry.problems = problems;
    if (!isSame && !this.#hasEnded) this.#changed();
  }
}

function reverted(manager: string): Entry['problems'][number] {
  return {
    severity: 'error',
    code: 'ForeignWriter',
    text: `'${manager}' reverts the endpoints of Service default/kubernetes in the tenant, so they are left alone for 10 minutes`,
    fix: 'Run its API server with --endpoint-reconciler-type=none, or remove tenantEndpoints from the file',
  };
}

function refused(words: string): Entry['problems'][number] {
  const text = `The endpoints of default/kubernetes in the tenant cannot be written: ${words}`;
  return { severity: 'error', code: 'OutputRejected', text, fix: 'Look at the API server of the tenant' };
}
