// An Event on somebody's object, for `kubectl describe`. Pure: `api.create(events, kubeEvent(…))` writes it. Callers
// limit how often; repeats are not counted in a series.

import { randomBytes } from 'node:crypto';
import { MANAGER } from './cluster-label.ts';
import type { KubeEvent, KubeObject, ObjectReference } from './kube-object.ts';

/** Bytes, as API servers count them. */
const MAX_NOTE = 1024;
const MAX_WORD = 128;
/** Of 253 characters that an Event's name may have, what is left beside the random part. */
const MAX_NAME = 230;

export interface KubeEventOptions {
  readonly regarding: KubeObject | ObjectReference;
  readonly type: KubeEvent['type'];
  /** In CamelCase, as `HostClaimed`. */
  readonly reason: string;
  /** A sentence; what is beyond 1024 bytes is cut off. */
  readonly note: string;
  /** What we were doing, in CamelCase. */
  readonly action: string;
  /** Which of our replicas. */
  readonly instance: string;
  /** The end of its name, of lower-case letters and digits: an Event with the same name is refused. Absent: random. */
  readonly suffix?: string;
  readonly now: Date;
}

export function kubeEvent(options: KubeEventOptions): KubeEvent {
  const { type, reason, note, action, instance, now } = options;
  const { suffix = randomBytes(8).toString('hex') } = options;
  const regarding = referenceOf(options.regarding);
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: {
      name: `${legalName(regarding.name)}.${suffix}`,
      // Where the object has none.
      namespace: regarding.namespace ?? 'default',
    },
    eventTime: microTime(now),
    reportingController: MANAGER,
    reportingInstance: cut(instance, MAX_WORD),
    action: cut(action, MAX_WORD),
    reason: cut(reason, MAX_WORD),
    regarding,
    note: cut(note, MAX_NOTE),
    type,
  };
}

/** RFC 3339 with exactly six digits of a second, as Kubernetes writes and wants its MicroTime. */
export function microTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}

function referenceOf(object: KubeObject | ObjectReference): ObjectReference {
  if (!('metadata' in object)) {
    const { namespace, ...rest } = object;
    return namespace ? object : rest;
  }
  const { apiVersion, kind, metadata } = object;
  const { namespace, name, uid, resourceVersion } = metadata;
  return {
    apiVersion,
    kind,
    name,
    ...(namespace && { namespace }),
    ...(uid && { uid }),
    ...(resourceVersion && { resourceVersion }),
  };
}

/** Not every object's name may be part of an Event's. */
function legalName(name: string): string {
  const legal = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]/g, '-')
    .slice(0, MAX_NAME)
    .replaceAll(/\.[.-]+|-+\./g, '.')
    .replaceAll(/^[.-]+|[.-]+$/g, '');
  return legal === '' ? MANAGER : legal;
}

/** Never in the middle of a character. */
function cut(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  let end = maxBytes - Buffer.byteLength('…');
  while ((bytes[end] & 0xc0) === 0x80) end--;
  return `${bytes.toString('utf8', 0, end)}…`;
}
