// After a table change: connections whose cluster or route is gone, or whose client is no longer allowed, end.
// All others go on as they are, whatever else changed. And one by one, when a person says so.

import { CLIENT } from '../shared/rows.ts';
import { FIRST_SLOT } from '../shared/shared-memory.ts';
import { isAllowed } from './admit.ts';
import type { DataPath } from './data-path.ts';
import { endWithReset } from './end.ts';
import { isClient } from './record-end.ts';

/** `changed` holds the slots of clusters that were put anew. */
export function revoke(path: DataPath, anyRemoved: boolean, changed: ReadonlySet<number>): void {
  const { rows, table } = path;
  if (!anyRemoved && changed.size === 0) return;
  for (let handle = 0; handle < rows.used; handle++) {
    // The HTTP part looks after its requests by itself, and what comes through a tunnel is a connection of its own.
    if (rows.slot[handle] < FIRST_SLOT || !isClient(rows, handle)) continue;
    try {
      const route = table.route(rows.slot[handle]);
      const isGone =
        route === undefined ||
        (changed.has(rows.cluster[handle]) &&
          !isAllowed(route, rows.addresses, rows.addressAt(handle, CLIENT)));
      if (isGone) endWithReset(path, handle, 'revoked');
    } catch (error) {
      path.contain(error, handle, -1);
    }
  }
}

/** Ends that connection. False when the row is no longer its own. */
export function revokeOne(path: DataPath, handle: number, generation: number): boolean {
  if (path.rows.generation[handle] !== generation || !isClient(path.rows, handle)) return false;
  try {
    endWithReset(path, handle, 'revoked');
  } catch (error) {
    path.contain(error, handle, -1);
  }
  return true;
}
