// The gateway's events while the page is visible. A stream that ends is opened again.

import type { HealthEvent, RefusalEvent, TableEvent } from './api.ts';
import { parsePrintable } from './parse-printable.ts';

interface Handlers {
  readonly live: (live: boolean) => void;
  readonly refusal: (event: RefusalEvent) => void;
  readonly health: (event: HealthEvent) => void;
  readonly table: (event: TableEvent) => void;
}

/** After an answer that is not a stream: an older gateway, or one that has too many streams. */
const RETRY_MS = 5000;

export class EventStream {
  readonly #handlers: Handlers;
  #source: EventSource | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  open(): void {
    if (this.#source !== undefined) return;
    clearTimeout(this.#retry);
    const source = new EventSource('api/v1/events');
    this.#source = source;
    source.addEventListener('open', () => this.#handlers.live(true));
    source.addEventListener('error', () => {
      this.#handlers.live(false);
      // The browser reconnects, but not after such an answer.
      if (source.readyState !== EventSource.CLOSED) return;
      this.close();
      this.#retry = setTimeout(() => this.open(), RETRY_MS);
    });
    listen(source, 'refusal', this.#handlers.refusal);
    listen(source, 'health', this.#handlers.health);
    listen(source, 'table', this.#handlers.table);
  }

  close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
    this.#handlers.live(false);
  }
}

function listen<T>(source: EventSource, name: string, handle: (event: T) => void): void {
  source.addEventListener(name, message => {
    let event: T;
    try {
      event = parsePrintable<T>((message as MessageEvent<string>).data);
    } catch {
      return; // malformed; the next poll shows the state anyway
    }
    handle(event);
  });
}
