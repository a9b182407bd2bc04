// Many changes, one pass: a burst of events leads to one run of the whole pipeline, soon after the burst and never later
// than a bound. Runs never overlap; what changes during a run leads to another. The first change of a burst can be
// noticed at once.

interface HoldOffTimes {
  /** A run starts once nothing has changed for this long. */
  readonly quietMs: number;
  /** A run starts at most this long after the first change, however many follow. */
  readonly maxMs: number;
}

export interface HoldOffOptions extends Partial<HoldOffTimes> {
  /** Called soon after the first change of a burst. A run follows in any case. */
  readonly first?: () => void;
}

export class HoldOff implements AsyncDisposable {
  readonly #run: () => Promise<void>;
  readonly #times: HoldOffTimes;
  readonly #first: HoldOffOptions['first'];
  #timer: NodeJS.Timeout | undefined;
  /** Of the first change that no run has seen. */
  #since: number | undefined;
  #running: Promise<void> | undefined;
  /** When the last run ended. */
  #endedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  /** `run` must not reject. */
  constructor(run: () => Promise<void>, { quietMs = 100, maxMs = 1000, first }: HoldOffOptions = {}) {
    this.#run = run;
    this.#times = { quietMs, maxMs };
    this.#first = first;
  }

  changed(): void {
    if (this.#isClosed) return;
    const now = performance.now();
    const isFirst = this.#since === undefined && now - this.#endedAt >= this.#times.quietMs;
    this.#since ??= now;
    if (this.#running !== undefined) return;
    // After what else has come in the same turn.
    if (isFirst) setImmediate(() => this.#isClosed || this.#first?.());
    const wait = Math.min(this.#times.quietMs, this.#since + this.#times.maxMs - now);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), Math.max(0, wait));
  }

  /** No further run starts; resolves when the current one has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #start(): void {
    this.#since = undefined;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      this.#endedAt = performance.now();
      if (this.#since !== undefined) this.changed();
    });
  }
}
