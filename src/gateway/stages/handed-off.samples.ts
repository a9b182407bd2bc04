// For tests: a data path over a fake reactor, with one connection that is handed off to a protocol thread.

import type { Reactor } from '../io/reactor.ts';
import { NonceTable, nonceTableBytes } from '../shared/nonce-table.ts';
import { ALIVE, BACKEND_SIDE, CLIENT_SIDE, HANDED_OFF, Rows, TUNNEL } from '../shared/rows.ts';
import {
  BACKEND_FIELDS,
  CLUSTER_FIELDS,
  RouteCounters,
  SharedSlots,
  TOTAL_FIELDS,
} from '../shared/shared-memory.ts';
import { Verdicts } from '../shared/verdicts.ts';
import type { DataPath, Settings } from './data-path.ts';
import { Dispatcher } from './dispatch.ts';

const CAPACITY = 16;
export const CLIENT = 4;
/** The worker's connection to the thread. */
export const LINK = 5;

export function handedOff(reactor: Partial<Reactor>, slot: number) {
  const io = { capacity: CAPACITY, now: () => 0, ...reactor } as Reactor;
  const counters = new RouteCounters();
  counters.addPage(RouteCounters.newPage());
  const rows = new Rows(Rows.memory(CAPACITY));
  const verdicts = new Verdicts(Verdicts.memory(CAPACITY));
  const shared = {
    rows,
    counters,
    verdicts,
    clusters: new SharedSlots(CLUSTER_FIELDS),
    backends: new SharedSlots(BACKEND_FIELDS),
    totals: new Int32Array(TOTAL_FIELDS),
    nonces: new NonceTable(new SharedArrayBuffer(nonceTableBytes(1)), 1),
  } as unknown as DataPath['shared'];
  const nothing = () => {};
  const path = new Dispatcher(0, io, shared, { log: 'none' } as Settings, {
    message: nothing,
    failed: nothing,
    uplinkRefused: nothing,
    fault: nothing,
  });
  for (const [handle, peer] of [
    [CLIENT, LINK],
    [LINK, CLIENT],
  ]) {
    rows.clear(handle);
    rows.state[handle] = TUNNEL;
    rows.peer[handle] = peer;
  }
  rows.side[CLIENT] = CLIENT_SIDE;
  rows.side[LINK] = BACKEND_SIDE;
  rows.slot[CLIENT] = slot;
  rows.counts[CLIENT] = ALIVE;
  rows.flags[CLIENT] = HANDED_OFF;
  verdicts.begin(CLIENT);
  return { path, rows, verdicts, counters };
}
