// A list, page by page: 10,000 objects of 20 KiB are never in memory as one answer, and `keep` has done its work on one
// page before the next is asked for.

import { type Answer, failed, type Listed, type ListOptions } from './kube-api.ts';
import type { KubeHttp } from './kube-http.ts';
import type { KubeObject } from './kube-object.ts';
import { resourcePath, selectionQuery } from './resource-path.ts';
import { apiVersionOf, type Resource } from './resources.ts';

const PAGE_TIMEOUT_MS = 30_000;
/** A page of larger objects is asked for again in smaller pages. */
const PAGE_BYTES = 32 * 1024 * 1024;
/** Ten of the largest objects fit into a page. */
const SMALLEST_PAGE = 10;
/** etcd forgets a moment, and with it the rest of a list, after five minutes. */
const LIST_MS = 300_000;

interface Page {
  readonly items?: readonly object[] | null;
  readonly metadata?: { readonly continue?: string; readonly resourceVersion?: string };
}

/** The pages are of one moment. A server that forgets it before the last of them answers 410. */
export async function listPages<T extends KubeObject, K = T>(
  http: KubeHttp,
  resource: Resource<T>,
  options: ListOptions<T, K>,
  pageSize: number,
): Promise<Answer<Listed<K>>> {
  const { keep = (object: T) => object as unknown as K, signal } = options;
  const items: K[] = [];
  const [apiVersion, { kind }] = [apiVersionOf(resource), resource];
  const path = resourcePath(resource, options.namespace);
  const query = selectionQuery(options);
  const deadline = performance.now() + LIST_MS;
  for (let limit = pageSize; ; ) {
    query.set('limit', String(limit));
    const left = deadline - performance.now();
    if (left <= 0) return failed(0, 'Timeout', `The list was not complete within ${LIST_MS / 1000} s`);
    const page = await http.call<Page>({
      method: 'GET',
      path: `${path}?${query}`,
      timeoutMs: Math.ceil(Math.min(PAGE_TIMEOUT_MS, left)),
      maxBytes: PAGE_BYTES,
      signal,
    });
    if (!page.ok) {
      if (page.fault.reason !== 'TooLarge' || limit <= SMALLEST_PAGE) return page;
      limit = Math.max(Math.floor(limit / 4), SMALLEST_PAGE);
      continue;
    }
    const { items: found, metadata = {} } = page.value;
    for (const object of found ?? []) items.push(keep({ apiVersion, kind, ...object } as T));
    if (!metadata.continue) {
      return { ok: true, value: { items, resourceVersion: metadata.resourceVersion ?? '' } };
    }
    query.set('continue', metadata.continue);
  }
}
