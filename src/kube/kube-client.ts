// The calls of kube-api.ts over HTTPS, each made once and bounded in time.

import { MANAGER } from './cluster-label.ts';
import { discoverGroup } from './discover-group.ts';
import type {
  Answer,
  ApiGroup,
  ApplyOptions,
  KubeApi,
  KubeFault,
  Listed,
  ListOptions,
  MergePatch,
  PatchOperation,
  Subresource,
  WatchEnd,
  WatchEvent,
  WatchOptions,
} from './kube-api.ts';
import { KubeHttp, type KubeHttpOptions } from './kube-http.ts';
import type { KubeObject } from './kube-object.ts';
import { listPages } from './list-pages.ts';
import { resourcePath, selectionQuery } from './resource-path.ts';
import type { Resource } from './resources.ts';
import { watchEvent } from './watch-events.ts';
import { WatchLines, WatchLinesError } from './watch-lines.ts';

/** For one call. A webhook alone may take 10 s. */
const TIMEOUT_MS = 15_000;
/** As client-go does. */
const PAGE = 500;
/** The server ends a watch after a time between these, so that watches of many clients do not end together. */
const WATCH_SECONDS = [300, 600] as const;
/** Beyond that the server had its chance. */
const WATCH_GRACE_MS = 30_000;
/**
 * Bookmarks come about once a minute, but only where the server has something newer to tell than the watch began with:
 * etcd tells it of a quiet resource every 10 minutes by default. So silence may mean nothing, and to watch again from
 * the same version costs one request.
 */
const SILENCE_MS = 90_000;
/** Of one event. */
const MAX_LINE = 16 * 1024 * 1024;

export interface KubeClientOptions extends KubeHttpOptions {
  /** For one call; each page of a list has half a minute. */
  readonly timeoutMs?: number;
  /** How long a watch may be without a byte. */
  readonly silenceMs?: number;
  /** Objects in a page of a list. */
  readonly page?: number;
  /** From 0 to 1. */
  readonly random?: () => number;
}

/**
 * At most eight calls are under way at once, others wait within their time; each watch has a connection of its own.
 * What must not wait behind others, such as the renewal of a lease, has a client of its own. Disposing ends the calls
 * under way.
 */
export function openKubeClient(options: KubeClientOptions): KubeApi & Disposable {
  return new KubeClient(options);
}

class KubeClient implements KubeApi, Disposable {
  readonly #http: KubeHttp;
  readonly #timeoutMs: number;
  readonly #silenceMs: number;
  readonly #page: number;
  readonly #random: () => number;

  constructor(options: KubeClientOptions) {
    const { timeoutMs = TIMEOUT_MS, silenceMs = SILENCE_MS, page = PAGE, random = Math.random } = options;
    this.#http = new KubeHttp(options);
    this.#timeoutMs = timeoutMs;
    this.#silenceMs = silenceMs;
    this.#page = page;
    this.#random = random;
  }

  get<T extends KubeObject>(resource: Resource<T>, namespace: string | undefined, name: string) {
    return this.#call<T>('GET', resourcePath(resource, namespace, name));
  }

  async list<T extends KubeObject, K = T>(
    resource: Resource<T>,
    options: ListOptions<T, K>,
  ): Promise<Answer<Listed<K>>> {
    const list = () => listPages(this.#http, resource, options, this.#page);
    const listed = await list();
    return !listed.ok && listed.fault.status === 410 ? list() : listed;
  }

  async watch<T extends KubeObject>(
    resource: Resource<T>,
    options: WatchOptions,
    onEvent: (event: WatchEvent<T>) => void,
  ): Promise<WatchEnd> {
    const { namespace, resourceVersion, signal, onOpen = () => {} } = options;
    const [least, most] = WATCH_SECONDS;
    const seconds = Math.round(least + (most - least) * this.#random());
    const query = selectionQuery(options);
    query.set('watch', 'true');
    query.set('allowWatchBookmarks', 'true');
    query.set('timeoutSeconds', String(seconds));
    query.set('resourceVersion', resourceVersion);

    const lines = new WatchLines(MAX_LINE);
    const cut = new AbortController();
    let fault: KubeFault | undefined;
    const end = await this.#http.stream({
      path: `${resourcePath(resource, namespace)}?${query}`,
      signal: AbortSignal.any([signal, cut.signal]),
      openMs: this.#timeoutMs,
      silenceMs: this.#silenceMs,
      maxMs: seconds * 1000 + WATCH_GRACE_MS,
      onOpen,
      onData(chunk) {
        try {
          lines.push(chunk, value => {
            if (signal.aborted || fault !== undefined) return;
            const event = watchEvent<T>(value);
            if ('fault' in event) fault = event.fault;
            else onEvent(event);
          });
        } catch (error) {
          if (!(error instanceof WatchLinesError)) throw error;
          fault = { status: 200, reason: 'BadAnswer', message: error.message };
        }
        if (fault !== undefined) cut.abort();
      },
    });
    if (signal.aborted) return { why: 'aborted' };
    const why = fault ?? ('fault' in end ? end.fault : undefined);
    if (why === undefined) return end as WatchEnd;
    return { why: why.status === 410 ? 'expired' : 'failed', fault: why };
  }

  create<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>> {
    const path = resourcePath(resource, object.metadata.namespace);
    return this.#call<T>('POST', `${path}?fieldManager=${MANAGER}`, object);
  }

  replace<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>> {
    const { namespace, name } = object.metadata;
    return this.#call<T>('PUT', `${resourcePath(resource, namespace, name)}?fieldManager=${MANAGER}`, object);
  }

  async remove<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<undefined>> {
    const { namespace, name, uid, resourceVersion } = object.metadata;
    const preconditions = { uid, resourceVersion };
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions };
    const answer = await this.#call('DELETE', resourcePath(resource, namespace, name), body);
    return answer.ok ? { ok: true, value: undefined } : answer;
  }

  apply<T extends KubeObject>(resource: Resource<T>, object: T, options: ApplyOptions = {}) {
    const { namespace, name } = object.metadata;
    const path = resourcePath(resource, namespace, name, options.subresource);
    const query = `fieldManager=${MANAGER}&force=${options.force === true}`;
    // JSON is YAML.
    return this.#call<T>('PATCH', `${path}?${query}`, object, 'application/apply-patch+yaml');
  }

  patch<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string | undefined,
    name: string,
    operations: readonly PatchOperation[],
    { subresource }: Subresource = {},
  ) {
    const path = `${resourcePath(resource, namespace, name, subresource)}?fieldManager=${MANAGER}`;
    return this.#call<T>('PATCH', path, operations, 'application/json-patch+json');
  }

  merge<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string | undefined,
    name: string,
    patch: MergePatch,
    { subresource }: Subresource = {},
  ) {
    const path = `${resourcePath(resource, namespace, name, subresource)}?fieldManager=${MANAGER}`;
    return this.#call<T>('PATCH', path, patch, 'application/merge-patch+json');
  }

  discover(group: string): Promise<Answer<ApiGroup>> {
    return discoverGroup(path => this.#call('GET', path), group);
  }

  [Symbol.dispose](): void {
    this.#http[Symbol.dispose]();
  }

  #call<T>(method: string, path: string, body?: object, contentType?: string): Promise<Answer<T>> {
    return this.#http.call<T>({
      method,
      path,
      timeoutMs: this.#timeoutMs,
      ...(body && { body }),
      ...(contentType && { contentType }),
    });
  }
}
