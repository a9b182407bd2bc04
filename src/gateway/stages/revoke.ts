// After a table change: connections whose cluster or route is gone, or whose client is no longer allowed, end.
// All others go on as they are, whatever else changed. And one by one, when a person says so.

import { CLIENT } from '../shared/rows.ts';
import { FIRST_SLOT } from '../shared/shared-memory.ts';
import { isClient } from './account.ts';
import { isAllowed } from './admit.ts';
import type { DataPath } from './data-path.ts';
import { endWithReset } from './end.ts';

/** `changed` holds the slots of clusters that were put anew. */
export function revoke(path: DataPath, anyRemoved: boolean, changed: ReadonlySet<number>): void {
  const { rows, table } = path;
  if (!anyRemoved && changed.size === 0) return;
  for (let handle = 0; handle < rows.used; handle++) {
    // The HTTP part looks after its requests by itself, and what comes through a tunnel is a connection of its own.
    if (rows.slot[handle] < FIRST_SLOT || !isClient(rows, handle)) continue;
    const route = table.route(rows.slot[handle]);
    if (route === undefined) {
      endWithReset(path, handle, 'revoked');
    } else if (
      changed.has(rows.cluster[handle]) &&
      !isAllowed(route, rows.addresses, rows.addressAt(handle, CLIENT))
    ) {
      endWithReset(path, handle, 'revoked');
    }
  }
}

/** Ends that connection. False when the row is no longer its own. */
export function revokeOne(path: DataPath, handle: number, generation: number): boolean {
  if (path.rows.generation[handle] !== generation || !isClient(path.rows, handle)) return false;
  endWithReset(path, handle, 'revoked');
  return true;
}
