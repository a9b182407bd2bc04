// Chooses the backend of a route's pool for a connection. `source` and `host` hash, so that all replicas choose alike
// and a removed backend moves only its own clients; the others use counts shared by all workers. Backends that health
// checks report down are skipped while another backend of the pool is up.

import { CLIENT, type Rows } from '../shared/rows.ts';
import {
  BACKEND_ACTIVE,
  BACKEND_DOWN,
  BACKEND_TURN,
  type SharedSlots,
  TOTAL_DOWN,
} from '../shared/shared-memory.ts';
import type { TableRoute } from '../table/table.ts';
import { hashBytes, hashText, pickBest, rankAll } from './rendezvous.ts';

/**
 * After this many rounds of round-robin, one turn is skipped. Konnectivity agents redial until they have reached every
 * server; without the skip, two agents that alternate would each reach the same server every time, for minutes.
 */
const ROUNDS = 4;

/** The rows that hold the client, and the counts that all threads share. */
export interface BalanceState {
  readonly rows: Rows;
  readonly shared: { readonly backends: SharedSlots; readonly totals: Int32Array };
}

/** The backend to try first: its index in the route's pool, which is not empty. */
export function firstBackend(path: BalanceState, client: number, route: TableRoute): number {
  const count = route.backends.length;
  if (count === 1) return 0;
  const up = upOf(path, route);
  const all = up === count;
  switch (route.balance) {
    case 'source':
    case 'host': {
      const key = hashKey(path, client, route);
      return all
        ? pickBest(key, route.hashes)
        : pickBest(key, route.hashes, index => isDown(path, route, index));
    }
    case 'round-robin': {
      const turn = path.shared.backends.add(route.backends[0].slot, BACKEND_TURN, 1) >>> 0;
      return nthUp(path, route, all, (turn + Math.floor(turn / (ROUNDS * up))) % up);
    }
    case 'least-connections':
      return leastOf(path, route, all);
    case 'random':
      return lesserOfTwo(path, route, all, up);
    default:
      return 0;
  }
}

/** All backends in the order to try them, starting with `first`; backends that are down come last. */
export function orderBackends(
  path: BalanceState,
  client: number,
  route: TableRoute,
  first: number,
): number[] {
  const hashed = route.balance === 'source' || route.balance === 'host';
  const order = hashed
    ? rankAll(hashKey(path, client, route), route.hashes)
    : inTurn(route.backends.length, first);
  const others = order.filter(index => index !== first);
  if (upOf(path, route) === order.length) return [first, ...others];
  const [down, up] = [true, false].map(wanted =>
    others.filter(index => isDown(path, route, index) === wanted),
  );
  return [first, ...up, ...down];
}

/** The key that the route's balance hashes; undefined if it does not hash or the client is unknown. */
export function hashKeyOf(
  route: TableRoute,
  host: string,
  client: Uint8Array | undefined,
): number | undefined {
  if (route.balance === 'host') return hashText(host);
  return route.balance === 'source' && client !== undefined ? hashBytes(client, 0, client.length) : undefined;
}

function hashKey(path: BalanceState, client: number, route: TableRoute): number {
  const { rows } = path;
  if (route.balance === 'host') return hashText(rows.host[client] ?? '');
  const at = rows.addressAt(client, CLIENT);
  return hashBytes(rows.addresses, at, at + 16);
}

function inTurn(count: number, first: number): number[] {
  return Array.from({ length: count }, (_, index) => (first + index) % count);
}

/** Number of backends to choose from: those that are up, or all of them if none is. */
function upOf(path: BalanceState, route: TableRoute): number {
  const count = route.backends.length;
  if (Atomics.load(path.shared.totals, TOTAL_DOWN) === 0) return count;
  let up = 0;
  for (let index = 0; index < count; index++) if (!isDown(path, route, index)) up++;
  return up === 0 ? count : up;
}

function isDown(path: BalanceState, route: TableRoute, index: number): boolean {
  return path.shared.backends.get(route.backends[index].slot, BACKEND_DOWN) !== 0;
}

/** The backend with that number among the candidates. If states change during the scan, the last candidate. */
function nthUp(path: BalanceState, route: TableRoute, all: boolean, number: number): number {
  if (all) return number;
  let last = 0;
  for (let index = 0, seen = 0; index < route.backends.length; index++) {
    if (isDown(path, route, index)) continue;
    last = index;
    if (seen++ === number) break;
  }
  return last;
}

/** Starts at a random index, so that backends with equal counts share the load. */
function leastOf(path: BalanceState, route: TableRoute, all: boolean): number {
  const count = route.backends.length;
  const start = Math.floor(Math.random() * count);
  let best = start;
  let fewest = Number.POSITIVE_INFINITY;
  for (let step = 0; step < count; step++) {
    const index = (start + step) % count;
    if (!all && isDown(path, route, index)) continue;
    const active = activeOn(path, route, index);
    if (active < fewest) {
      fewest = active;
      best = index;
    }
  }
  return best;
}

function lesserOfTwo(path: BalanceState, route: TableRoute, all: boolean, up: number): number {
  const first = Math.floor(Math.random() * up);
  const one = nthUp(path, route, all, first);
  if (up === 1) return one;
  const other = nthUp(path, route, all, (first + 1 + Math.floor(Math.random() * (up - 1))) % up);
  return activeOn(path, route, one) <= activeOn(path, route, other) ? one : other;
}

function activeOn(path: BalanceState, route: TableRoute, index: number): number {
  return path.shared.backends.get(route.backends[index].slot, BACKEND_ACTIVE);
}
