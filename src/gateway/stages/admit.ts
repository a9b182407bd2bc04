// admit: may this client use this route now? Allow lists match the true client; limits count across all workers. From
// here on the connection belongs to its route's slot. Returns the reason for a refusal, or undefined.

import type { CloseReason } from '../close-reason.ts';
import { ADMITTED, CLIENT, ROUTE_COUNTED, type Rows, SOURCE_COUNTED } from '../shared/rows.ts';
import { ACTIVE_AT, type BucketPages, BYTES_IN_AT, CLUSTER_ACTIVE } from '../shared/shared-memory.ts';
import type { TableRoute } from '../table/table.ts';
import type { DataPath } from './data-path.ts';
import { type Counts, releasePending } from './record-end.ts';

/** The counters behind the limits. */
export interface LimitCounters extends Counts {
  readonly buckets: BucketPages;
}

export function admit(path: DataPath, client: number, route: TableRoute): CloseReason | undefined {
  noLongerPending(path, client);
  path.shared.counters.add(route.slot, BYTES_IN_AT, path.rows.bytesIn[client]);
  return takeLimits(path.rows, path.shared, client, route, path.io.now());
}

/** The destination of the connection is known. */
export function noLongerPending(path: DataPath, client: number): void {
  const { rows, shared } = path;
  releasePending(rows, shared, client);
  shared.counters.observeSeconds(0, (path.io.now() - rows.startedAt[client]) / 1000);
}

/** For a connection or an HTTP request. `releaseLimits` undoes what this counts, also after a refusal. */
export function takeLimits(
  rows: Rows,
  limits: LimitCounters,
  client: number,
  route: TableRoute,
  now: number,
): CloseReason | undefined {
  const { cluster } = route;
  const at = rows.addressAt(client, CLIENT);
  rows.slot[client] = route.slot;
  rows.cluster[client] = cluster.slot;
  if (!isAllowed(route, rows.addresses, at)) return 'not-allowed';

  // Count first, compare afterwards, so that two workers cannot both take the last place.
  const active = limits.clusters.add(cluster.slot, CLUSTER_ACTIVE, 1) + 1;
  rows.counts[client] |= ADMITTED;
  limits.counters.add(route.slot, ACTIVE_AT, 1);
  rows.counts[client] |= ROUTE_COUNTED;
  const { connections, perSource, newPerSecond } = cluster.limits;
  if (connections !== undefined && active > connections) return 'over-limit';
  if (perSource !== undefined) {
    const count = limits.sources.add(cluster.slot, rows.addresses, at, rows, client, SOURCE_COUNTED);
    if (count > perSource) return 'over-limit';
  }
  if (newPerSecond !== undefined && !limits.buckets.take(cluster.slot, newPerSecond, now)) {
    return 'over-limit';
  }
  return undefined;
}

/** Both the cluster's and the route's allow list admit the address. */
export function isAllowed(route: TableRoute, addresses: Uint8Array, at: number): boolean {
  return (
    (route.cluster.allow === undefined || route.cluster.allow.admits(addresses, at)) &&
    (route.allow === undefined || route.allow.admits(addresses, at))
  );
}
