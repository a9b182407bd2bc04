// What the Gateway says about one of our routes: why it does not serve it, from `status.parents`. Pure.

import { isRecord } from '../config/is-record.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { Refusal } from './output.ts';
import { unanswered } from './unanswered.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Of a condition's message. */
const MAX_MESSAGE = 500;

/** Conditions that a served route has, and what it means where one is false. */
const conditionTypes: readonly (readonly [type: string, meaning: string])[] = [
  ['Accepted', 'does not accept it'],
  ['ResolvedRefs', 'cannot use its backends'],
];

/** By the reasons that the Gateway API defines. */
const fixes: ReadonlyMap<string, string> = new Map([
  [
    'NotAllowedByListeners',
    'Allow it at a listener of the Gateway: protocol: TLS, tls: { mode: Passthrough }, allowedRoutes: { namespaces: { from: All } }',
  ],
  [
    'NoMatchingListenerHostname',
    "Remove hostname from the Gateway's listener, or use one that covers these hosts",
  ],
  ['NoMatchingParent', 'Set gateway.name and gateway.sectionName of the output to a listener that exists'],
]);
const SILENT = 'says nothing about it: it does not exist, or its controller does not read TLSRoutes';
const SILENT_FIX =
  'Set gateway.name and gateway.namespace of the output to a Gateway that exists: kubectl get gateways -A; some controllers read TLSRoutes only with an option';
const OTHER_FIX = 'Look at the listeners of the Gateway: kubectl describe gateway';

/** Undefined where every Gateway accepts it, or has not judged the object as it is now. */
export function routeRefusal(route: KubeObject): Refusal | undefined {
  const { metadata, spec, status } = route as KubeObject & { spec?: unknown; status?: unknown };
  const parents = listOf(recordOf(spec).parentRefs).map(ref => gatewayOf(ref, metadata.namespace));
  const silent = new Set(parents);
  for (const parent of listOf(recordOf(status).parents)) {
    const gateway = gatewayOf(parent.parentRef, metadata.namespace);
    // One that it had before, and has not been told about yet.
    if (!parents.includes(gateway)) continue;
    silent.delete(gateway);
    for (const [type, meaning] of conditionTypes) {
      const condition = listOf(parent.conditions).find(each => each.type === type);
      if (condition?.status !== 'False' || isOld(condition, metadata.generation)) continue;
      const reason = textOf(condition.reason);
      const words = [reason, textOf(condition.message)].filter(Boolean).join(': ').slice(0, MAX_MESSAGE);
      return { text: `Gateway '${gateway}' ${meaning}: ${words}`, fix: fixes.get(reason) ?? OTHER_FIX };
    }
  }
  const [gateway] = silent;
  return gateway === undefined
    ? undefined
    : unanswered(route, { text: `Gateway '${gateway}' ${SILENT}`, fix: SILENT_FIX });
}

function gatewayOf(ref: unknown, routeNamespace = ''): string {
  const { namespace = routeNamespace, name } = recordOf(ref);
  return `${textOf(namespace)}/${textOf(name)}`;
}

/** Of the object before its last change. */
function isOld({ observedGeneration }: Fields, generation = 0): boolean {
  return typeof observedGeneration === 'number' && observedGeneration < generation;
}

function recordOf(value: unknown): Fields {
  return isRecord(value) ? value : {};
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
