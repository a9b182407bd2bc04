// Sends request lines from an HTTP thread to the log, in batches. At most one batch is in flight: when requests come
// faster than the control thread writes, lines are counted and dropped; nothing waits and nothing piles up.

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
  /** undefined if the request could not be parsed. */
  readonly method: string | undefined;
  readonly status: number;
  readonly ms: number;
}

/** A request that the worker refused without a hand-off. */
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

/** Lines held until the last batch is written. */
const MAX_HELD = 8192;
/** How long a line may wait for others. */
const BATCH_MS = 20;

export class RequestLog {
  readonly #send: (records: readonly RequestRecord[], dropped: number) => void;
  readonly #onHeld: (change: number) => void;
  #held: RequestRecord[] = [];
  #dropped = 0;
  #isInFlight = false;
  #timer: NodeJS.Timeout | undefined;

  /** `onHeld` gets each change in how many lines would be lost if the thread died. */
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
    this.#isInFlight = false;
    if (this.#held.length > 0) this.flush();
  }

  flush(): void {
    if (!this.#isInFlight) this.end();
  }

  /** Sends all held lines, even behind a batch in flight: there may be no later chance. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#held.length === 0) return;
    this.#isInFlight = true;
    this.#send(this.#held, this.#dropped);
    this.#onHeld(-this.#held.length - this.#dropped);
    this.#held = [];
    this.#dropped = 0;
  }
}
