// The clock of slow loops: leases, list-watch, endpoints. Tests inject their own.

import { setTimeout } from 'node:timers/promises';

export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Wall-clock time, for people and other programs. */
  date(): Date;
  /** Resolves after `ms`, or as soon as the signal is aborted. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  wait: (ms, signal) => setTimeout(ms, undefined, { signal }).catch(() => {}),
};
