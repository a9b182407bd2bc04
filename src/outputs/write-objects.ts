// The one place that writes the objects of all outputs to an API server: compares what should be with what is, applies
// the difference, and removes what is no longer desired. compare-objects.ts says what to do, write-call.ts does it, and
// this file decides when.
//
// Only the holder of the lease writes. It compares everything again after each change of the plan or of an object, at
// most every 100 ms; a comparison of 10,000 unchanged objects takes about 10 ms.

import { setImmediate } from 'node:timers/promises';
import { areSameFindings, type Finding } from '../cluster/finding.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { CLUSTER_LABEL, clusterLabel, ownSelector } from '../kube/cluster-label.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { LeaderLease } from '../kube/leader-lease.ts';
import type { Resource } from '../kube/resources.ts';
import {
  type CompareOptions,
  type Comparison,
  compareObjects,
  describe,
  preparedObjects,
  resourceKey,
  type Task,
} from './compare-objects.ts';
import type { DesiredObject } from './output.ts';
import { OwnObjects } from './own-objects.ts';
import { PruneGuard, type WriteGuard } from './prune-guard.ts';
import { applyObject, guarded, removeLeftovers, removeObject, type WriteResult } from './write-call.ts';
import { foreign, rejected, undone } from './write-findings.ts';
import { WriteHistory } from './write-history.ts';

const MAX_CALLS = 8;
/** Between two comparisons. */
const PACE_MS = 100;

export interface ObjectWriterOptions {
  readonly api: KubeApi;
  /** `<lease namespace>.<lease name>`. */
  readonly instance: string;
  readonly lease: Pick<LeaderLease, 'isLeader'>;
  /** What all outputs that there are may write: our objects of those that are not in the file are removed once. */
  readonly known: readonly Resource<KubeObject>[];
  readonly clock?: Clock;
  /** From 0 to 1. */
  readonly random?: () => number;
}

/** Disposing waits for calls under way and removes nothing. Dispose it before the lease. */
export interface ObjectWriter extends AsyncDisposable {
  /** What should be from now on; returns at once. An unchanged object should be the same reference. */
  write(desired: readonly DesiredObject[], guard: WriteGuard): void;
  /** isLeader() may have changed. */
  wake(): void;
  findings(): readonly Finding[];
  /** Why objects may be out of date: a sentence. It is tried again. */
  readonly error: string | undefined;
}

/** `changed()`: findings or error have changed. Never called from within one of its calls. */
export function openObjectWriter(options: ObjectWriterOptions, changed: () => void): ObjectWriter {
  return new Writer(options, changed);
}

/** Where our objects are removed, since the file says so. */
interface Unused {
  readonly resource: Resource<KubeObject>;
  /** Absent: all. */
  readonly namespaces: readonly string[] | undefined;
  readonly except?: readonly string[];
}

class Writer implements ObjectWriter {
  readonly #options: ObjectWriterOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #changed: () => void;
  readonly #end = new AbortController();
  readonly #prepared: CompareOptions['prepared'];
  readonly #pruneGuard = new PruneGuard();
  readonly #resources = new Map<string, OwnObjects>();
  /** Of outputs and namespaces that are not in the file. */
  readonly #unused = new Map<string, Unused>();
  readonly #closing = new Set<Promise<void>>();
  #desired: readonly DesiredObject[] = [];
  #guard: WriteGuard | undefined;

  readonly #running = new Map<string, Promise<void>>();
  #pending = new Map<string, () => Promise<void>>();
  readonly #history: WriteHistory;
  #wasLeader = false;
  #isScheduled = false;
  #passedAt = Number.NEGATIVE_INFINITY;
  #alarm = new AbortController();
  #findings: readonly Finding[] = [];
  error: string | undefined;

  constructor(options: ObjectWriterOptions, changed: () => void) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    this.#history = new WriteHistory(this.#clock, this.#random);
    this.#changed = changed;
    this.#prepared = preparedObjects(options.instance);
  }

  write(desired: readonly DesiredObject[], guard: WriteGuard): void {
    if (this.#end.signal.aborted) return;
    const before = this.#guard;
    this.#desired = desired;
    this.#guard = guard;
    // What has not begun may no longer be right.
    this.#pending.clear();
    this.#pruneGuard.update(guard);
    this.#follow(guard, before);
    this.#schedule();
  }

  wake(): void {
    this.#schedule();
  }

  findings(): readonly Finding[] {
    return this.#findings;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    this.#alarm.abort();
    this.#pending.clear();
    for (const objects of this.#resources.values()) this.#close(objects);
    await Promise.all([...this.#closing, ...this.#running.values()]);
  }

  /** Opens and closes what the file has gained and lost. */
  #follow({ resources, namespaces }: WriteGuard, before: WriteGuard | undefined): void {
    const { api, instance, known } = this.#options;
    const used = new Map(resources.map(each => [resourceKey(each), each]));
    const isMoved = before !== undefined && String(before.namespaces) !== String(namespaces);
    for (const [key, objects] of this.#resources) {
      if (used.has(key) && !isMoved) continue;
      this.#resources.delete(key);
      this.#close(objects);
      const { resource } = objects;
      if (!used.has(key)) this.#unused.set(key, { resource, namespaces: before?.namespaces });
      else if (namespaces === undefined) this.#unused.delete(elsewhere(key));
      else this.#unused.set(elsewhere(key), { resource, namespaces: before?.namespaces, except: namespaces });
    }
    if (before === undefined) {
      for (const resource of known) this.#unused.set(resourceKey(resource), { resource, namespaces });
    }
    const options = { clock: this.#clock, random: this.#random, ...(namespaces && { namespaces }) };
    for (const [key, resource] of used) {
      this.#unused.delete(key);
      if (this.#resources.has(key)) continue;
      this.#resources.set(key, new OwnObjects(api, resource, instance, options, () => this.#schedule()));
    }
  }

  #close(objects: OwnObjects): void {
    const closing = objects[Symbol.asyncDispose]().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#end.signal.aborted) return;
    this.#isScheduled = true;
    const left = this.#passedAt + PACE_MS - this.#clock.now();
    const due = left > 0 ? this.#clock.wait(left, this.#end.signal) : setImmediate();
    void due.then(() => this.#pass());
  }

  #pass(): void {
    this.#isScheduled = false;
    const guard = this.#guard;
    if (guard === undefined || this.#end.signal.aborted) return;
    const now = this.#clock.now();
    this.#passedAt = now;
    this.#noticeLeadership();
    const comparison = compareObjects({
      desired: this.#desired,
      guard,
      pruneGuard: this.#pruneGuard,
      resources: this.#resources,
      now,
      date: this.#clock.date().getTime(),
      prepared: this.#prepared,
      isAccepted: (id, seen, wanted) => this.#history.isAccepted(id, seen, wanted),
    });
    const due = this.#wasLeader ? this.#plan(comparison, now) : comparison.due;
    this.#report(comparison);
    this.#wakeAt(due, now);
    this.#start();
  }

  /** Another replica may have written meanwhile, and knows nothing of what failed here. */
  #noticeLeadership(): void {
    const isLeader = this.#options.lease.isLeader();
    if (isLeader !== this.#wasLeader) {
      this.#history.clear();
      this.#pending.clear();
    }
    this.#wasLeader = isLeader;
  }

  /** Fills the queue. Returns when the next task that has to wait is due. */
  #plan({ tasks, due: comparedAgain }: Comparison, now: number): number {
    const pending = new Map<string, () => Promise<void>>();
    let due = comparedAgain;
    const add = (id: string, wanted: KubeObject | undefined, run: () => Promise<void>) => {
      if (this.#running.has(id)) return;
      const notBefore = this.#history.notBefore(id, wanted);
      if (notBefore > now) due = Math.min(due, notBefore);
      else pending.set(id, run);
    };
    for (const [id, task] of tasks) add(id, wantedOf(task), () => this.#run(id, task));
    for (const [key, unused] of this.#unused) {
      // What is being written there now would be left behind.
      const prefix = `${resourceKey(unused.resource)} `;
      const isBusy = [...this.#running.keys()].some(each => each.startsWith(prefix));
      if (!isBusy) add(unusedId(key), undefined, () => this.#removeUnused(key, unused));
    }
    const unused = new Set([...this.#unused.keys()].map(unusedId));
    const isOpen = (id: string) => tasks.has(id) || unused.has(id) || this.#running.has(id);
    this.#history.tidy(tasks.size + unused.size + this.#running.size === 0, isOpen);
    this.#pending = pending;
    const { outageUntil } = this.#history;
    return pending.size > 0 && outageUntil > now ? Math.min(due, outageUntil) : due;
  }

  #start(): void {
    while (this.#running.size < MAX_CALLS && this.#pending.size > 0) {
      if (!this.#mayWrite() || this.#clock.now() < this.#history.outageUntil) return;
      const [[id, run]] = this.#pending;
      this.#pending.delete(id);
      const running = run().finally(() => {
        this.#running.delete(id);
        this.#schedule();
        this.#start();
      });
      this.#running.set(id, running);
    }
  }

  #mayWrite(): boolean {
    return !this.#end.signal.aborted && this.#options.lease.isLeader();
  }

  async #run(id: string, task: Task): Promise<void> {
    const { api, instance } = this.#options;
    const { objects, key } = task;
    const call = { api, instance, objects, key, mayWrite: () => this.#mayWrite() };
    const result = await guarded(
      task.kind === 'apply' ? applyObject(call, task.wanted) : removeObject(call, task.seen),
    );
    this.#conclude(id, task, result);
  }

  #conclude(id: string, task: Task, result: WriteResult): void {
    const cluster = task.kind === 'apply' ? task.desired.cluster : undefined;
    const object = task.kind === 'apply' ? task.wanted : task.seen.object;
    const history = this.#history;
    switch (result.kind) {
      case 'stopped':
        return;
      case 'failed':
        return history.failed(id, wantedOf(task), result.fault, () =>
          rejected(cluster, describe(object), result.fault),
        );
      case 'foreign':
        return history.refused(
          id,
          wantedOf(task),
          cluster && foreign(cluster, task.objects.resource, result.object, this.#options.instance),
        );
      case 'done':
        history.succeeded(id);
        if (cluster !== undefined && result.applied !== undefined) {
          history.applied(id, object, result.applied, () => undone(cluster, describe(object)));
        }
    }
  }

  async #removeUnused(key: string, unused: Unused): Promise<void> {
    const { api, instance } = this.#options;
    const { resource, namespaces, except = [] } = unused;
    const paused = new Set([...(this.#guard?.paused ?? [])].map(clusterLabel));
    const isKept = ({ metadata: { namespace = '', labels } }: KubeObject) =>
      except.includes(namespace) || paused.has(labels?.[CLUSTER_LABEL] ?? '');
    // Not where it is in the file again meanwhile.
    const isUnused = () => this.#unused.get(key) === unused;
    const call = { api, mayWrite: () => this.#mayWrite() && isUnused() };
    const labelSelector = ownSelector(instance);
    const result = await guarded(removeLeftovers(call, { resource, namespaces, labelSelector, isKept }));
    if (result.kind === 'failed') {
      this.#history.failed(unusedId(key), undefined, result.fault, () => undefined);
    } else if (result.kind === 'done') {
      this.#history.succeeded(unusedId(key));
      if (isUnused()) this.#unused.delete(key);
    }
  }

  #report({ findings: compared }: Comparison): void {
    const findings = [...compared, ...this.#history.findings()];
    const resources = [...this.#resources.values()];
    const error =
      this.#history.error ?? resources.find(each => !each.absent && each.error !== undefined)?.error;
    if (this.error === error && areSameFindings(findings, this.#findings)) return;
    this.error = error;
    this.#findings = findings;
    this.#changed();
  }

  #wakeAt(due: number, now: number): void {
    this.#alarm.abort();
    this.#alarm = new AbortController();
    if (due === Number.POSITIVE_INFINITY) return;
    const { signal } = this.#alarm;
    const wait = this.#clock.wait(Math.max(due - now, 0), signal);
    void wait.then(() => (signal.aborted ? undefined : this.#schedule()));
  }
}

function wantedOf(task: Task): KubeObject | undefined {
  return task.kind === 'apply' ? task.wanted : undefined;
}

function elsewhere(key: string): string {
  return `${key} elsewhere`;
}

/** Of the task that removes them. */
function unusedId(key: string): string {
  return `unused ${key}`;
}
