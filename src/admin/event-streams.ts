// GET /api/v1/events: server-sent events. No client is waited for: one that does not read is dropped once too much waits
// for it, and the number of streams is limited.
// https://html.spec.whatwg.org/multipage/server-sent-events.html

import type { ServerResponse } from 'node:http';
import { printableJson } from '../text/printable.ts';

export type EventName = 'refusal' | 'health' | 'table';

/** Each may hold MAX_WAITING bytes: 8 MiB in all. */
export const MAX_STREAMS = 32;
/** Bytes that may wait for one client: some 600 refusals, or three seconds at the highest rate. */
const MAX_WAITING = 256 * 1024;
/** Proxies and browsers drop silent connections, many after 30 s. */
const KEEPALIVE_MS = 15_000;
/** How long a browser waits before it connects again. */
const RETRY_MS = 2000;

const headers = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store',
  // The connection ends with the stream, so that the process need not wait for it when it exits.
  Connection: 'close',
  // nginx would buffer events.
  'X-Accel-Buffering': 'no',
};

export class EventStreams implements Disposable {
  readonly #clients = new Set<ServerResponse>();
  readonly #onWatched: (watched: boolean) => void;
  readonly #onFault: (error: unknown) => void;
  #keepalive: NodeJS.Timeout | undefined;

  /**
   * `onWatched` is called when the first client connects and when the last one leaves, `onFault` with exceptions: each
   * ends one stream or drops one event.
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

  /** Answers the request with a stream. Returns false, without an answer, when there are too many. */
  open(response: ServerResponse, more: Readonly<Record<string, string>> = {}): boolean {
    // The client has left while its password was checked: `close` will not come again.
    if (response.destroyed) return true;
    if (this.#clients.size >= MAX_STREAMS) return false;
    response.once('close', () => this.#gone(response));
    // A client that leaves during a write also emits `close`.
    response.on('error', () => {});
    response.writeHead(200, { ...more, ...headers });
    response.write(`retry: ${RETRY_MS}\n\n`);
    this.#clients.add(response);
    if (this.#clients.size === 1) this.#begin();
    return true;
  }

  /** Never throws: an event that cannot be sent must not disturb its cause. */
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
