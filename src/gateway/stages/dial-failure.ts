// Why an attempt to reach a backend failed: a closed set. A row and its record keep the index of the last attempt's, and
// a connection that ends with it has the word as `error` in its log line, in its event and on the dashboard. The same for
// connections, HTTP requests and an agent's TLS uplinks.

import type { CloseReason } from '../close-reason.ts';
import { DENIED, EXHAUSTED, NOT_AVAILABLE, REFUSED, RESET, TIMED_OUT, UNREACHABLE } from '../io/reactor.ts';

/** Those that people are told, and after them what has no word of its own: rows keep the index. */
const reportedFailures = ['refused', 'unreachable', 'timeout', 'name-not-found', 'reset'] as const;
export const dialFailures = [
  '',
  ...reportedFailures,
  /** Our own descriptors or kernel memory have run out. */
  'exhausted',
  'other',
] as const;

export type DialFailure = Exclude<(typeof dialFailures)[number], ''>;
type ReportedFailure = (typeof reportedFailures)[number];

export const dialFailureIndex = Object.fromEntries(
  dialFailures.map((failure, index) => [failure, index]),
) as Record<DialFailure, number>;

const ofWords = new Map<number, DialFailure>([
  [REFUSED, 'refused'],
  [UNREACHABLE, 'unreachable'],
  // As a machine without IPv6 words it, and a firewall on this machine.
  [NOT_AVAILABLE, 'unreachable'],
  [DENIED, 'unreachable'],
  [TIMED_OUT, 'timeout'],
  [RESET, 'reset'],
  [EXHAUSTED, 'exhausted'],
]);

/** Of one of the reactor's error words. */
export function failureOf(refusal: number): DialFailure {
  return ofWords.get(refusal) ?? 'other';
}

/** What a client is refused with whose last attempt failed so. A shortage of our own is no fault of the backend's. */
export function reasonOfFailure(failure: DialFailure): CloseReason {
  if (failure === 'exhausted') return 'over-limit';
  return failure === 'timeout' ? 'connect-timeout' : 'connect-failed';
}

/** The `error` of a connection that ended for that reason; null where it was not a dial that failed. */
export function errorOf(reason: CloseReason, detail: number): ReportedFailure | null {
  if (!isDialReason(reason)) return null;
  const failure = dialFailures[detail];
  return reportedFailures.find(reported => reported === failure) ?? null;
}

export function isDialReason(reason: CloseReason): boolean {
  return reason === 'connect-failed' || reason === 'connect-timeout';
}
