// Takes the records of ended connections out of the workers' rings, in batches, and reports how many were lost because
// a ring was full.

import type { ConnectionRecord, RequestRecord } from '../shared/record-ring.ts';
import type { WorkerThread } from './worker-thread.ts';

/** How long records may wait for others, so that a burst is written at once. */
const RECORDS_MS = 20;

export class RecordTaker {
  readonly #workers: readonly WorkerThread[];
  readonly #onRecord: (record: ConnectionRecord) => void;
  readonly #onRequest: (record: RequestRecord) => void;
  readonly #onDropped: (count: number) => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    workers: readonly WorkerThread[],
    onRecord: (record: ConnectionRecord) => void,
    onRequest: (record: RequestRecord) => void,
    onDropped: (count: number) => void,
  ) {
    this.#workers = workers;
    this.#onRecord = onRecord;
    this.#onRequest = onRequest;
    this.#onDropped = onDropped;
  }

  /** A worker has records. */
  takeSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.take();
    }, RECORDS_MS);
  }

  take(): void {
    for (const { records } of this.#workers) {
      const dropped = records.take(this.#onRecord, this.#onRequest);
      if (dropped > 0) this.#onDropped(dropped);
    }
  }

  /** Takes all records now, without waiting for more. */
  flush(): void {
    clearTimeout(this.#timer);
    this.take();
  }
}
