// How a worker reacts when a protocol thread closes a connection it was handed. Feature tests are in test/features.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AGAIN, HUNG_UP, READABLE, RESET, type Reactor } from '../io/reactor.ts';
import { NonceTable, nonceTableBytes } from '../shared/nonce-table.ts';
import { ALIVE, HANDED_OFF, HTTP, Rows, TLS, TUNNEL } from '../shared/rows.ts';
import {
  BACKEND_FIELDS,
  CLUSTER_FIELDS,
  HTTP_SLOT,
  REASONS_AT,
  RouteCounters,
  SharedSlots,
  TOTAL_FIELDS,
  TUNNEL_SLOT,
} from '../shared/shared-memory.ts';
import { Verdicts } from '../shared/verdicts.ts';
import { DataPath, type Settings } from './data-path.ts';
import { reasonIndex } from './record-end.ts';
import { tunnelEvent } from './tunnel.ts';

const CLIENT = 4;
const LINK = 5;
const CAPACITY = 16;

const threads = [
  ['HTTP', HTTP_SLOT, HTTP, 'HTTP/1.1 503 '],
  // The TLS alert internal_error.
  ['TLS', TUNNEL_SLOT, TLS, '\x15\x03\x01\0\x02\x02P'],
] as const;

/** A handed-off connection; `read` is the result of reading the link to the thread. */
function given(slot: number, protocol: number, read: number) {
  const written: Buffer[] = [];
  const io = {
    capacity: CAPACITY,
    now: () => 0,
    read: (handle: number) => (handle === LINK ? read : AGAIN),
    write: (_: number, bytes: Uint8Array, from: number, to: number) => {
      written.push(Buffer.from(bytes.subarray(from, to)));
      return to - from;
    },
    shutdown() {},
    close() {},
    reset() {},
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
  const nothing = () => {};
  const path = new DataPath(0, io, shared, { log: 'none' } as Settings, nothing, nothing, nothing, nothing);
  for (const [handle, peer] of [
    [CLIENT, LINK],
    [LINK, CLIENT],
  ]) {
    rows.clear(handle);
    rows.state[handle] = TUNNEL;
    rows.peer[handle] = peer;
  }
  rows.slot[CLIENT] = slot;
  rows.protocol[CLIENT] = protocol;
  rows.flags[CLIENT] = ALIVE | HANDED_OFF;
  verdicts.begin(CLIENT);
  const count = (reason: 'over-limit' | 'shutdown') => counters.get(0, REASONS_AT + reasonIndex[reason]);
  const close = () => tunnelEvent(path, LINK, READABLE | HUNG_UP);
  return { verdicts, close, count, sent: () => Buffer.concat(written).toString('latin1') };
}

for (const [name, slot, protocol, refusal] of threads) {
  for (const [how, read] of [
    ['FIN', 0],
    ['a reset', RESET],
  ] as const) {
    test(`tunnelEvent(): the ${name} thread ends an untaken hand-off with ${how}: refused with over-limit`, () => {
      const { close, count, sent } = given(slot, protocol, read);
      close();
      assert.deepEqual([count('over-limit'), count('shutdown')], [1, 0]);
      assert.ok(sent().startsWith(refusal), sent());
    });
  }

  test(`tunnelEvent(): the ${name} thread breaks off a connection it has taken: the thread has died`, () => {
    const { verdicts, close, count, sent } = given(slot, protocol, slot === HTTP_SLOT ? 0 : RESET);
    verdicts.say(CLIENT, verdicts.generation(CLIENT), {
      slot: 0,
      backendSlot: 0,
      dialMs: -1,
      reason: -1,
      isBroken: false,
      isEnding: false,
    });
    close();
    assert.deepEqual([count('over-limit'), count('shutdown')], [0, 1]);
    assert.equal(sent(), '');
  });
}
