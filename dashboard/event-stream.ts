// The gateway's events, for as long as somebody looks. A stream that ends is opened again.

import type { HealthEvent, RefusalEvent, TableEvent } from './api.ts';
import { parsePrintable } from './parse-printable.ts';

interface Takers {
  readonly live: (live: boolean) => void;
  readonly refusal: (event: RefusalEvent) => void;
  readonly health: (event: HealthEvent) => void;
  readonly table: (event: TableEvent) => void;
}

/** After an answer that is no stream: an older gateway, or one that has too many of them. */
const RETRY_MS = 5000;

export class EventStream {
  readonly #takers: Takers;
  #source: EventSource | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(takers: Takers) {
    this.#takers = takers;
  }

  open(): void {
    if (this.#source !== undefined) return;
    clearTimeout(this.#retry);
    const source = new EventSource('api/v1/events');
    this.#source = source;
    source.addEventListener('open', () => this.#takers.live(true));
    source.addEventListener('error', () => {
      this.#takers.live(false);
      // The browser tries again by itself, but not after such an answer.
      if (source.readyState !== EventSource.CLOSED) return;
      this.close();
      this.#retry = setTimeout(() => this.open(), RETRY_MS);
    });
    listen(source, 'refusal', this.#takers.refusal);
    listen(source, 'health', this.#takers.health);
    listen(source, 'table', this.#takers.table);
  }

  close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
    this.#takers.live(false);
  }
}

function listen<T>(source: EventSource, name: string, take: (event: T) => void): void {
  source.addEventListener(name, message => {
    let event: T;
    try {
      event = parsePrintable<T>((message as MessageEvent<string>).data);
    } catch {
      return; // not ours: the next poll shows the state anyway
    }
    take(event);
  });
}
