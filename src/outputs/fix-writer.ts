// `fix: true`: patches the objects that clusters come from, in one API server. Only by the leader, and only a few times
// an hour for each object: whoever reverts the change wins, with a finding.

import type { Cluster } from '../cluster/cluster.ts';
import type { Finding } from '../cluster/finding.ts';
import { backOffMs } from '../kube/back-off.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { type KubeApi, type KubeFault, type PatchOperation, wordsOf } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { Resource } from '../kube/resources.ts';
import { openPacedWork, type PacedWork } from './paced-work.ts';
import type { StateWriterOptions } from './status-writer.ts';

/** How often an object is patched within an hour. */
const MAX_PATCHES = 3;
const HOUR_MS = 3_600_000;
/** Calls at once, and the pause after them. */
const BATCH = 8;
const PAUSE_MS = 100;
const IDLE_MS = 1000;

export interface ObjectFix {
  readonly cluster: Cluster;
  readonly resource: Resource<KubeObject>;
  readonly operations: readonly PatchOperation[];
}

export interface FixWriterOptions extends StateWriterOptions {
  /** An object was patched. */
  readonly onPatched: (fix: ObjectFix) => void;
}

interface Entry {
  fix: ObjectFix;
  /** The patch that was sent last: the watch may not have shown its result yet. */
  sent: string;
  patchedAt: readonly number[];
  notBefore: number;
  failures: number;
  fault: KubeFault | undefined;
}

export class FixWriter implements AsyncDisposable {
  readonly #api: KubeApi;
  readonly #options: FixWriterOptions;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();
  readonly #work: PacedWork;
  #wanted: ReadonlySet<string> = new Set();
  #hasEnded = false;

  constructor(api: KubeApi, options: FixWriterOptions) {
    this.#api = api;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#work = openPacedWork(this.#clock, () => this.#step());
  }

  /** All that is missing now. */
  update(fixes: readonly ObjectFix[]): void {
    const wanted = new Set<string>();
    for (const fix of fixes) {
      const uid = fix.cluster.origin.object?.uid;
      if (uid === undefined || fix.operations.length === 0) continue;
      wanted.add(uid);
      const known = this.#entries.get(uid);
      if (known === undefined) this.#entries.set(uid, newEntry(fix));
      else known.fix = fix;
    }
    this.#wanted = wanted;
    const now = this.#clock.now();
    for (const [uid, entry] of this.#entries)
      if (!wanted.has(uid) && recent(entry, now).length === 0) this.#entries.delete(uid);
    this.#work.wake();
  }

  get findings(): readonly Finding[] {
    const now = this.#clock.now();
    return this.#current().flatMap(([, entry]): Finding[] => {
      const { cluster } = entry.fix;
      const common = { cluster: cluster.name, origin: cluster.origin };
      if (entry.fault !== undefined) {
        const text = `cannot add what the object lacks: ${wordsOf(entry.fault)}`;
        const fix = 'Allow it (causeway render rbac), or make the change by hand; it is tried again';
        return [{ ...common, severity: 'error', code: 'OutputRejected', text, fix }];
      }
      if (recent(entry, now).length < MAX_PATCHES) return [];
      const text = `somebody reverts what was added to the object ${MAX_PATCHES} times within an hour`;
      const fix = 'Make the change where the object comes from, or set fix: false';
      return [{ ...common, severity: 'warning', code: 'ForeignWriter', text, fix }];
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#hasEnded = true;
    await this.#work[Symbol.asyncDispose]();
  }

  #current(): readonly (readonly [string, Entry])[] {
    return [...this.#entries].filter(([uid]) => this.#wanted.has(uid));
  }

  async #step(): Promise<number> {
    if (!this.#options.isLeader()) return IDLE_MS;
    const now = this.#clock.now();
    const due = this.#current()
      .filter(
        ([, entry]) =>
          entry.notBefore <= now &&
          entry.sent !== JSON.stringify(entry.fix.operations) &&
          recent(entry, now).length < MAX_PATCHES,
      )
      .slice(0, BATCH);
    await Promise.all(due.map(([, entry]) => this.#patch(entry)));
    return due.length === 0 ? IDLE_MS : PAUSE_MS;
  }

  async #patch(entry: Entry): Promise<void> {
    const { fix } = entry;
    const { object } = fix.cluster.origin;
    if (object === undefined || this.#hasEnded || !this.#options.isLeader()) return;
    const answer = await this.#api.patch(fix.resource, object.namespace, object.name, fix.operations);
    const now = this.#clock.now();
    if (answer.ok) {
      entry.sent = JSON.stringify(fix.operations);
      entry.patchedAt = [...recent(entry, now), now];
      entry.failures = 0;
      entry.fault = undefined;
      this.#options.onPatched(fix);
      return;
    }
    entry.notBefore = now + backOffMs(++entry.failures, this.#options.random ?? Math.random);
    // 422: the object has changed meanwhile, and its source will say what is still missing. 404: it is gone.
    const isOutdated = answer.fault.status === 422 || answer.fault.status === 404;
    entry.fault = isOutdated && entry.failures < MAX_PATCHES ? undefined : answer.fault;
  }
}

function newEntry(fix: ObjectFix): Entry {
  return { fix, sent: '', patchedAt: [], notBefore: 0, failures: 0, fault: undefined };
}

function recent({ patchedAt }: Entry, now: number): readonly number[] {
  return patchedAt.filter(at => now - at < HOUR_MS);
}
