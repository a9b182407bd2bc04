// Requests to the admin listener: unlike fetch() it sends the given Host and trusts the given certificates.
// Also a reader of event streams.

import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Causeway } from '../../testbed/start-causeway.ts';
import { until } from './given.ts';

export interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The body, if it is JSON. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests know its shape
  readonly json: any;
}

export interface AskOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Certificates to trust, in PEM form. */
  readonly ca?: string;
  /** Source address. */
  readonly from?: string;
}

export async function ask(
  { admin }: Pick<Causeway, 'admin'>,
  path: string,
  { method = 'GET', headers = {}, body, ca, from }: AskOptions = {},
): Promise<Answer> {
  const request = admin.startsWith('https:') ? requestHttps : requestHttp;
  const asked = request(new URL(path, admin), {
    method,
    headers,
    agent: false,
    ...(ca !== undefined && { ca }),
    ...(from !== undefined && { localAddress: from }),
  });
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  const isJson = response.headers['content-type']?.startsWith('application/json') === true;
  return {
    status: response.statusCode,
    headers: response.headers,
    body: text,
    json: isJson && text !== '' ? JSON.parse(text) : undefined,
  };
}

/** The header that a change needs, besides credentials. */
export const changing = { 'Content-Type': 'application/json' };

export function as(user: string, password: string): { readonly Authorization: string } {
  return { Authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
}

export interface ServerSentEvent {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** An open event stream that keeps its events. */
export class Events implements Disposable {
  readonly response: IncomingMessage;
  ended = false;
  #text = '';

  private constructor(response: IncomingMessage) {
    this.response = response;
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => {
      this.#text += chunk;
    });
    response.on('end', () => {
      this.ended = true;
    });
    response.on('error', () => {});
  }

  /** Resolves when the first bytes have arrived: later events will be received. */
  static async open({ admin }: Pick<Causeway, 'admin'>, headers: Readonly<Record<string, string>> = {}) {
    const asked = requestHttp(new URL('/api/v1/events', admin), { headers, agent: false });
    asked.on('error', () => {});
    asked.end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    const events = new Events(response);
    if (response.statusCode === 200)
      await until('the stream to begin', () => events.#text.startsWith('retry:'));
    return events;
  }

  all(): ServerSentEvent[] {
    return this.#text.split('\n\n').flatMap(block => {
      const match = /^event: (\w+)\ndata: (.*)$/.exec(block);
      return match === null
        ? []
        : [{ name: match[1], data: JSON.parse(match[2]) as ServerSentEvent['data'] }];
    });
  }

  /** The first matching event, past or future. */
  async event(name: string, fits: (data: ServerSentEvent['data']) => boolean = () => true) {
    const found = await until(`an event ${name}`, () =>
      this.all().find(event => event.name === name && fits(event.data)),
    );
    return found.data;
  }

  [Symbol.dispose](): void {
    this.response.destroy();
  }
}
