// An HTTP client for the admin API of a running gateway. Every failure becomes one sentence that says what to do.

import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { ClusterAnswer } from '../admin/clusters.ts';
import type { StatusAnswer } from '../admin/status.ts';
import { isRecord } from '../config/is-record.ts';

/** Deadline for the complete response. */
const ANSWER_MS = 10_000;
/** A table of 100,000 clusters is some 60 MiB. */
const MAX_ANSWER = 256 * 1024 * 1024;

export interface AdminClientOptions {
  readonly url: URL;
  readonly user?: { readonly username: string; readonly password: string };
  /** Certificates to trust, in PEM form. */
  readonly ca?: string;
  /** Aborted: every request ends at once. */
  readonly signal?: AbortSignal | undefined;
}

export class AdminClientError extends Error {
  readonly code = 'ERR_ADMIN';
}

export class AdminClient {
  readonly #options: AdminClientOptions;

  constructor(options: AdminClientOptions) {
    this.#options = options;
  }

  async get(path: string): Promise<unknown> {
    const [status, body] = await this.#reach(path);
    const answer = parseJson(body);
    if (status !== 200) throw new AdminClientError(this.#refused(status, answer));
    if (typeof answer === 'object' && answer !== null) return answer;
    throw this.#foreign();
  }

  async status(): Promise<StatusAnswer> {
    const answer = (await this.get('/api/v1/status')) as Partial<StatusAnswer>;
    const { config, counts, health, traffic, listeners, sources, findings } = answer;
    const lists = [listeners, sources, findings, config?.restartNeeded];
    const isOurs =
      [counts, health, traffic?.reasons, traffic?.recent].every(isRecord) && lists.every(Array.isArray);
    if (!isOurs) throw this.#foreign();
    return answer as StatusAnswer;
  }

  async clusters(): Promise<ClusterAnswer[]> {
    const answer = await this.get('/api/v1/clusters');
    const isOurs =
      Array.isArray(answer) &&
      answer.every(each => isRecord(each) && Array.isArray(each.routes) && Array.isArray(each.findings));
    if (!isOurs) throw this.#foreign();
    return answer as ClusterAnswer[];
  }

  /** Why the gateway is not ready, or undefined when it is. */
  async notReady(): Promise<string | undefined> {
    const [status, body] = await this.#reach('/readyz');
    return status === 503 ? body.trim() : undefined;
  }

  /** Another program listens there, or a gateway of another version. */
  #foreign(): AdminClientError {
    return new AdminClientError(`${this.#where} answers, but is not a Causeway admin API`);
  }

  get #where(): string {
    return this.#options.url.origin;
  }

  async #reach(path: string): Promise<[status: number, body: string]> {
    try {
      return await this.#ask(path);
    } catch (error) {
      throw new AdminClientError(this.#unreachable(error as NodeJS.ErrnoException), { cause: error });
    }
  }

  async #ask(path: string): Promise<[status: number, body: string]> {
    const { url, user, ca, signal } = this.#options;
    const timeout = AbortSignal.timeout(ANSWER_MS);
    const options: RequestOptions & { ca?: string } = {
      agent: false,
      signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      ...(user !== undefined && { auth: `${user.username}:${user.password}` }),
      ...(ca !== undefined && { ca }),
    };
    const target = new URL(path, url);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    (url.protocol === 'https:' ? requestHttps : requestHttp)(target, options)
      .on('response', resolve)
      .on('error', reject)
      .end();
    const response = await promise;
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > MAX_ANSWER) throw new Error('the response is too large');
      chunks.push(chunk);
    }
    return [response.statusCode ?? 0, Buffer.concat(chunks).toString('utf8')];
  }

  #unreachable(error: NodeJS.ErrnoException): string {
    const { code = '', name, message } = error;
    if (code === 'ECONNREFUSED') {
      return `Nothing listens on ${this.#where}. Is causeway running, and is that its admin.on? Use --admin URL for another address`;
    }
    if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
      return `Cannot reach ${this.#where}: the name does not resolve`;
    if (name === 'AbortError' || name === 'TimeoutError' || code === 'ETIMEDOUT') {
      return `${this.#where} did not answer within ${ANSWER_MS / 1000} s`;
    }
    if (/^(UNABLE_TO|SELF_SIGNED|DEPTH_ZERO|CERT_|ERR_TLS_CERT)/.test(code)) {
      // Node's message continues with advice about its own flags.
      const why = message.split(';', 1)[0];
      return `The certificate of ${this.#where} is not trusted (${why}). Give its CA with --ca-file`;
    }
    if (code === 'EPROTO' || code.startsWith('ERR_SSL'))
      return `${this.#where} does not speak TLS: try --admin http://…`;
    if (code === 'ECONNRESET' && this.#options.url.protocol === 'http:') {
      return `${this.#where} closed the connection. If its admin API uses TLS, try --admin https://…`;
    }
    return `Cannot reach ${this.#where}: ${message}`;
  }

  #refused(status: number, answer: unknown): string {
    if (status === 401) {
      return this.#options.user === undefined
        ? `${this.#where} requires a login: give --username and --password-file`
        : `${this.#where} rejected that user name and password`;
    }
    const reported =
      typeof answer === 'object' && answer !== null && 'error' in answer
        ? String(answer.error)
        : 'is it a Causeway admin API?';
    return `${this.#where} answered ${status}: ${reported}`;
  }
}

/** Undefined when the text is not JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
