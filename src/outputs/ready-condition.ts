// The condition `causeway.dev/Ready`, for objects whose status has room for it: `kubectl wait --for=condition=…` works
// then. It says what the annotation `causeway.dev/status` says, in the words that Kubernetes has for it. Pure.

import type { SourceObject } from '../cluster/cluster.ts';
import { isRecord } from '../config/is-record.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { printable } from '../text/printable.ts';
import type { ObjectState } from './object-states.ts';

const TYPE = 'causeway.dev/Ready';
const MAX_MESSAGE = 1024;

export interface Condition {
  readonly type: typeof TYPE;
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

/** The status of a Service has conditions, a list by type; that of a TenantControlPlane has none. */
export function hasConditions({ apiVersion, kind }: SourceObject): boolean {
  return apiVersion === 'v1' && kind === 'Service';
}

/** Ours on the object. */
export function conditionOn(object: KubeObject): Condition | undefined {
  const { status: given } = object as { readonly status?: unknown };
  const conditions = isRecord(given) && Array.isArray(given.conditions) ? given.conditions : [];
  const found: unknown = conditions.find(condition => isRecord(condition) && condition.type === TYPE);
  if (!isRecord(found)) return undefined;
  const { status, reason, message, lastTransitionTime } = found;
  return {
    type: TYPE,
    status: status === 'True' ? 'True' : 'False',
    reason: String(reason),
    message: String(message),
    lastTransitionTime: String(lastTransitionTime),
  };
}

/** The time is that of the last change from True to False or back. */
export function readyCondition(
  { ready = false, findings }: Pick<ObjectState, 'ready' | 'findings'>,
  before: Condition | undefined,
  now: Date,
): Condition {
  const status = ready ? 'True' : 'False';
  const [first] = findings;
  const served = ready ? 'Every route has a backend that is up' : 'A route has no backend that is up';
  return {
    type: TYPE,
    status,
    reason: first?.code ?? (ready ? 'Served' : 'BackendsDown'),
    message: printable(first?.text ?? served).slice(0, MAX_MESSAGE),
    lastTransitionTime:
      before?.status === status ? before.lastTransitionTime : now.toISOString().replace(/\.\d+Z$/, 'Z'),
  };
}
