import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Reactor } from '../io/reactor.ts';
import { NonceTable, nonceTableBytes } from '../shared/nonce-table.ts';
import { HANDED_OFF, LENT, Rows, TUNNEL } from '../shared/rows.ts';
import {
  BACKEND_FIELDS,
  CLUSTER_FIELDS,
  HTTP_SLOT,
  RouteCounters,
  SharedSlots,
  TOTAL_FIELDS,
} from '../shared/shared-memory.ts';
import { Verdicts } from '../shared/verdicts.ts';
import type { Settings } from './data-path.ts';
import { DataPath } from './data-path.ts';
import { end } from './end.ts';

const CAPACITY = 16;
const CLIENT = 4;
const LINK = 5;
const DESCRIPTOR = 9;

/** A connection whose descriptor is lent to the HTTP thread. */
function given() {
  const calls: string[] = [];
  const io = {
    capacity: CAPACITY,
    now: () => 0,
    close: (handle: number) => calls.push(`close ${handle}`),
    discard: (descriptor: number) => calls.push(`discard ${descriptor}`),
  } as unknown as Reactor;
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
  const settings = { log: 'none' } as Settings;
  const nothing = () => {};
  const path = new DataPath(0, io, shared, settings, nothing, nothing, nothing, nothing);
  for (const handle of [CLIENT, LINK]) {
    rows.clear(handle);
    rows.state[handle] = TUNNEL;
  }
  rows.peer[CLIENT] = LINK;
  rows.peer[LINK] = CLIENT;
  rows.slot[CLIENT] = HTTP_SLOT;
  rows.flags[CLIENT] = HANDED_OFF | LENT;
  verdicts.begin(CLIENT);
  verdicts.lend(CLIENT, DESCRIPTOR);
  return { path, verdicts, calls };
}

test('end() closes a lent descriptor that the HTTP thread has not taken', () => {
  const { path, verdicts, calls } = given();
  const generation = verdicts.generation(CLIENT);
  end(path, CLIENT, 'drained');
  assert.deepEqual(calls, [`discard ${DESCRIPTOR}`, `close ${LINK}`, `close ${CLIENT}`]);
  assert.equal(verdicts.borrow(CLIENT, generation), undefined);
});

test('end() leaves a lent descriptor open that the HTTP thread has taken', () => {
  const { path, verdicts, calls } = given();
  assert.equal(verdicts.borrow(CLIENT, verdicts.generation(CLIENT)), DESCRIPTOR);
  end(path, CLIENT, 'drained');
  assert.deepEqual(calls, [`close ${LINK}`, `close ${CLIENT}`]);
});
