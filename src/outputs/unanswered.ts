// An object of ours about which the controller that it is for has said nothing: it has not seen it, or there is none. Pure.

import { MANAGER } from '../kube/cluster-label.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { Refusal } from './output.ts';

/** Controllers take seconds; one that has just been started may take longer. */
const PATIENCE_MS = 60_000;

/** Counts from a while after our last change of the object. */
export function unanswered({ metadata }: KubeObject, refusal: Refusal): Refusal | undefined {
  const { managedFields = [], creationTimestamp } = metadata;
  const ours = managedFields.find(({ manager, operation }) => manager === MANAGER && operation === 'Apply');
  const changedAt = Date.parse(ours?.time ?? creationTimestamp ?? '');
  return Number.isNaN(changedAt) ? undefined : { ...refusal, from: changedAt + PATIENCE_MS };
}
