// A loop that works off what is due, waits, and is woken when there is more. One step at a time.

import type { Clock } from '../kube/clock.ts';

export interface PacedWork extends AsyncDisposable {
  /** There may be something to do now. Never lost, also during a step. */
  wake(): void;
}

/** `step` must not reject. It returns how many milliseconds to wait before the next, unless woken. */
export function openPacedWork(clock: Clock, step: () => Promise<number>): PacedWork {
  const end = new AbortController();
  let wake = new AbortController();
  const loop = async () => {
    while (!end.signal.aborted) {
      wake = new AbortController();
      const ms = await step();
      await clock.wait(ms, AbortSignal.any([end.signal, wake.signal]));
    }
  };
  const running = loop();
  return {
    wake: () => wake.abort(),
    async [Symbol.asyncDispose]() {
      end.abort();
      await running;
    },
  };
}
