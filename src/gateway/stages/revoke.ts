// After a table change: ends connections whose cluster or route is gone or whose client is no longer allowed. All
// others continue untouched, whatever else changed. Also ends a single connection on an operator's request.

import { CLIENT } from '../shared/rows.ts';
import { FIRST_SLOT } from '../shared/shared-memory.ts';
import { isAllowed } from './admit.ts';
import type { DataPath } from './data-path.ts';
import { endWithReset } from './end.ts';
import { isClient } from './record-end.ts';

/** `changed` holds the slots of clusters that were put again. */
export function revoke(path: DataPath, anyRemoved: boolean, changed: ReadonlySet<number>): void {
  const { rows, table } = path;
  if (!anyRemoved && changed.size === 0) return;
  for (let handle = 0; handle < rows.used; handle++) {
    // A session has no route; each stream within it has a row of its own.
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

/** Ends that connection. False when the row now belongs to another. */
export function revokeOne(path: DataPath, handle: number, generation: number): boolean {
  if (path.rows.generation[handle] !== generation || !isClient(path.rows, handle)) return false;
  try {
    endWithReset(path, handle, 'revoked');
  } catch (error) {
    path.contain(error, handle, -1);
  }
  return true;
}
