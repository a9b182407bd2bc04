// Why an attempt to reach a backend failed: a closed set, for connections, HTTP requests and an agent's TLS uplinks. A
// row and its record store the index for the last attempt; a connection that ends because of it shows the name as
// `error` in its log line, its event and on the dashboard.

import type { CloseReason } from '../close-reason.ts';
import { DENIED, EXHAUSTED, NOT_AVAILABLE, REFUSED, RESET, TIMED_OUT, UNREACHABLE } from '../io/reactor.ts';

/** The failures that are reported by name, then those without a name of their own. Rows store the index. */
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

const failureByError = new Map<number, DialFailure>([
  [REFUSED, 'refused'],
  [UNREACHABLE, 'unreachable'],
  // Reported by a machine without IPv6, and by a local firewall.
  [NOT_AVAILABLE, 'unreachable'],
  [DENIED, 'unreachable'],
  [TIMED_OUT, 'timeout'],
  [RESET, 'reset'],
  [EXHAUSTED, 'exhausted'],
]);

/** The failure behind one of the reactor's error codes. */
export function failureOf(error: number): DialFailure {
  return failureByError.get(error) ?? 'other';
}

/** The reason for refusing a client after that last failure. A shortage of our own is not the backend's fault. */
export function reasonOfFailure(failure: DialFailure): CloseReason {
  if (failure === 'exhausted') return 'over-limit';
  return failure === 'timeout' ? 'connect-timeout' : 'connect-failed';
}

/** The `error` of a connection that ended for that reason; null if it was not a failed dial. */
export function errorOf(reason: CloseReason, detail: number): ReportedFailure | null {
  if (!isDialReason(reason)) return null;
  const failure = dialFailures[detail];
  return reportedFailures.find(reported => reported === failure) ?? null;
}

export function isDialReason(reason: CloseReason): boolean {
  return reason === 'connect-failed' || reason === 'connect-timeout';
}
