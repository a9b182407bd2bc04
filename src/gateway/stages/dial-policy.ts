// When a dial is retried, and how long all of it may take; the same for connections, HTTP requests and an agent's TLS
// uplinks: each backend once without a pause, then the whole list again after 250 ms, 500 ms and 1 s. A backend that
// restarts is reached soon after it is back, and one that refuses does not delay the client's refusal for long. Pure.

/** All attempts together get this many times `timeouts.connect`. */
const ALL_ATTEMPTS = 3;
const FIRST_MS = 250;
const LONGEST_MS = 1000;

export interface DialTerms {
  /** When the first attempt began. */
  readonly startedAt: number;
  /** For one attempt. */
  readonly connectMs: number;
  /** Attempts after the first one. */
  readonly retries: number;
}

/** From then on no attempt begins, and none goes on. */
export function lastMoment(startedAt: number, connectMs: number): number {
  return startedAt + ALL_ATTEMPTS * connectMs;
}

/** When an attempt that begins now has taken too long. */
export function attemptEnd(startedAt: number, connectMs: number, now: number): number {
  return Math.min(now + connectMs, lastMoment(startedAt, connectMs));
}

/**
 * The pause before attempt number `attempt`, counted from 0; undefined if there is none. The attempt goes to backend
 * `attempt % backends` of the list.
 */
export function pauseBefore(
  attempt: number,
  backends: number,
  { startedAt, connectMs, retries }: DialTerms,
  now: number,
): number | undefined {
  const left = lastMoment(startedAt, connectMs) - now;
  if (attempt > retries || left <= 0) return undefined;
  if (attempt === 0 || attempt % backends !== 0) return 0;
  const round = attempt / backends;
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** (round - 1), left);
}
