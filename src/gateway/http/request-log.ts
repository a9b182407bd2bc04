// Request lines on their way from an HTTP thread to the log, in batches. At most one batch is under way: when the
// control thread is slower than requests come, lines are counted and dropped; nothing waits and nothing piles up.

import { closeReasons } from '../close-reason.ts';
import type { ConnectionRecord } from '../shared/record-ring.ts';
import { refusalStatus } from '../stages/refusal.ts';

export interface RequestRecord {
  /** The true client. */
  readonly address: Uint8Array;
  readonly port: number;
  readonly host: string | undefined;
  /** Route slot, 0 for none. */
  readonly slot: number;
  readonly backend: string | undefined;
  /** undefined of what could not be read. */
  readonly method: string | undefined;
  readonly status: number;
  readonly ms: number;
}

/** What the front refused without handing it over. */
export function refusedRequest({ client, host, reason, ms }: ConnectionRecord): RequestRecord {
  return {
    ...client,
    host: host === '' ? undefined : host,
    slot: 0,
    backend: undefined,
    method: undefined,
    status: refusalStatus(closeReasons[reason]),
    ms,
  };
}

/** Held until the last batch was taken. */
const MAX_HELD = 8192;
/** How long a line may wait for others. */
const BATCH_MS = 20;

export class RequestLog {
  readonly #send: (records: readonly RequestRecord[], dropped: number) => void;
  readonly #onHeld: (change: number) => void;
  #held: RequestRecord[] = [];
  #dropped = 0;
  #isUnderWay = false;
  #timer: NodeJS.Timeout | undefined;

  /** `onHeld` is told how many lines more or fewer are lost if the thread dies now. */
  constructor(
    send: (records: readonly RequestRecord[], dropped: number) => void,
    onHeld: (change: number) => void = () => {},
  ) {
    this.#send = send;
    this.#onHeld = onHeld;
  }

  write(record: RequestRecord): void {
    if (this.#held.length === MAX_HELD) this.#dropped++;
    else this.#held.push(record);
    this.#onHeld(1);
    this.#timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  /** The control thread has written the last batch. */
  taken(): void {
    this.#isUnderWay = false;
    if (this.#held.length > 0) this.flush();
  }

  flush(): void {
    if (!this.#isUnderWay) this.end();
  }

  /** Sends what is held, also behind a batch that is under way: there will be no other moment. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#held.length === 0) return;
    this.#isUnderWay = true;
    this.#send(this.#held, this.#dropped);
    this.#onHeld(-this.#held.length - this.#dropped);
    this.#held = [];
    this.#dropped = 0;
  }
}
