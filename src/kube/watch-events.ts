// The lines of a watch as events. An ERROR event carries a Status, as a refused call does, and ends the watch.

import type { KubeFault, WatchEvent } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';

interface Status {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
}

export function watchEvent<T extends KubeObject>(
  value: unknown,
): WatchEvent<T> | { readonly fault: KubeFault } {
  const { type, object } = (value ?? {}) as { type?: string; object?: T & Status };
  if (object?.metadata !== undefined) {
    if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') return { type, object };
    if (type === 'BOOKMARK') return { type, resourceVersion: object.metadata.resourceVersion ?? '' };
  }
  if (type !== 'ERROR') {
    return { fault: { status: 200, reason: 'BadAnswer', message: `An event is of type '${type}'` } };
  }
  const { code = 0, reason = 'BadAnswer', message = 'The watch failed' } = object ?? {};
  return { fault: { status: code, reason, message } };
}
