// The port to a Kubernetes API server: a few calls, each made once. No call rejects, each ends within a bounded time,
// and failures are data, since every caller has its own idea of when to try again. kube-client.ts is the real one,
// testbed/memory-kube-api.ts one in memory; kube-api.contract.ts is the suite that both pass.

import type { KubeObject } from './kube-object.ts';
import type { Resource } from './resources.ts';

export interface KubeFault {
  /** HTTP's; 0 where there was no answer. */
  readonly status: number;
  /**
   * As the API server words it (`NotFound`, `Conflict`, …). Where it said nothing: `Unreachable`, `Untrusted`,
   * `Timeout`, `Credentials`, `TooLarge`, `BadAnswer`.
   */
  readonly reason: string;
  readonly message: string;
}

export interface Failed {
  readonly ok: false;
  readonly fault: KubeFault;
}

export type Answer<T> = { readonly ok: true; readonly value: T } | Failed;

export interface Selection {
  /** Absent: all namespaces, or a resource that has none. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface ListOptions<T, K = T> extends Selection {
  /** What to keep of each object, asked page by page, so that a large list is never in memory as a whole. */
  readonly keep?: (object: T) => K;
  readonly signal?: AbortSignal;
}

export interface Listed<T> {
  readonly items: readonly T[];
  /** Where a watch goes on. */
  readonly resourceVersion: string;
}

export interface WatchOptions extends Selection {
  /** Events after this one: from a list, an object or a bookmark. */
  readonly resourceVersion: string;
  readonly signal: AbortSignal;
  /** The server has accepted the watch; a quiet resource may have no event for long. */
  readonly onOpen?: () => void;
}

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  /** Nothing has changed up to here: where the next watch may go on. */
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

export type WatchEnd =
  /** By the signal, or because the client was closed. */
  | { readonly why: 'aborted' }
  /** The server has ended it in order, as it does after some minutes: watch again. */
  | { readonly why: 'closed' }
  /** Not a byte for longer than bookmarks take: the connection is dead, or the server sends none. Watch again. */
  | { readonly why: 'silent' }
  /** 410: the server no longer knows what has changed since then. List again. */
  | { readonly why: 'expired'; readonly fault: KubeFault }
  /** Not reached, cut, refused (401, 403, 404, …) or not understood. */
  | { readonly why: 'failed'; readonly fault: KubeFault };

export interface Subresource {
  readonly subresource?: 'status';
}

export interface ApplyOptions extends Subresource {
  /** Takes fields over from other managers. Otherwise a conflict is a fault, 409. */
  readonly force?: boolean;
}

/** RFC 6902; paths are JSON pointers (RFC 6901). A `test` that fails makes the whole patch a fault, 422. */
export type PatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** RFC 7386: null removes a field. */
export type MergePatch = Readonly<Record<string, unknown>>;

export interface ApiGroup {
  /** In the server's order of preference, the preferred one first. */
  readonly versions: readonly ApiVersion[];
}

export interface ApiVersion {
  readonly version: string;
  /** Without subresources. */
  readonly resources: readonly ApiResource[];
}

export interface ApiResource {
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}

/** A namespace is undefined for what has none. We write as field manager `causeway`. */
export interface KubeApi {
  get<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string | undefined,
    name: string,
  ): Promise<Answer<T>>;
  /** All pages as of one moment. Each item has its apiVersion and kind, which API servers leave out. */
  list<T extends KubeObject, K = T>(
    resource: Resource<T>,
    options: ListOptions<T, K>,
  ): Promise<Answer<Listed<K>>>;
  /** One stream of events, in order. The only call that may take minutes. No event comes after the signal. */
  watch<T extends KubeObject>(
    resource: Resource<T>,
    options: WatchOptions,
    onEvent: (event: WatchEvent<T>) => void,
  ): Promise<WatchEnd>;
  create<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>>;
  /** Refused with 409 when the object is no longer at the resourceVersion that it carries. */
  replace<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>>;
  /** Likewise, where the object carries a resourceVersion or a uid. */
  remove<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<undefined>>;
  /** Server-side apply: the object has exactly the fields that we want to own, and is created where it is missing. */
  apply<T extends KubeObject>(resource: Resource<T>, object: T, options?: ApplyOptions): Promise<Answer<T>>;
  patch<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string | undefined,
    name: string,
    operations: readonly PatchOperation[],
    options?: Subresource,
  ): Promise<Answer<T>>;
  merge<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string | undefined,
    name: string,
    patch: MergePatch,
    options?: Subresource,
  ): Promise<Answer<T>>;
  /** An absent group is a fault, 404. */
  discover(group: string): Promise<Answer<ApiGroup>>;
}

export function failed(status: number, reason: string, message: string): Failed {
  return { ok: false, fault: { status, reason, message } };
}

/** For people: `403 Forbidden: services is forbidden: …`. */
export function wordsOf({ status, reason, message }: KubeFault): string {
  return `${status === 0 ? '' : `${status} `}${reason}: ${message}`;
}
