// How long to wait before the next attempt after several in a row have failed.

const FIRST_MS = 1000;
const MAX_MS = 30_000;

/** `failures` from 1; `random` from 0 to 1. Jittered by half, so that clients of one server do not return together. */
export function backOffMs(failures: number, random: () => number): number {
  const full = Math.min(FIRST_MS * 2 ** (failures - 1), MAX_MS);
  return full * (0.5 + random() / 2);
}
