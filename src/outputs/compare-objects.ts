// Compares the objects that should be with those that are, and says what is to be done. Makes no calls.

import type { Finding } from '../cluster/finding.ts';
import { clusterLabel } from '../kube/cluster-label.ts';
import { keyOf } from '../kube/kept-objects.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { Resource } from '../kube/resources.ts';
import type { DesiredObject } from './output.ts';
import { clusterLabelOf, isAsDesired, type KeptObject, ownObject, sourceOf } from './own-object.ts';
import type { OwnObjects } from './own-objects.ts';
import type { PruneGuard, WriteGuard } from './prune-guard.ts';
import { definitionMissing, notServed, sourceEmpty, wantedTwice } from './write-findings.ts';

export type Task = ApplyTask | RemoveTask;

export interface ApplyTask {
  readonly kind: 'apply';
  readonly objects: OwnObjects;
  readonly key: string;
  readonly desired: DesiredObject;
  readonly wanted: KubeObject;
}

export interface RemoveTask {
  readonly kind: 'remove';
  readonly objects: OwnObjects;
  readonly key: string;
  readonly seen: KeptObject;
}

export interface Comparison {
  /** By a key that is unique among resources. What is desired comes first. */
  readonly tasks: ReadonlyMap<string, Task>;
  readonly findings: readonly Finding[];
  /** When to compare again although nothing has changed. */
  readonly due: number;
}

export interface CompareOptions {
  readonly desired: readonly DesiredObject[];
  readonly guard: WriteGuard;
  readonly pruneGuard: PruneGuard;
  /** By resourceKey(). */
  readonly resources: ReadonlyMap<string, OwnObjects>;
  readonly now: number;
  /** Wall-clock time in ms since 1970. */
  readonly date: number;
  readonly prepared: (desired: DesiredObject) => Prepared;
  /** Whether the API server keeps the object so although we applied it otherwise. */
  readonly isAccepted: (id: string, seen: KeptObject, wanted: KubeObject) => boolean;
}

/** What is computed once for a desired object. */
export interface Prepared {
  readonly resource: string;
  readonly key: string;
  /** The object to apply. */
  readonly wanted: KubeObject;
}

/** One for each writer. Remembers its results for as long as outputs give the same objects. */
export function preparedObjects(instance: string): CompareOptions['prepared'] {
  const remembered = new WeakMap<DesiredObject, Prepared>();
  return desired => {
    let prepared = remembered.get(desired);
    if (prepared === undefined) {
      const { resource, object } = desired;
      prepared = {
        resource: resourceKey(resource),
        key: keyOf(object),
        wanted: ownObject(desired, instance),
      };
      remembered.set(desired, prepared);
    }
    return prepared;
  };
}

/** With 10,000 objects this is asked up to ten times a second: it makes no text for objects that are as they should be. */
export function compareObjects(options: CompareOptions): Comparison {
  const tasks = new Map<string, Task>();
  const findings: Finding[] = [];
  for (const objects of options.resources.values()) objects.refresh();
  const { named, due } = compareDesired(options, tasks, findings);
  return { tasks, findings, due: Math.min(due, compareExisting(options, named, tasks, findings)) };
}

type Named = ReadonlyMap<OwnObjects, ReadonlyMap<string, DesiredObject>>;

/** Adds what is to be applied. Returns what is desired, also where it cannot be written now, and when to compare again. */
function compareDesired(
  options: CompareOptions,
  tasks: Map<string, Task>,
  findings: Finding[],
): { readonly named: Named; readonly due: number } {
  const { guard, resources, now, date } = options;
  let due = Number.POSITIVE_INFINITY;
  const named = new Map<OwnObjects, Map<string, DesiredObject>>();
  for (const objects of resources.values()) named.set(objects, new Map());
  for (const desired of options.desired) {
    const { resource, key, wanted } = options.prepared(desired);
    const objects = resources.get(resource);
    const keys = objects && named.get(objects);
    if (objects === undefined || keys === undefined) continue;
    const first = keys.get(key);
    if (first !== undefined) {
      findings.push(wantedTwice(desired.cluster, describe(wanted), first.cluster));
      continue;
    }
    keys.set(key, desired);
    if (!objects.isReady || isPaused(desired, guard)) continue;
    const seen = objects.get(key);
    if (seen !== undefined) {
      // It is created anew once it is gone.
      if (seen.object.metadata.deletionTimestamp !== undefined) continue;
      const isDone = isSame(seen, wanted) || options.isAccepted(taskId(objects.resource, key), seen, wanted);
      // What is said about another state of the object says nothing about this one.
      if (isDone && seen.refusal) {
        const { from = 0 } = seen.refusal;
        if (from <= date) findings.push(notServed(desired.cluster, describe(wanted), seen.refusal));
        else due = Math.min(due, now + from - date);
      }
      if (isDone) continue;
    }
    tasks.set(taskId(objects.resource, key), { kind: 'apply', objects, key, desired, wanted });
  }
  for (const [objects, { size }] of named) {
    if (!objects.absent || size === 0) continue;
    findings.push(definitionMissing(objects.resource, size, objects.error ?? 'it is not served'));
  }
  return { named, due };
}

/** Adds what is to be removed. Returns when to compare again. */
function compareExisting(
  { guard, pruneGuard, now }: CompareOptions,
  named: Named,
  tasks: Map<string, Task>,
  findings: Finding[],
): number {
  let due = Number.POSITIVE_INFINITY;
  const paused = new Set([...guard.paused].map(clusterLabel));
  const waiting = new Map<string, number>();
  for (const [objects, keys] of named) {
    due = Math.min(due, objects.due());
    if (!objects.isCertain) continue;
    for (const key of objects.keys()) {
      if (keys.has(key)) continue;
      const seen = objects.get(key);
      if (seen === undefined || seen.object.metadata.deletionTimestamp !== undefined) continue;
      if (paused.has(clusterLabelOf(seen) ?? '')) continue;
      const source = sourceOf(seen);
      const may = pruneGuard.mayRemove(source, now);
      if (may === true) tasks.set(taskId(objects.resource, key), { kind: 'remove', objects, key, seen });
      else if (may !== false && source !== undefined) {
        due = Math.min(due, may.notBefore);
        waiting.set(source, (waiting.get(source) ?? 0) + 1);
      }
    }
  }
  for (const [source, count] of waiting) findings.push(sourceEmpty(source, count));
  return due;
}

export function resourceKey({ plural, group }: Resource<KubeObject>): string {
  return `${plural}.${group}`;
}

function taskId(resource: Resource<KubeObject>, key: string): string {
  return `${resourceKey(resource)} ${key}`;
}

/** `Ingress 'tenants/a'`. */
export function describe(object: KubeObject): string {
  return `${object.kind} '${keyOf(object)}'`;
}

function isPaused({ cluster, asItIs = false }: DesiredObject, { paused }: WriteGuard): boolean {
  return asItIs || cluster.controlPlane?.isPaused === true || paused.has(cluster.name);
}

const compared = new WeakMap<KeptObject, { wanted: KubeObject; isSame: boolean }>();

function isSame(seen: KeptObject, wanted: KubeObject): boolean {
  const before = compared.get(seen);
  if (before?.wanted === wanted) return before.isSame;
  const isSame = isAsDesired(seen, wanted);
  compared.set(seen, { wanted, isSame });
  return isSame;
}
