// Bounds how often something that others can provoke is logged: a burst, then a steady rate.

/** A burst of 50 lines, then one per 100 ms: 10 a second. */
const BURST = 50;
const REFILL_MS = 100;

export class LineBudget {
  readonly #now: () => number;
  #left = BURST;
  #at: number;
  /** Lines that were not written since the last one that was. */
  #suppressed = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#at = now();
  }

  /** Returns how many lines were suppressed before this one, or undefined if this one must be, too. */
  take(): number | undefined {
    const now = this.#now();
    this.#left = Math.min(BURST, this.#left + (now - this.#at) / REFILL_MS);
    this.#at = now;
    if (this.#left < 1) {
      this.#suppressed++;
      return undefined;
    }
    this.#left--;
    const suppressed = this.#suppressed;
    this.#suppressed = 0;
    return suppressed;
  }

  /** The line could not be written after all. */
  giveBack(suppressed: number): void {
    this.#suppressed += suppressed + 1;
  }
}
