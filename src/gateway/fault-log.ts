// Sends faults from a thread to the log, each as one line with its stack. Repeated faults are rate-limited, and the
// next line states how many were suppressed. Every fault is still counted, under its connection's reason `fault`.

import { LineBudget } from './line-budget.ts';

/** Plain data, so that it can be posted to another thread. */
export interface FaultReport {
  readonly thread: string;
  /**
   * The connection or check concerned, under the log's keys: `client` as `host:port`, or `backend`; empty if unknown.
   */
  readonly about: Readonly<Record<string, string>>;
  readonly error: { readonly name: string; readonly message: string; readonly stack: string };
  /** Faults of this thread that were suppressed since its last report. */
  readonly suppressed: number;
}

export class FaultLog {
  readonly #thread: string;
  readonly #send: (report: FaultReport) => void;
  readonly #budget: LineBudget;

  constructor(thread: string, send: (report: FaultReport) => void, now?: () => number) {
    this.#thread = thread;
    this.#send = send;
    this.#budget = new LineBudget(now);
  }

  /** Never throws: nothing above would catch it. */
  write(error: unknown, about: FaultReport['about'] = {}): void {
    const suppressed = this.#budget.take();
    if (suppressed === undefined) return;
    try {
      this.#send({ thread: this.#thread, about, error: describe(error), suppressed });
    } catch {
      this.#budget.giveBack(suppressed);
    }
  }
}

/** Rebuilds an Error for the logger. */
export function errorOf({ error: { name, message, stack } }: FaultReport): Error {
  return Object.assign(new Error(message), { name, stack });
}

function describe(error: unknown): FaultReport['error'] {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), stack: String(error) };
  const { name, message, stack = `${name}: ${message}` } = error;
  return { name, message, stack };
}
