// What a worker makes of a part of ours that closes what it was handed. The features are in test/features.

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
const PART = 5;
const CAPACITY = 16;

const parts = [
  ['HTTP', HTTP_SLOT, HTTP, 'HTTP/1.1 503 '],
  // The alert internal_error.
  ['TLS', TUNNEL_SLOT, TLS, '\x15\x03\x01\0\x02\x02P'],
] as const;

/** A connection that was handed over; `read` is what the part's socket answers. */
function given(slot: number, protocol: number, read: number) {
  const written: Buffer[] = [];
  const io = {
    capacity: CAPACITY,
    now: () => 0,
    read: (handle: number) => (handle === PART ? read : AGAIN),
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
    [CLIENT, PART],
    [PART, CLIENT],
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
  const ends = () => tunnelEvent(path, PART, READABLE | HUNG_UP);
  return { verdicts, ends, count, heard: () => Buffer.concat(written).toString('latin1') };
}

for (const [name, slot, protocol, refusal] of parts) {
  for (const [how, read] of [
    ['FIN', 0],
    ['a reset', RESET],
  ] as const) {
    test(`tunnelEvent(): the ${name} part ends with ${how} what it has not looked at: over-limit, and the client hears so`, () => {
      const { ends, count, heard } = given(slot, protocol, read);
      ends();
      assert.deepEqual([count('over-limit'), count('shutdown')], [1, 0]);
      assert.ok(heard().startsWith(refusal), heard());
    });
  }

  test(`tunnelEvent(): the ${name} part breaks off what it has taken: its thread has died`, () => {
    const { verdicts, ends, count, heard } = given(slot, protocol, slot === HTTP_SLOT ? 0 : RESET);
    verdicts.say(CLIENT, verdicts.generation(CLIENT), {
      slot: 0,
      backendSlot: 0,
      dialMs: -1,
      reason: -1,
      isBroken: false,
      isEnding: false,
    });
    ends();
    assert.deepEqual([count('over-limit'), count('shutdown')], [0, 1]);
    assert.equal(heard(), '');
  });
}
