// Faults on their way from a thread to the log: each is a line with its stack. One that comes again and again is told at a
// bounded rate, with how many were not; every one of them is counted, by the reason `fault` of its connection.

/** As plain data, for another thread. */
export interface FaultReport {
  /** The thread's name. */
  readonly thread: string;
  /** What was being served, as the log names it: `client` as `host:port`, or a `backend`; nothing where that is not known. */
  readonly about: Readonly<Record<string, string>>;
  readonly error: { readonly name: string; readonly message: string; readonly stack: string };
  /** Faults of that thread since its last report that were not reported. */
  readonly suppressed: number;
}

/** Lines at once, and then one in each of these intervals: 10 a second. */
const BURST = 50;
const REFILL_MS = 100;

export class FaultLog {
  readonly #thread: string;
  readonly #send: (report: FaultReport) => void;
  readonly #now: () => number;
  #left = BURST;
  #at: number;
  #suppressed = 0;

  constructor(
    thread: string,
    send: (report: FaultReport) => void,
    now: () => number = () => performance.now(),
  ) {
    this.#thread = thread;
    this.#send = send;
    this.#now = now;
    this.#at = now();
  }

  /** Never throws: there is nobody left to catch it. */
  write(error: unknown, about: FaultReport['about'] = {}): void {
    const now = this.#now();
    this.#left = Math.min(BURST, this.#left + (now - this.#at) / REFILL_MS);
    this.#at = now;
    if (this.#left < 1) {
      this.#suppressed++;
      return;
    }
    this.#left--;
    try {
      this.#send({ thread: this.#thread, about, error: describe(error), suppressed: this.#suppressed });
      this.#suppressed = 0;
    } catch {
      this.#suppressed++;
    }
  }
}

/** As a logger wants it. */
export function errorOf({ error: { name, message, stack } }: FaultReport): Error {
  return Object.assign(new Error(message), { name, stack });
}

function describe(error: unknown): FaultReport['error'] {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), stack: String(error) };
  const { name, message, stack = `${name}: ${message}` } = error;
  return { name, message, stack };
}
