// Takes the records of ended connections out of the workers' rings, a burst at a time, and says once a second how many
// were lost because nobody took them in time.

import type { ConnectionRecord } from '../shared/record-ring.ts';
import type { WorkerThread } from './worker-thread.ts';

/** How long records may wait for more to come, so that a burst is written in one go. */
const RECORDS_MS = 20;
/** How often it is said how many records were dropped. */
const DROPPED_MS = 1000;

export class RecordTaker {
  readonly #workers: readonly WorkerThread[];
  readonly #onRecord: (record: ConnectionRecord) => void;
  readonly #onDropped: (count: number) => void;
  #soon: NodeJS.Timeout | undefined;
  #dropped = 0;
  #tellDropped: NodeJS.Timeout | undefined;

  constructor(
    workers: readonly WorkerThread[],
    onRecord: (record: ConnectionRecord) => void,
    onDropped: (count: number) => void,
  ) {
    this.#workers = workers;
    this.#onRecord = onRecord;
    this.#onDropped = onDropped;
  }

  /** There are some. */
  takeSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.take();
    }, RECORDS_MS);
  }

  take(): void {
    for (const { records } of this.#workers) this.countDropped(records.take(this.#onRecord));
  }

  /** Also those of requests, which are lost elsewhere. */
  countDropped(count: number): void {
    this.#dropped += count;
    if (this.#dropped > 0) this.#tellDropped ??= setTimeout(() => this.#sayDropped(), DROPPED_MS);
  }

  /** Takes and says at once what there is. */
  finish(): void {
    clearTimeout(this.#soon);
    this.take();
    clearTimeout(this.#tellDropped);
    this.#sayDropped();
  }

  #sayDropped(): void {
    this.#tellDropped = undefined;
    if (this.#dropped > 0) this.#onDropped(this.#dropped);
    this.#dropped = 0;
  }
}
