// The calls of kube-api.ts over HTTPS, each made once and bounded in time. The connection goes to `at`, which for an
// agent is its own listener, and the certificate at its end is verified for the name in the credentials.

import { Agent, request } from 'node:https';
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import { MANAGER } from './cluster-label.ts';
import type { KubeAccess, KubeCredentials } from './kube-access.ts';
import { type Answer, failed, type KubeApi, type ListOptions, type Resource } from './kube-api.ts';
import type { KubeObject } from './kube-object.ts';

/** For one call, credentials included. */
const TIMEOUT_MS = 5000;
/** Calls that follow each other share a connection; one that has been idle may lead to a gateway that is gone. */
const IDLE_MS = 2000;
/** Far more than a page of what we list. */
const MAX_ANSWER = 16 * 1024 * 1024;
const PAGE = 500;

/** Node's words for a certificate that does not verify. */
const UNTRUSTED = /CERT|VERIFY|ISSUER|CRL/;
/** The readable part of what OpenSSL says when a gateway, or the API server, turns us away. */
const ALERT = /\b(?:tls|ssl)v\d+ alert [a-z ]+/;

export interface KubeClientOptions {
  readonly access: KubeAccess;
  /** Where to connect, whatever the credentials' server is called. */
  readonly at: { readonly host: string; readonly port: number };
  readonly timeoutMs?: number;
}

/** Disposing ends the calls under way. */
export function openKubeClient(options: KubeClientOptions): KubeApi & Disposable {
  return new KubeClient(options);
}

class KubeClient implements KubeApi, Disposable {
  readonly #options: KubeClientOptions;
  readonly #end = new AbortController();
  /** By the name that is verified. */
  readonly #agents = new Map<string, Agent>();

  constructor(options: KubeClientOptions) {
    this.#options = options;
  }

  get<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string): Promise<Answer<T>> {
    return this.#call<T>('GET', pathOf(resource, namespace, name));
  }

  async list<T extends KubeObject>(
    resource: Resource<T>,
    { namespace, labelSelector }: ListOptions,
  ): Promise<Answer<readonly T[]>> {
    const found: T[] = [];
    const query = new URLSearchParams({ limit: String(PAGE) });
    if (labelSelector !== undefined) query.set('labelSelector', labelSelector);
    for (;;) {
      const page = await this.#call<Page<T>>('GET', `${pathOf(resource, namespace)}?${query}`);
      if (!page.ok) return page;
      found.push(...(page.value.items ?? []));
      const more = page.value.metadata?.continue;
      if (!more) return { ok: true, value: found };
      query.set('continue', more);
    }
  }

  create<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>> {
    const path = pathOf(resource, object.metadata.namespace);
    return this.#call<T>('POST', `${path}?fieldManager=${MANAGER}`, object);
  }

  replace<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<T>> {
    const { namespace, name } = object.metadata;
    return this.#call<T>('PUT', `${pathOf(resource, namespace, name)}?fieldManager=${MANAGER}`, object);
  }

  async remove<T extends KubeObject>(resource: Resource<T>, object: T): Promise<Answer<undefined>> {
    const { namespace, name, uid, resourceVersion } = object.metadata;
    const preconditions = { uid, resourceVersion };
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions };
    const answer = await this.#call('DELETE', pathOf(resource, namespace, name), body);
    return answer.ok ? { ok: true, value: undefined } : answer;
  }

  [Symbol.dispose](): void {
    this.#end.abort();
    for (const agent of this.#agents.values()) agent.destroy();
  }

  async #call<T>(method: string, path: string, body?: object): Promise<Answer<T>> {
    const { access, timeoutMs = TIMEOUT_MS } = this.#options;
    const late = AbortSignal.timeout(timeoutMs);
    const signal = AbortSignal.any([late, this.#end.signal]);
    let credentials: KubeCredentials;
    try {
      // An exec plugin of a kubeconfig may never end.
      credentials = await unless(signal, access.credentials());
    } catch (error) {
      return failed(0, late.aborted ? 'Timeout' : 'Credentials', wordsOf(error, timeoutMs, late));
    }
    try {
      const { status, answer } = await this.#exchange(credentials, signal, method, path, body);
      return understood<T>(status, answer);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? '';
      const reason = late.aborted ? 'Timeout' : UNTRUSTED.test(code) ? 'Untrusted' : 'Unreachable';
      return failed(0, reason, wordsOf(error, timeoutMs, late));
    }
  }

  #exchange(
    { serverName, basePath, headers, ...secrets }: KubeCredentials,
    signal: AbortSignal,
    method: string,
    path: string,
    body: object | undefined,
  ): Promise<{ status: number; answer: string }> {
    const content = body === undefined ? undefined : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const call = request({
        ...this.#options.at,
        ...secrets,
        method,
        path: `${basePath}${path}`,
        headers: {
          ...headers,
          Host: isIP(serverName) === 6 ? `[${serverName}]` : serverName,
          Accept: 'application/json',
          'User-Agent': MANAGER,
          ...(content !== undefined && {
            'Content-Type': 'application/json',
            'Content-Length': Buffer.byteLength(content),
          }),
        },
        agent: this.#agentFor(serverName),
        signal,
        // RFC 6066 3: no address is sent as a name.
        servername: isIP(serverName) === 0 ? serverName : '',
      });
      call.on('error', reject);
      call.on('response', response => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on('error', reject);
        response.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          size += chunk.length;
          if (size > MAX_ANSWER) response.destroy(new Error(`The answer has more than ${MAX_ANSWER} bytes`));
        });
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, answer: Buffer.concat(chunks).toString() }),
        );
      });
      call.end(content);
    });
  }

  /** Node shares no connection between requests that bring a check of their own, so it is the agent that has it. */
  #agentFor(serverName: string): Agent {
    const existing = this.#agents.get(serverName);
    if (existing !== undefined) return existing;
    const agent = new Agent({
      keepAlive: true,
      timeout: IDLE_MS,
      checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
    });
    this.#agents.set(serverName, agent);
    return agent;
  }
}

interface Page<T> {
  readonly items?: readonly T[];
  readonly metadata?: { readonly continue?: string };
}

function pathOf<T extends KubeObject>(resource: Resource<T>, namespace?: string, name?: string): string {
  const { group, version, plural } = resource;
  const parts = group === '' ? ['api', version] : ['apis', group, version];
  if (namespace !== undefined) parts.push('namespaces', namespace);
  parts.push(plural);
  if (name !== undefined) parts.push(name);
  return `/${parts.map(encodeURIComponent).join('/')}`;
}

function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', abort));
}

/** The API server says what is wrong in a Status object; what stands between us may say anything. */
function understood<T>(status: number, answer: string): Answer<T> {
  let value: unknown;
  try {
    value = JSON.parse(answer);
  } catch {
    value = undefined;
  }
  const isObject = typeof value === 'object' && value !== null;
  if (status >= 200 && status < 300) {
    return isObject ? { ok: true, value: value as T } : failed(status, 'BadAnswer', 'The answer is not JSON');
  }
  const { reason, message } = (isObject ? value : {}) as { reason?: string; message?: string };
  return failed(status, reason || 'BadAnswer', message || `HTTP status ${status}`);
}

function wordsOf(error: unknown, timeoutMs: number, late: AbortSignal): string {
  if (late.aborted) return `No answer within ${timeoutMs} ms`;
  const { message, errors } = error as AggregateError;
  const alert = ALERT.exec(message)?.[0];
  if (alert !== undefined) return `The connection was refused on its way: ${alert}`;
  // Node's errors of several attempts have no words of their own.
  return message || errors?.map((each: Error) => each.message).join(', ') || 'The connection failed';
}
