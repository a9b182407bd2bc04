// The health state of a backend in shared memory. Workers read whether it is down on the path of a connection.

import {
  BACKEND_CHECKS_FAILED,
  BACKEND_CHECKS_OK,
  BACKEND_DOWN,
  type SharedSlots,
  TOTAL_DOWN,
} from '../shared/shared-memory.ts';

/** Any thread may call it: the total stays correct. */
export function setDown(backends: SharedSlots, totals: Int32Array, slot: number, down: boolean): void {
  const before = backends.exchange(slot, BACKEND_DOWN, Number(down));
  if (before !== Number(down)) Atomics.add(totals, TOTAL_DOWN, down ? 1 : -1);
}

/** Until its first check, the state of a backend is unknown. */
export function wasChecked(backends: SharedSlots, slot: number): boolean {
  return backends.get(slot, BACKEND_CHECKS_OK) !== 0 || backends.get(slot, BACKEND_CHECKS_FAILED) !== 0;
}

/** For a backend that is no longer checked, or a slot that another backend gets. */
export function forgetHealth(backends: SharedSlots, totals: Int32Array, slot: number): void {
  setDown(backends, totals, slot, false);
  backends.set(slot, BACKEND_CHECKS_OK, 0);
  backends.set(slot, BACKEND_CHECKS_FAILED, 0);
}
