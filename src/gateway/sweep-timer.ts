// Looks over the connections of an HTTP or TLS thread from time to time, but only while there are any: a thread with
// nothing to do sleeps.

export class SweepTimer implements Disposable {
  readonly #everyMs: number;
  readonly #sweep: () => boolean;
  readonly #onChange: (isRunning: boolean) => void;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  /** `sweep` says whether anything is left to look over; `onChange` is told when sweeping begins and when it ends. */
  constructor(everyMs: number, sweep: () => boolean, onChange: (isRunning: boolean) => void = () => {}) {
    this.#everyMs = everyMs;
    this.#sweep = sweep;
    this.#onChange = onChange;
  }

  /** There is something to look over. Costs nothing while it runs. */
  start(): void {
    if (this.#timer !== undefined || this.#isOver) return;
    this.#timer = setInterval(() => {
      if (!this.#sweep()) this.#stop();
    }, this.#everyMs);
    this.#onChange(true);
  }

  /** It does not start again. */
  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#stop();
  }

  #stop(): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#onChange(false);
  }
}
