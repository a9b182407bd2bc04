// Whether a backend is down, in the memory that all threads share. Workers read it on the path of a connection.

import { BACKEND_DOWN, type SharedSlots, TOTAL_DOWN } from '../shared/shared-memory.ts';

/** Keeps the total right whoever calls it. */
export function setDown(backends: SharedSlots, totals: Int32Array, slot: number, down: boolean): void {
  const before = backends.exchange(slot, BACKEND_DOWN, Number(down));
  if (before !== Number(down)) Atomics.add(totals, TOTAL_DOWN, down ? 1 : -1);
}
