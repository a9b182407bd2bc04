// Takes the records of ended connections out of the workers' rings, a burst at a time, and tells how many were lost
// because they were not taken in time.

import type { ConnectionRecord } from '../shared/record-ring.ts';
import type { WorkerThread } from './worker-thread.ts';

/** How long records may wait for more to come, so that a burst is written in one go. */
const RECORDS_MS = 20;

export class RecordTaker {
  readonly #workers: readonly WorkerThread[];
  readonly #onRecord: (record: ConnectionRecord) => void;
  readonly #onDropped: (count: number) => void;
  #soon: NodeJS.Timeout | undefined;

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
    if (count > 0) this.#onDropped(count);
  }

  /** Takes what there is, without waiting for more. */
  finish(): void {
    clearTimeout(this.#soon);
    this.take();
  }
}
