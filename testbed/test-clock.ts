// A clock that stands still until a test moves it.

import { setImmediate } from 'node:timers/promises';
import type { AgentClock } from '../src/agent/agent-clock.ts';

export interface TestClock extends AgentClock {
  /** Moves the clock and runs everything that becomes due, in order. */
  advance(ms: number): Promise<void>;
}

export function testClock(): TestClock {
  let now = 0;
  let waiting: { at: number; wake: () => void }[] = [];
  return {
    now: () => now,
    date: () => new Date(Date.UTC(2026, 0, 1) + now),
    wait(ms, signal) {
      return new Promise(resolve => {
        if (signal.aborted) return resolve();
        const one = { at: now + ms, wake: resolve };
        waiting.push(one);
        signal.addEventListener('abort', () => {
          waiting = waiting.filter(other => other !== one);
          resolve();
        });
      });
    },
    async advance(ms) {
      const end = now + ms;
      await settle();
      for (;;) {
        const [next] = waiting.filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at);
        if (next === undefined) break;
        now = Math.max(now, next.at);
        waiting = waiting.filter(other => other !== next);
        next.wake();
        await settle();
      }
      now = end;
    },
  };
}

/** Calls in memory need no turn of the event loop, and what they trigger one or two. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await setImmediate();
}
