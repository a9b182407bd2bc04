// Passes bytes and FIN from one handle to another, or back to the same, inside the handlers of the reactor's events. It
// follows the port's rules exactly: it reads until AGAIN or a short read, and then touches the handle only after an
// event. An adapter that misses an event leaves it hanging.

import { AGAIN, FAILED, HUNG_UP, READABLE, type Reactor, WRITABLE } from '../reactor.ts';

/** Calls at a time before others get their turn. */
const BUDGET = 8;

export class Flow {
  readonly from: number;
  readonly to: number;
  readonly #io: Reactor;
  /** Bytes per read, used in turns. */
  readonly #spaces: readonly number[];
  readonly #buffer: Uint8Array;
  /** The bytes in the buffer that are not written yet. */
  #first = 0;
  #past = 0;
  #reads = 0;
  #canRead = true;
  #canWrite = true;
  #isEnding = false;
  #isOver = false;

  constructor(io: Reactor, from: number, to: number, spaces: readonly number[] = [48 * 1024]) {
    this.#io = io;
    this.from = from;
    this.to = to;
    this.#spaces = spaces;
    this.#buffer = new Uint8Array(Math.max(...spaces));
  }

  /** move() must follow. */
  event(handle: number, events: number): void {
    if (handle === this.from) {
      this.#canRead ||= (events & (READABLE | HUNG_UP | FAILED)) !== 0;
      this.#isEnding ||= (events & (HUNG_UP | FAILED)) !== 0;
    }
    if (handle === this.to) this.#canWrite ||= (events & (WRITABLE | FAILED)) !== 0;
  }

  /** True when it stopped to give others a turn. */
  move(): boolean {
    for (let calls = 0; calls < BUDGET; calls++) {
      const isReading = this.#first === this.#past;
      if (this.#isOver || !(isReading ? this.#canRead : this.#canWrite)) return false;
      if (isReading) this.#read();
      else this.#write();
    }
    return true;
  }

  #read(): void {
    const space = this.#spaces[this.#reads++ % this.#spaces.length];
    const count = this.#io.read(this.from, this.#buffer, 0, space);
    this.#canRead = count === space || (count !== AGAIN && this.#isEnding);
    this.#isOver = count <= 0 && count !== AGAIN;
    this.#first = 0;
    this.#past = Math.max(count, 0);
    if (count === 0) this.#io.shutdown(this.to);
  }

  #write(): void {
    const count = this.#io.write(this.to, this.#buffer, this.#first, this.#past);
    this.#isOver = count < 0 && count !== AGAIN;
    this.#first += Math.max(count, 0);
    this.#canWrite = this.#first === this.#past;
  }
}
