// Looks at the certificates that the API servers of Kamaji, Steward and HyperShift tenants present: when a cluster
// appears or changes, and then rarely. A few at a time, so that thousands of clusters cost the control thread next to
// nothing.

import type { Backend, Cluster } from '../cluster/cluster.ts';
import { areSameFindings, type Finding } from '../cluster/finding.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { openPacedWork } from '../outputs/paced-work.ts';
import { certificateFindings, namesToVerify, type ServedCertificate } from './certificate-findings.ts';
import { type LookAtCertificate, lookAtCertificate } from './look-at-certificate.ts';

const EVERY_MS = 3_600_000;
/** While something is wrong with it: people want to see that they have mended it. */
const EVERY_WRONG_MS = 300_000;
/** After a failure: the first, and the longest. */
const RETRY_MS = 30_000;
const MAX_RETRY_MS = 1_800_000;
/** Between two looks at the same cluster, however often it changes. */
const MIN_GAP_MS = 10_000;
/** After so many failures in a row nothing is known any more. */
const FORGET_AFTER = 3;
/** For all names of a cluster: a slow server must not keep others waiting. */
const DEADLINE_MS = 5000;
/** With the pause: at most 32 begin in a second. */
const MAX_AT_ONCE = 8;
const PAUSE_MS = 250;
/** While many are looked at, findings are reported together. */
const REPORT_MS = 2000;

export interface CertificateWatchOptions {
  /** Health of a backend of route `api`; null until its first check. */
  readonly isUp: (cluster: string, kind: string, backend: string) => boolean | null;
  /** Findings have changed. Never called from within update(). */
  readonly changed: () => void;
  /** Our own code threw. */
  readonly onFault: (error: unknown) => void;
  readonly look?: LookAtCertificate;
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
}

interface Entry {
  cluster: Cluster;
  /** What a look depends on. */
  key: string;
  dueAt: number;
  lookedAt: number;
  isRunning: boolean;
  failures: number;
  /** Undefined: nothing is known. */
  served: ServedCertificate | undefined;
  findings: readonly Finding[];
}

/** Disposing ends looks under way. */
export class CertificateWatch implements AsyncDisposable {
  readonly #options: CertificateWatchOptions;
  readonly #look: LookAtCertificate;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #entries = new Map<string, Entry>();
  readonly #running = new Set<Promise<void>>();
  readonly #end = new AbortController();
  readonly #work;
  /** Since when findings have changed that were not reported. */
  #unreportedSince: number | undefined;

  constructor(options: CertificateWatchOptions) {
    const { look = lookAtCertificate, clock = systemClock, random = Math.random } = options;
    this.#options = options;
    this.#look = look;
    this.#clock = clock;
    this.#random = random;
    this.#work = openPacedWork(clock, async () => this.#step());
  }

  get findings(): readonly Finding[] {
    return this.#entries
      .values()
      .flatMap(({ findings }) => findings)
      .toArray();
  }

  /** When the certificates expire that were seen, in ms since 1970. */
  *ends(): Generator<{ readonly cluster: string; readonly notAfter: number }> {
    for (const [cluster, { served }] of this.#entries) {
      if (served !== undefined && !Number.isNaN(served.notAfter))
        yield { cluster, notAfter: served.notAfter };
    }
  }

  /** All clusters that are served. */
  update(clusters: readonly Cluster[]): void {
    const tenants = clusters.filter(({ controlPlane }) => controlPlane?.servingCertificate !== undefined);
    const names = new Set(tenants.map(({ name }) => name));
    for (const [name, entry] of this.#entries) {
      if (names.has(name)) continue;
      this.#entries.delete(name);
      if (entry.findings.length > 0) this.#hasChanged();
    }
    for (const cluster of tenants) this.#take(cluster);
    this.#work.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#work[Symbol.asyncDispose]();
    await Promise.all(this.#running);
  }

  #take(cluster: Cluster): void {
    const entry = this.#entries.get(cluster.name);
    // An unchanged cluster is the same object.
    if (entry?.cluster === cluster) return;
    const key = keyOf(cluster);
    if (entry === undefined || uidOf(entry.cluster) !== uidOf(cluster)) {
      const unseen = { lookedAt: -MIN_GAP_MS, isRunning: false, failures: 0, served: undefined };
      const dueAt = this.#clock.now();
      this.#entries.set(cluster.name, { cluster, key, dueAt, ...unseen, findings: [] });
      if (entry !== undefined && entry.findings.length > 0) this.#hasChanged();
      return;
    }
    entry.cluster = cluster;
    if (entry.key !== key) {
      entry.key = key;
      entry.failures = 0;
      entry.dueAt = Math.max(this.#clock.now(), entry.lookedAt + MIN_GAP_MS);
    }
    this.#conclude(entry, entry.served);
  }

  #step(): number {
    const now = this.#clock.now();
    const due = this.#entries
      .values()
      .filter(({ dueAt, isRunning }) => dueAt <= now && !isRunning)
      .toArray()
      .toSorted((a, b) => a.dueAt - b.dueAt);
    for (const entry of due.slice(0, MAX_AT_ONCE - this.#running.size)) this.#start(entry);
    const isBusy = due.length > 0 || this.#running.size > 0;
    const since = this.#unreportedSince;
    if (since !== undefined && (!isBusy || now - since >= REPORT_MS)) {
      this.#unreportedSince = undefined;
      this.#options.changed();
    }
    return isBusy || this.#unreportedSince !== undefined ? PAUSE_MS : this.#nextAt() - now;
  }

  /** When the next look is due. Most gateways have no tenants: they are not woken for nothing. */
  #nextAt(): number {
    let next = this.#clock.now() + EVERY_MS;
    for (const { dueAt } of this.#entries.values()) next = Math.min(next, dueAt);
    return next;
  }

  #start(entry: Entry): void {
    entry.isRunning = true;
    entry.lookedAt = this.#clock.now();
    const running = this.#round(entry).finally(() => {
      this.#running.delete(running);
      entry.isRunning = false;
    });
    this.#running.add(running);
  }

  async #round(entry: Entry): Promise<void> {
    const { cluster, key } = entry;
    let served: ServedCertificate | undefined;
    try {
      served = await this.#served(cluster, entry.failures);
    } catch (error) {
      this.#options.onFault(error);
    }
    // If it was removed or replaced meanwhile, that is no news; with another key it has been scheduled again.
    if (this.#entries.get(cluster.name) === entry && entry.key === key) this.#schedule(entry, served);
  }

  #schedule(entry: Entry, served: ServedCertificate | undefined): void {
    entry.failures = served === undefined ? entry.failures + 1 : 0;
    if (served !== undefined) this.#conclude(entry, served);
    else if (entry.failures >= FORGET_AFTER) this.#conclude(entry, undefined);
    const every = entry.findings.length > 0 ? EVERY_WRONG_MS : EVERY_MS;
    const retry = Math.min(RETRY_MS * 2 ** (entry.failures - 1), MAX_RETRY_MS);
    const ms = served === undefined ? retry : every;
    entry.dueAt = this.#clock.now() + ms * (0.75 + this.#random() / 4);
  }

  #conclude(entry: Entry, served: ServedCertificate | undefined): void {
    const before = entry.findings;
    const findings =
      served === undefined ? [] : certificateFindings(entry.cluster, served, this.#clock.date());
    entry.served = served;
    entry.findings = findings;
    if (!areSameFindings(before, findings)) this.#hasChanged();
  }

  #hasChanged(): void {
    this.#unreportedSince ??= this.#clock.now();
  }

  /**
   * A server may have several certificates and choose by SNI, so a name is missing only if the certificate for that name
   * lacks it. Usually one connection tells about all.
   */
  async #served(cluster: Cluster, attempt: number): Promise<ServedCertificate | undefined> {
    const backend = this.#backend(cluster, attempt);
    if (backend === undefined) return undefined;
    const { host, port } = backend;
    const missing: string[] = [];
    let notAfter = Number.NaN;
    let names = namesToVerify(cluster);
    const signal = AbortSignal.any([this.#end.signal, AbortSignal.timeout(DEADLINE_MS)]);
    while (names.length > 0) {
      const [serverName] = names;
      const seen = await this.#look({ host, port, serverName, names }, signal);
      if (seen === undefined) return undefined;
      if (!seen.covered.includes(serverName)) missing.push(serverName);
      names = names.slice(1).filter(name => !seen.covered.includes(name));
      notAfter = Number.isNaN(notAfter) ? seen.notAfter : Math.min(notAfter, seen.notAfter);
    }
    return { missing, notAfter };
  }

  /** Another one after each failure, and none that is known to be down. */
  #backend({ name, routes }: Cluster, attempt: number): Backend | undefined {
    const backends = routes.find(({ kind }) => kind === 'api')?.pool.backends ?? [];
    const usable = backends.filter(({ text }) => this.#options.isUp(name, 'api', text) !== false);
    return usable[attempt % usable.length];
  }
}

function uidOf({ origin }: Cluster): string | undefined {
  return origin.object?.uid;
}

function keyOf(cluster: Cluster): string {
  const backends = cluster.routes.find(({ kind }) => kind === 'api')?.pool.backends ?? [];
  const addresses = backends.map(({ text }) => text);
  return JSON.stringify([namesToVerify(cluster), addresses, cluster.controlPlane?.certSANs]);
}
