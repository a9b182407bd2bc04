// Recent refusals, newest first. A repeated refusal (a client that retries) is counted on its line instead of pushing the
// others out.

import type { RefusalEvent } from './api.ts';

export interface Refusal {
  /** Identifies the line while it is shown. */
  readonly key: number;
  /** Time of the last one, in ms since 1970. */
  readonly at: number;
  readonly reason: string;
  /** Why no backend was reached; else empty. */
  readonly error: string;
  readonly host: string;
  /** Address without the port, which differs each time. */
  readonly client: string;
  readonly cluster: string;
  readonly times: number;
}

export interface Refusals {
  readonly list: readonly Refusal[];
  /** How many the gateway left out because there were too many at once. */
  readonly skipped: number;
  readonly nextKey: number;
}

const KEPT = 100;

export const noRefusals: Refusals = { list: [], skipped: 0, nextKey: 1 };

export function addRefusal(refusals: Refusals, event: RefusalEvent): Refusals {
  const refusal = {
    at: Date.parse(event.at),
    reason: event.reason,
    error: event.error ?? '',
    host: event.host ?? event.clusterId ?? '',
    client: withoutPort(event.client ?? ''),
    cluster: event.cluster ?? '',
  };
  const same = refusals.list.findIndex(
    other =>
      other.reason === refusal.reason &&
      other.error === refusal.error &&
      other.host === refusal.host &&
      other.client === refusal.client &&
      other.cluster === refusal.cluster,
  );
  const before = refusals.list[same];
  const newest = { ...refusal, key: before?.key ?? refusals.nextKey, times: (before?.times ?? 0) + 1 };
  return {
    list: [newest, ...refusals.list.filter((_, index) => index !== same)].slice(0, KEPT),
    skipped: refusals.skipped + (event.skipped ?? 0),
    nextKey: refusals.nextKey + (before === undefined ? 1 : 0),
  };
}

/** `192.0.2.1:443` → `192.0.2.1`; `[2001:db8::1]:443` → `2001:db8::1`. */
export function withoutPort(address: string): string {
  return address.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
