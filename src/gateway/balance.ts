// Which backend of a route's pool a connection goes to. `source` and `host` hash, so that every replica answers
// alike and a removed backend moves only its own clients; the others look at counts that all workers share.

import { hashBytes, hashText, pickBest, rankAll } from './rendezvous.ts';
import { CLIENT, type Rows } from './rows.ts';
import { BACKEND_ACTIVE, BACKEND_TURN, type SharedSlots } from './shared-memory.ts';
import type { TableRoute } from './table.ts';

/** Whose rows hold the client, and which counts all threads share: a worker's, or an HTTP thread's. */
export interface Choosing {
  readonly rows: Rows;
  readonly shared: { readonly backends: SharedSlots };
}

/** The backend to try first: its index in the route's pool, which is not empty. */
export function firstBackend(path: Choosing, client: number, route: TableRoute): number {
  const count = route.backends.length;
  if (count === 1) return 0;
  switch (route.balance) {
    case 'source':
    case 'host':
      return pickBest(hashKey(path, client, route), route.hashes);
    case 'round-robin':
      return (path.shared.backends.add(route.backends[0].slot, BACKEND_TURN, 1) >>> 0) % count;
    case 'least-connections':
      return leastOf(path, route);
    case 'random':
      return lesserOfTwo(path, route);
    default:
      return 0;
  }
}

/** All backends in the order to try them, beginning with the one tried first. */
export function orderBackends(path: Choosing, client: number, route: TableRoute, first: number): number[] {
  const hashed = route.balance === 'source' || route.balance === 'host';
  const order = hashed
    ? rankAll(hashKey(path, client, route), route.hashes)
    : inTurn(route.backends.length, first);
  return [first, ...order.filter(index => index !== first)];
}

/** The key that the route's balance hashes; undefined where it does not hash, or the client is not known. */
export function hashKeyOf(
  route: TableRoute,
  host: string,
  client: Uint8Array | undefined,
): number | undefined {
  if (route.balance === 'host') return hashText(host);
  return route.balance === 'source' && client !== undefined ? hashBytes(client, 0, client.length) : undefined;
}

function hashKey(path: Choosing, client: number, route: TableRoute): number {
  const { rows } = path;
  if (route.balance === 'host') return hashText(rows.host[client] ?? '');
  const at = rows.addressAt(client, CLIENT);
  return hashBytes(rows.addresses, at, at + 16);
}

function inTurn(count: number, first: number): number[] {
  return Array.from({ length: count }, (_, index) => (first + index) % count);
}

/** Begins at a random place, so that equals share the load. */
function leastOf(path: Choosing, route: TableRoute): number {
  const count = route.backends.length;
  const start = Math.floor(Math.random() * count);
  let best = start;
  let fewest = Number.POSITIVE_INFINITY;
  for (let step = 0; step < count; step++) {
    const index = (start + step) % count;
    const active = activeOn(path, route, index);
    if (active < fewest) {
      fewest = active;
      best = index;
    }
  }
  return best;
}

function lesserOfTwo(path: Choosing, route: TableRoute): number {
  const count = route.backends.length;
  const one = Math.floor(Math.random() * count);
  const other = (one + 1 + Math.floor(Math.random() * (count - 1))) % count;
  return activeOn(path, route, one) <= activeOn(path, route, other) ? one : other;
}

function activeOn(path: Choosing, route: TableRoute, index: number): number {
  return path.shared.backends.get(route.backends[index].slot, BACKEND_ACTIVE);
}
