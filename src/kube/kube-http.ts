// HTTPS to one API server: a call that ends within its time, and a stream of bytes for as long as it lasts. Faults are
// data. The connection goes to `at`, which for an agent is its own listener, else where the credentials say, and the
// certificate at its end is verified for the name in the credentials.

import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import { MANAGER } from './cluster-label.ts';
import type { KubeAccess, KubeCredentials } from './kube-access.ts';
import { type Answer, failed, type KubeFault } from './kube-api.ts';
import { KubeStream, type StreamEnd, type StreamOptions } from './kube-stream.ts';

/** Calls that follow each other share a connection; one that has been idle may lead to a gateway that is gone. */
const IDLE_MS = 2000;
/** Calls beyond these wait for a connection, within their time. */
const MAX_CONNECTIONS = 8;
/** Far more than any single object: etcd takes 1.5 MiB. */
const MAX_ANSWER = 16 * 1024 * 1024;

/** Node's words for a certificate that does not verify. */
const UNTRUSTED = /CERT|VERIFY|ISSUER|CRL/;
/** The readable part of what OpenSSL says when a gateway, or the API server, turns us away. */
const ALERT = /\b(?:tls|ssl)v\d+ alert [a-z ]+/;

export interface KubeHttpOptions {
  readonly access: KubeAccess;
  /** Where to connect, whatever the credentials say. */
  readonly at?: { readonly host: string; readonly port: number };
}

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  /** Default application/json. */
  readonly contentType?: string;
  /** For everything: credentials, waiting for a connection, the answer. */
  readonly timeoutMs: number;
  readonly maxBytes?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Disposing ends the calls and streams under way. */
export class KubeHttp implements Disposable {
  readonly #options: KubeHttpOptions;
  readonly #end = new AbortController();
  /** By the name that is verified, and whether for calls or for streams. */
  readonly #agents = new Map<string, Agent>();

  constructor(options: KubeHttpOptions) {
    this.#options = options;
  }

  async call<T>(call: Call): Promise<Answer<T>> {
    const { timeoutMs, signal } = call;
    const late = AbortSignal.timeout(timeoutMs);
    const ends = [late, this.#end.signal, ...(signal === undefined ? [] : [signal])];
    const end = AbortSignal.any(ends);
    let credentials: KubeCredentials;
    try {
      // An exec plugin of a kubeconfig may never end.
      credentials = await unless(end, this.#options.access.credentials());
    } catch (error) {
      return failed(0, late.aborted ? 'Timeout' : 'Credentials', messageOf(error, timeoutMs, late));
    }
    try {
      const { status, answer } = await this.#exchange(credentials, end, call);
      return understood<T>(status, answer);
    } catch (error) {
      if (error instanceof TooLarge) return failed(0, 'TooLarge', error.message);
      return { ok: false, fault: connectionFault(error, timeoutMs, late) };
    }
  }

  stream(options: StreamOptions): Promise<StreamEnd> {
    const stream = new KubeStream(options, this.#end.signal);
    void this.#open(stream, options);
    return stream.ended;
  }

  [Symbol.dispose](): void {
    this.#end.abort();
    for (const agent of this.#agents.values()) agent.destroy();
  }

  async #exchange(credentials: KubeCredentials, signal: AbortSignal, call: Call) {
    const { method, path, body, contentType = 'application/json', maxBytes = MAX_ANSWER } = call;
    const content = body === undefined ? undefined : JSON.stringify(body);
    const headers = content !== undefined && {
      'Content-Type': contentType,
      'Content-Length': Buffer.byteLength(content),
    };
    const request = this.#request(credentials, signal, { method, path, ...(headers && { headers }) }, 'call');
    const response = await sent(request, content);
    return { status: response.statusCode ?? 0, answer: await read(response, maxBytes) };
  }

  async #open(stream: KubeStream, { path, openMs }: StreamOptions): Promise<void> {
    const faultOf = (error: unknown) => connectionFault(error, openMs);
    let credentials: KubeCredentials;
    try {
      credentials = await unless(stream.signal, this.#options.access.credentials());
    } catch (error) {
      return stream.fail({ status: 0, reason: 'Credentials', message: messageOf(error, openMs) });
    }
    try {
      const request = this.#request(credentials, stream.signal, { method: 'GET', path }, 'stream');
      const response = await sent(request);
      const status = response.statusCode ?? 0;
      if (status === 200) return stream.opened(response, faultOf);
      const refusal = understood(status, await read(response, MAX_ANSWER));
      stream.fail(refusal.ok ? faultOf(new Error(`HTTP status ${status}`)) : refusal.fault);
    } catch (error) {
      stream.fail(faultOf(error));
    }
  }

  #request(
    { server, serverName, basePath, headers, ...secrets }: KubeCredentials,
    signal: AbortSignal,
    call: { method: string; path: string; headers?: object },
    purpose: 'call' | 'stream',
  ): ClientRequest {
    const { at = server } = this.#options;
    if (at === undefined) throw new Error('It is not known where the API server is');
    return request({
      host: at.host,
      port: at.port,
      ...secrets,
      method: call.method,
      path: `${basePath}${call.path}`,
      headers: {
        ...headers,
        ...call.headers,
        Host: server === undefined ? bracketed(serverName) : authorityOf(server),
        Accept: 'application/json',
        'User-Agent': MANAGER,
      },
      agent: this.#agentFor(serverName, purpose),
      signal,
      // RFC 6066 3: no address is sent as a name.
      servername: isIP(serverName) === 0 ? serverName : '',
    });
  }

  /** Node shares no connection between requests that bring a check of their own, so it is the agent that has it. */
  #agentFor(serverName: string, purpose: 'call' | 'stream'): Agent {
    const key = `${purpose} ${serverName}`;
    const existing = this.#agents.get(key);
    if (existing !== undefined) return existing;
    const agent = new Agent({
      checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
      // A stream has a connection of its own for minutes; among the others it would keep calls waiting.
      ...(purpose === 'call' && { keepAlive: true, timeout: IDLE_MS, maxSockets: MAX_CONNECTIONS }),
    });
    this.#agents.set(key, agent);
    return agent;
  }
}

class TooLarge extends Error {}

/** Settles with the head of the answer. */
function sent(request: ClientRequest, content?: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on('error', reject);
    request.on('response', resolve);
    request.end(content);
  });
}

function read(response: IncomingMessage, maxBytes: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    response.setEncoding('utf8');
    response.on('error', reject);
    response.on('data', (text: string) => {
      answer += text;
      if (answer.length > maxBytes)
        response.destroy(new TooLarge(`The answer has more than ${maxBytes} bytes`));
    });
    response.on('end', () => resolve(answer));
  });
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
  // A path that is not served is answered in plain text.
  return failed(
    status,
    reason || (status === 404 ? 'NotFound' : 'BadAnswer'),
    message || `HTTP status ${status}`,
  );
}

function connectionFault(error: unknown, timeoutMs: number, late?: AbortSignal): KubeFault {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  const reason = late?.aborted ? 'Timeout' : UNTRUSTED.test(code) ? 'Untrusted' : 'Unreachable';
  return { status: 0, reason, message: messageOf(error, timeoutMs, late) };
}

function messageOf(error: unknown, timeoutMs: number, late?: AbortSignal): string {
  if (late?.aborted) return `No answer within ${timeoutMs} ms`;
  const { message, errors } = error as AggregateError;
  const alert = ALERT.exec(message)?.[0];
  if (alert !== undefined) return `The connection was refused on its way: ${alert}`;
  // Node's errors of several attempts have no words of their own.
  return message || errors?.map((each: Error) => each.message).join(', ') || 'The connection failed';
}

function authorityOf({ host, port }: { host: string; port: number }): string {
  return port === 443 ? bracketed(host) : `${bracketed(host)}:${port}`;
}

function bracketed(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
