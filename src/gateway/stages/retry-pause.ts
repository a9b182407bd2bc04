// When a dial is retried; the same for connections, HTTP requests and an agent's TLS uplinks: each backend once without
// a pause, then the whole list again after 250 ms, 500 ms and 1 s. A backend that restarts is reached soon after it is
// back, and one that refuses does not delay the client's refusal for long. Pure.

/** All attempts together get this many times `timeouts.connect`. */
export const ALL_ATTEMPTS = 3;

const FIRST_MS = 250;
const LONGEST_MS = 1000;

/** The pause before attempt number `attempt`, counted from 0, with `backends` in the list. */
export function retryPause(attempt: number, backends: number): number {
  if (attempt === 0 || attempt % backends !== 0) return 0;
  const round = attempt / backends;
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** (round - 1));
}
