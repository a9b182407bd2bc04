// Time for slow loops: leases, list-watch, endpoints. Tests have one that they move themselves.

import { setTimeout } from 'node:timers/promises';

export interface Clock {
  /** Milliseconds that never jump. */
  now(): number;
  /** The time of day, for people and for other programs. */
  date(): Date;
  /** Settles after a while, or at once when the signal is aborted. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  wait: (ms, signal) => setTimeout(ms, undefined, { signal }).catch(() => {}),
};
