// Counts the log lines that were not written. Reports the count at most once a second and keeps it until a report was
// written: while nobody reads the log, the report is dropped too.

const REPORT_EVERY_MS = 1000;

export class DroppedLines implements Disposable {
  readonly #write: (count: number) => boolean;
  #count = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `write` returns whether the report was written. */
  constructor(write: (count: number) => boolean) {
    this.#write = write;
  }

  add(count: number): void {
    this.#count += count;
    if (this.#count > 0) this.#timer ??= setTimeout(() => this.#due(), REPORT_EVERY_MS).unref();
  }

  /** Reports now. False when some of the count is still unreported. */
  report(): boolean {
    const count = this.#count;
    if (count > 0 && this.#write(count)) this.#count -= count;
    return this.#count === 0;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #due(): void {
    this.#timer = undefined;
    if (!this.report()) this.add(0);
  }
}
