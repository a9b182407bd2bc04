// What became of earlier writes: which objects failed and when they are due again, which the API server keeps otherwise
// than we applied them, which somebody else keeps changing, and whether the API server answers at all.

import type { Finding } from '../cluster/finding.ts';
import { backOffMs } from '../kube/back-off.ts';
import type { Clock } from '../kube/clock.ts';
import { type KubeFault, wordsOf } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { essenceOf, isAsDesired, type KeptObject } from './own-object.ts';

/** All retries together are at most 20 a second, however many objects fail. */
const RETRY_SPACING_MS = 50;
/** An object that must be applied again within this time was changed by somebody else. */
const UNDONE_WITHIN_MS = 60_000;
/** Undone so often in a row, it is worth a finding. */
const UNDONE_TIMES = 3;
/** An object that changes while it is written is tried again without a word, a few times. */
const QUIET_CONFLICTS = 2;

interface Trouble {
  /** The object that was to be applied; another one is tried at once. */
  readonly wanted: KubeObject | undefined;
  readonly failures: number;
  readonly retryAt: number;
  readonly finding: Finding | undefined;
}

interface Applied {
  readonly wanted: KubeObject;
  readonly at: number;
  /** How often it was undone in a row. */
  readonly undone: number;
  /** The object as the API server keeps it, where that is not as we applied it. */
  readonly accepted: string | undefined;
  readonly finding: Finding | undefined;
}

interface Outage {
  readonly failures: number;
  readonly until: number;
  readonly fault: KubeFault;
}

/** Writes go by an id; `wanted` is undefined for removals. */
export class WriteHistory {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #troubles = new Map<string, Trouble>();
  readonly #applied = new Map<string, Applied>();
  /** The API server as a whole does not answer, or not to us. */
  #outage: Outage | undefined;

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  get error(): string | undefined {
    return this.#outage && wordsOf(this.#outage.fault);
  }

  /** No write starts before. */
  get outageUntil(): number {
    return this.#outage?.until ?? 0;
  }

  notBefore(id: string, wanted: KubeObject | undefined): number {
    const trouble = this.#troubles.get(id);
    if (trouble !== undefined) return trouble.wanted === wanted ? trouble.retryAt : 0;
    const applied = this.#applied.get(id);
    if (applied === undefined || applied.wanted !== wanted || applied.undone === 0) return 0;
    return applied.at + backOffMs(applied.undone, () => 1);
  }

  /** Whether the API server keeps the object so although we applied it otherwise: a webhook may change it. */
  isAccepted(id: string, seen: KeptObject, wanted: KubeObject): boolean {
    const applied = this.#applied.get(id);
    return applied?.wanted === wanted && applied.accepted === essenceOf(seen);
  }

  applied(id: string, wanted: KubeObject, object: KeptObject, undoneFinding: () => Finding): void {
    const at = this.#clock.now();
    const before = this.#applied.get(id);
    const isUndone = before?.wanted === wanted && at - before.at < UNDONE_WITHIN_MS;
    const undone = isUndone ? before.undone + 1 : 0;
    const accepted = isAsDesired(object, wanted) ? undefined : essenceOf(object);
    const finding = undone >= UNDONE_TIMES ? undoneFinding() : undefined;
    this.#applied.set(id, { wanted, at, undone, accepted, finding });
  }

  succeeded(id: string): void {
    this.#outage = undefined;
    this.#troubles.delete(id);
  }

  /** `finding` is asked for where the failure is worth one. */
  failed(
    id: string,
    wanted: KubeObject | undefined,
    fault: KubeFault,
    finding: () => Finding | undefined,
  ): void {
    if (this.#isOutage(fault)) return;
    const isQuiet = fault.status === 409 && (this.#troubles.get(id)?.failures ?? 0) < QUIET_CONFLICTS;
    this.refused(id, wanted, isQuiet ? undefined : finding());
  }

  /** It is left as it is, and looked at again later. */
  refused(id: string, wanted: KubeObject | undefined, finding: Finding | undefined): void {
    this.#outage = undefined;
    const before = this.#troubles.get(id);
    const failures = before?.wanted === wanted ? (before?.failures ?? 0) + 1 : 1;
    const pause = Math.max(backOffMs(failures, this.#random), this.#troubles.size * RETRY_SPACING_MS);
    this.#troubles.set(id, { wanted, failures, finding, retryAt: this.#clock.now() + pause });
  }

  /** Forgets what does not matter any more. `isIdle`: nothing is left to be written; `isOpen`: this id is. */
  tidy(isIdle: boolean, isOpen: (id: string) => boolean): void {
    for (const id of this.#troubles.keys()) if (!isOpen(id)) this.#troubles.delete(id);
    const past = this.#clock.now() - UNDONE_WITHIN_MS;
    for (const [id, { at, accepted }] of this.#applied) {
      if (at <= past && accepted === undefined && !isOpen(id)) this.#applied.delete(id);
    }
    if (isIdle) this.#outage = undefined;
  }

  /** Another replica writes, or has written. */
  clear(): void {
    this.#troubles.clear();
    this.#applied.clear();
    this.#outage = undefined;
  }

  findings(): readonly Finding[] {
    const past = this.#clock.now() - UNDONE_WITHIN_MS;
    const undone = [...this.#applied.values()].filter(({ at }) => at > past);
    return [...this.#troubles.values(), ...undone].flatMap(({ finding }) => finding ?? []);
  }

  /** Faults that concern all calls: everything waits. */
  #isOutage(fault: KubeFault): boolean {
    const isAll =
      fault.status === 0
        ? ['Unreachable', 'Untrusted', 'Credentials'].includes(fault.reason)
        : [401, 429, 503].includes(fault.status);
    if (!isAll) return false;
    const now = this.#clock.now();
    // Calls that were under way together fail together.
    if (this.outageUntil <= now) {
      const failures = (this.#outage?.failures ?? 0) + 1;
      this.#outage = { failures, until: now + backOffMs(failures, this.#random), fault };
    }
    return true;
  }
}
