// How many log lines were not written. Said at most once a second, and kept until it could be said: while nobody reads
// the log, that line is not written either.

const SAY_EVERY_MS = 1000;

export class DroppedLines implements Disposable {
  readonly #say: (count: number) => boolean;
  #count = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `say` answers whether it could be said. */
  constructor(say: (count: number) => boolean) {
    this.#say = say;
  }

  add(count: number): void {
    this.#count += count;
    if (this.#count > 0) this.#timer ??= setTimeout(() => this.#due(), SAY_EVERY_MS).unref();
  }

  /** Says it now. False when that is to be tried again. */
  tell(): boolean {
    const count = this.#count;
    if (count > 0 && this.#say(count)) this.#count -= count;
    return this.#count === 0;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #due(): void {
    this.#timer = undefined;
    if (!this.tell()) this.add(0);
  }
}
