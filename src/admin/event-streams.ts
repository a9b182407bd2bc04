// GET /api/v1/events: server-sent events to those who listen. Nobody is waited for: a client that does not read is
// dropped as soon as too much waits for it, and there are only so many.
// https://html.spec.whatwg.org/multipage/server-sent-events.html

import type { ServerResponse } from 'node:http';
import { printableJson } from '../text/printable.ts';

export type EventName = 'refusal' | 'health' | 'table';

/** Each may hold MAX_WAITING bytes: 8 MiB in all. */
export const MAX_STREAMS = 32;
/** What may wait for one client: some 600 refusals, three seconds of as many as are told. */
const MAX_WAITING = 256 * 1024;
/** Proxies and browsers take a silent connection for a dead one, many after 30 s. */
const KEEPALIVE_MS = 15_000;
/** How long a browser waits before it connects again. */
const RETRY_MS = 2000;

const headers = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store',
  // The stream ends with the connection, so that nothing is left to wait for when the process ends.
  Connection: 'close',
  // nginx would hold events back until a buffer is full.
  'X-Accel-Buffering': 'no',
};

export class EventStreams implements Disposable {
  readonly #clients = new Set<ServerResponse>();
  readonly #onWatched: (watched: boolean) => void;
  readonly #onFault: (error: unknown) => void;
  #keepalive: NodeJS.Timeout | undefined;

  /**
   * `onWatched` is told when the first client comes and the last one goes, `onFault` of exceptions of our own: they end the
   * stream that they are about, or leave out an event.
   */
  constructor(
    onWatched: (watched: boolean) => void = () => {},
    onFault: (error: unknown) => void = () => {},
  ) {
    this.#onWatched = onWatched;
    this.#onFault = onFault;
  }

  get size(): number {
    return this.#clients.size;
  }

  /** Answers the request with the stream. False, and nothing done, when there are too many. */
  open(response: ServerResponse, more: Readonly<Record<string, string>> = {}): boolean {
    if (this.#clients.size >= MAX_STREAMS) return false;
    response.once('close', () => this.#gone(response));
    // A client that is gone while it is written to is `close` as well.
    response.on('error', () => {});
    response.writeHead(200, { ...more, ...headers });
    response.write(`retry: ${RETRY_MS}\n\n`);
    this.#clients.add(response);
    if (this.#clients.size === 1) this.#begin();
    return true;
  }

  /** Never throws: what happened has happened, whether it can be told or not. */
  send(name: EventName, data: object): void {
    if (this.#clients.size === 0) return;
    try {
      this.#write(`event: ${name}\ndata: ${printableJson(JSON.stringify(data))}\n\n`);
    } catch (error) {
      this.#onFault(error);
    }
  }

  /** Ends every stream. */
  [Symbol.dispose](): void {
    for (const client of this.#clients) client.end();
  }

  #begin(): void {
    this.#keepalive = setInterval(() => this.#write(':\n\n'), KEEPALIVE_MS).unref();
    this.#onWatched(true);
  }

  #write(text: string): void {
    for (const client of this.#clients) {
      try {
        client.write(text);
        if (client.writableLength > MAX_WAITING) client.destroy();
      } catch (error) {
        this.#onFault(error);
        client.destroy();
      }
    }
  }

  #gone(client: ServerResponse): void {
    if (!this.#clients.delete(client) || this.#clients.size > 0) return;
    clearInterval(this.#keepalive);
    this.#onWatched(false);
  }
}
