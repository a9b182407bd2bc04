// Which of several replicas writes: the one that holds a Lease. Each tries to take it, its holder renews it.
//
// A holder leads from the *start* of its last successful write for less than the Lease's duration; others take the Lease
// over only after they have seen it unchanged for the whole duration. Both measure on their own clocks: the times in
// the object are informational. So two never lead at once, however late answers arrive and however clocks differ. One
// gap remains: a replica that starts just after the Lease was deleted by hand cannot know that there was one.
//
// A write that is under way when leadership ends may still arrive; keep such writes harmless, by preconditions or by
// server-side apply of what every replica would write.

import { type Clock, systemClock } from './clock.ts';
import { type Answer, type Failed, failed, type KubeApi, wordsOf } from './kube-api.ts';
import { microTime } from './kube-event.ts';
import type { Lease } from './kube-object.ts';
import { leases } from './resources.ts';

const DURATION_MS = 15_000;
const RENEW_MS = 5000;
/** A holder leads for so long without a renewal. The rest of the duration is for clocks that run apart and late writes. */
const LEAD_MS = 10_000;
/** After a renewal that failed. */
const RETRY_MS = 1000;
const LEAST_PAUSE_MS = 100;
/** Then a call is tried again, so that one that hangs does not cost the leadership. */
const CALL_MS = 3000;
/** The duration in a Lease that was given back, as client-go writes it: nobody has to wait. */
const RELEASED_SECONDS = 1;
/** Writes are given up after a while, and those before the last few cannot succeed any more. */
const MAX_WRITES = 16;

export interface LeaderLeaseOptions {
  readonly namespace: string;
  readonly name: string;
  /** Of this process, and of no other: as `<pod>_<random>`. */
  readonly identity: string;
  readonly clock?: Clock;
}

/** Disposing stops leading at once and gives the Lease back: stop writing first. */
export interface LeaderLease extends AsyncDisposable {
  /** Ask right before each write. */
  isLeader(): boolean;
  /** The identity in the Lease as last seen; informational. */
  readonly holder: string | undefined;
  /** Why the Lease cannot be read or written: a sentence. It is tried again. */
  readonly error: string | undefined;
}

/** The client should be one of its own, lest renewals wait behind other calls. `changed()`: isLeader() has changed. */
export function openLeaderLease(api: KubeApi, options: LeaderLeaseOptions, changed: () => void): LeaderLease {
  return new Candidate(api, options, changed);
}

interface Observed {
  readonly version: string;
  readonly freeAt: number;
}

/** When a write began, on both clocks: the monotonic one stands still while a machine is suspended. */
interface Start {
  readonly now: number;
  readonly date: number;
}

class Candidate implements LeaderLease {
  readonly #api: KubeApi;
  readonly #options: LeaderLeaseOptions;
  readonly #clock: Clock;
  readonly #changed: () => void;
  readonly #end = new AbortController();
  readonly #running: Promise<void>;
  /** The Lease after our last successful write, unless it is known to be out of date. */
  #held: Lease | undefined;
  #leadingSince: Start | undefined;
  /** Our last successful write and those since without an answer, which may have succeeded too. By renewTime. */
  readonly #writes = new Map<string, Start>();
  /** The Lease as another has left it, and when we first saw it so. */
  #observed: Observed | undefined;
  /** A Lease that is absent then was deleted. */
  #hasExisted = false;
  #wasLeader = false;
  #expiry = new AbortController();
  holder: string | undefined;
  error: string | undefined;

  constructor(api: KubeApi, options: LeaderLeaseOptions, changed: () => void) {
    this.#api = api;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#changed = changed;
    this.#running = this.#run();
  }

  isLeader(): boolean {
    const since = this.#leadingSince;
    if (since === undefined || this.#end.signal.aborted) return false;
    const elapsed = Math.max(this.#clock.now() - since.now, this.#clock.date().getTime() - since.date);
    return elapsed < LEAD_MS;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    this.#expiry.abort();
    await this.#running;
    await this.#release();
  }

  async #run(): Promise<void> {
    const { signal } = this.#end;
    while (!signal.aborted) {
      const began = this.#clock.now();
      const answer = await this.#attempt();
      this.error = answer.ok ? undefined : wordsOf(answer.fault);
      this.#notify();
      const every = !answer.ok && this.isLeader() ? RETRY_MS : RENEW_MS;
      const pause = Math.min(began + every - this.#clock.now(), this.#untilFree() || every);
      await this.#clock.wait(Math.max(pause, LEAST_PAUSE_MS), signal);
    }
  }

  /** Renews what we hold, or looks at the Lease and takes it where we may. */
  async #attempt(): Promise<Answer<unknown>> {
    const { namespace, name } = this.#options;
    if (this.#held !== undefined) {
      const renewed = await this.#write(this.#held);
      if (renewed.ok || !isOutdated(renewed)) return renewed;
      this.#held = undefined;
    }
    const found = await this.#call(this.#api.get(leases, namespace, name));
    if (!found.ok && found.fault.status !== 404) return found;
    const lease = found.ok ? found.value : undefined;
    this.holder = lease?.spec?.holderIdentity || undefined;
    if (this.#end.signal.aborted || !this.#mayTake(lease)) return { ok: true, value: undefined };
    const taken = await this.#write(lease);
    const isTooLate = !taken.ok && taken.fault.status === 409;
    return isTooLate ? { ok: true, value: undefined } : taken;
  }

  #mayTake(lease: Lease | undefined): boolean {
    const start = lease && this.#startOf(lease);
    if (lease !== undefined && start !== undefined) {
      this.#succeeded(lease, start);
      return true;
    }
    this.#leadingSince = undefined;
    // Whoever held one that was deleted may not know it yet.
    if (lease === undefined) return !this.#hasExisted || this.#isFree('deleted', DURATION_MS);
    this.#hasExisted = true;
    // None of ours can succeed any more: they were for an earlier version.
    this.#writes.clear();
    const { holderIdentity, leaseDurationSeconds = 0 } = lease.spec ?? {};
    // Given back, or made in advance. Where only the holder was erased, by hand, it may not know it yet.
    if (!holderIdentity && leaseDurationSeconds <= RELEASED_SECONDS) return true;
    const { uid, resourceVersion } = lease.metadata;
    return this.#isFree(`${uid} ${resourceVersion}`, Math.max(leaseDurationSeconds * 1000, DURATION_MS));
  }

  /** When we wrote what the Lease says; undefined where it is not ours. Somebody may enter our identity by hand. */
  #startOf({ spec }: Lease): Start | undefined {
    return spec?.holderIdentity === this.#options.identity
      ? this.#writes.get(spec.renewTime ?? '')
      : undefined;
  }

  /** It has been seen unchanged for the whole of its duration. */
  #isFree(version: string, durationMs: number): boolean {
    if (this.#observed?.version !== version) {
      this.#observed = { version, freeAt: this.#clock.now() + durationMs };
    }
    return this.#untilFree() === 0;
  }

  #untilFree(): number {
    const { freeAt = Number.POSITIVE_INFINITY } = this.#observed ?? {};
    return Math.max(freeAt - this.#clock.now(), 0);
  }

  async #write(current: Lease | undefined): Promise<Answer<Lease>> {
    const date = this.#clock.date();
    const start = { now: this.#clock.now(), date: date.getTime() };
    const time = microTime(date);
    this.#writes.set(time, start);
    const [oldest] = this.#writes.keys();
    if (this.#writes.size > MAX_WRITES) this.#writes.delete(oldest);
    const lease = this.#object(current, time);
    const writing =
      current === undefined ? this.#api.create(leases, lease) : this.#api.replace(leases, lease);
    return this.#call(
      writing.then(answer => {
        this.#written(time, start, answer);
        return answer;
      }),
    );
  }

  /** An answer counts even if it is late, unless a later write has succeeded or the Lease was seen to be another's. */
  #written(time: string, start: Start, answer: Answer<Lease>): void {
    if (this.#writes.get(time) !== start) return;
    if (answer.ok) this.#succeeded(answer.value, start);
    // A server that fails may have written it.
    else if (answer.fault.status >= 400 && answer.fault.status < 500) this.#writes.delete(time);
  }

  #succeeded(lease: Lease, start: Start): void {
    this.#held = lease;
    this.#leadingSince = start;
    this.#hasExisted = true;
    this.#observed = undefined;
    this.#writes.clear();
    this.#writes.set(lease.spec?.renewTime ?? '', start);
    this.holder = lease.spec?.holderIdentity;
    this.#notify();
    // Time ends leadership too, also while a call hangs.
    this.#expiry.abort();
    if (this.#end.signal.aborted) return;
    this.#expiry = new AbortController();
    const left = start.now + LEAD_MS - this.#clock.now();
    void this.#clock.wait(Math.max(left, 0), this.#expiry.signal).then(() => this.#notify());
  }

  #object(current: Lease | undefined, time: string): Lease {
    const { namespace, name, identity } = this.#options;
    const { holderIdentity, acquireTime, leaseTransitions = 0 } = current?.spec ?? {};
    const isOurs = holderIdentity === identity;
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: current?.metadata ?? { name, namespace },
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: DURATION_MS / 1000,
        acquireTime: isOurs && acquireTime ? acquireTime : time,
        renewTime: time,
        leaseTransitions: isOurs || current === undefined ? leaseTransitions : leaseTransitions + 1,
      },
    };
  }

  /** At most two attempts: a renewal without an answer may have been written in between. */
  async #release(): Promise<void> {
    const { namespace, name } = this.#options;
    for (let attempt = 0; attempt < 2 && this.#writes.size > 0; attempt++) {
      let lease = this.#held;
      if (lease === undefined) {
        const found = await this.#call(this.#api.get(leases, namespace, name));
        if (!found.ok || this.#startOf(found.value) === undefined) return;
        lease = found.value;
      }
      const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: RELEASED_SECONDS };
      const released = await this.#call(this.#api.replace(leases, { ...lease, spec }));
      if (released.ok || !isOutdated(released)) return;
      this.#held = undefined;
    }
  }

  #notify(): void {
    const isLeader = this.isLeader();
    if (isLeader === this.#wasLeader || this.#end.signal.aborted) return;
    this.#wasLeader = isLeader;
    this.#changed();
  }

  async #call<T>(call: Promise<Answer<T>>): Promise<Answer<T>> {
    const answered = new AbortController();
    const late = this.#clock
      .wait(CALL_MS, answered.signal)
      .then(() => failed(0, 'Timeout', `No answer within ${CALL_MS} ms`));
    const answer = await Promise.race([call, late]);
    answered.abort();
    return answer;
  }
}

/** Somebody has written to it, or deleted it, since. */
function isOutdated({ fault }: Failed): boolean {
  return fault.status === 409 || fault.status === 404;
}
